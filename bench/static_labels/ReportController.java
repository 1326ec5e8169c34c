package com.acme.reports;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Random;
import javax.crypto.Cipher;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import javax.xml.XMLConstants;
import javax.xml.parsers.DocumentBuilder;
import javax.xml.parsers.DocumentBuilderFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

public class ReportController {
    private static final Logger log = LoggerFactory.getLogger(ReportController.class);
    private static final Path REPORTS = Path.of("/srv/reports");
    private final Connection connection;

    public ReportController(Connection connection) {
        this.connection = connection;
    }

    public ResultSet byOwner(String owner) throws SQLException {
        Statement statement = connection.createStatement();
        return statement.executeQuery("SELECT * FROM report WHERE owner = '" + owner + "'"); // ~bad:89
    }

    public ResultSet byYear(HttpServletRequest request) throws SQLException {
        String sql = String.format("SELECT * FROM report WHERE year = %s", request.getParameter("year"));
        return connection.createStatement().executeQuery(sql); // ~bad:89
    }

    public ResultSet byId(long id) throws SQLException {
        PreparedStatement statement = connection.prepareStatement("SELECT * FROM report WHERE id = ?"); // ~ok:89
        statement.setLong(1, id);
        return statement.executeQuery();
    }

    public ResultSet all() throws SQLException {
        return connection.createStatement().executeQuery("SELECT id, title FROM report"); // ~ok:89
    }

    public Object restore(HttpServletRequest request) throws IOException, ClassNotFoundException {
        ObjectInputStream in = new ObjectInputStream(request.getInputStream());
        return in.readObject(); // ~bad:502
    }

    public void render(String format, File source) throws IOException {
        Runtime.getRuntime().exec("pandoc -t " + format + " " + source); // ~bad:78
    }

    public void renderSafely(File source) throws IOException {
        new ProcessBuilder("pandoc", "-t", "pdf", source.getPath()).start(); // ~ok:78
    }

    public byte[] download(HttpServletRequest request) throws IOException {
        return Files.readAllBytes(REPORTS.resolve(request.getParameter("name"))); // ~bad:22
    }

    public File attachment(HttpServletRequest request) {
        return new File("/srv/attachments/" + request.getParameter("file")); // ~bad:22
    }

    public byte[] logo() throws IOException {
        return Files.readAllBytes(REPORTS.resolve("logo.png")); // ~ok:22
    }

    public DocumentBuilder parser() throws Exception {
        DocumentBuilderFactory factory = DocumentBuilderFactory.newInstance(); // ~bad:611
        return factory.newDocumentBuilder();
    }

    public DocumentBuilder hardenedParser() throws Exception {
        DocumentBuilderFactory factory = DocumentBuilderFactory.newInstance(); // ~ok:611
        factory.setFeature("http://apache.org/xml/features/disallow-doctype-decl", true);
        factory.setFeature(XMLConstants.FEATURE_SECURE_PROCESSING, true);
        return factory.newDocumentBuilder();
    }

    public byte[] digest(String password) throws Exception {
        return MessageDigest.getInstance("MD5").digest(password.getBytes()); // ~bad:327
    }

    public byte[] checksum(byte[] body) throws Exception {
        return MessageDigest.getInstance("SHA-256").digest(body); // ~ok:327
    }

    public Cipher cipher() throws Exception {
        return Cipher.getInstance("AES/ECB/PKCS5Padding"); // ~bad:327
    }

    public Cipher authenticatedCipher() throws Exception {
        return Cipher.getInstance("AES/GCM/NoPadding"); // ~ok:327
    }

    public String resetToken() {
        return Long.toHexString(new Random().nextLong()); // ~bad:338
    }

    public byte[] inviteToken() {
        byte[] token = new byte[24];
        new SecureRandom().nextBytes(token); // ~ok:338
        return token;
    }

    public void go(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.sendRedirect(request.getParameter("next")); // ~bad:601
    }

    public void home(HttpServletResponse response) throws IOException {
        response.sendRedirect("/reports"); // ~ok:601
    }

    public int size(String name) {
        try {
            return (int) Files.size(REPORTS.resolve("cache").resolve("index.bin"));
        } catch (IOException e) { // ~bad:390
        }
        return 0;
    }

    public int count() {
        try (var files = Files.list(REPORTS)) {
            return (int) files.count();
        } catch (IOException e) { // ~ok:390
            log.warn("the reports cannot be listed", e);
            return 0;
        }
    }

    public int firstByte(String path) throws IOException {
        InputStream in = new FileInputStream(path); // ~bad:772
        int value = in.read();
        return value;
    }

    public int lastByte(String path) throws IOException {
        try (InputStream in = new FileInputStream(path)) { // ~ok:772
            return in.read();
        }
    }
}
