package com.acme.stock;

import java.io.*;
import java.nio.file.*;
import java.util.List;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.web.bind.annotation.*;
import org.yaml.snakeyaml.Yaml;
import javax.persistence.EntityManager;

@RestController
class StockApi {
    private final JdbcTemplate jdbc;
    private final EntityManager em;

    StockApi(JdbcTemplate jdbc, EntityManager em) {
        this.jdbc = jdbc;
        this.em = em;
    }

    @GetMapping("/stock")
    List<Stock> find(@RequestParam String sku) {
        return jdbc.query("select * from stock where sku = '" + sku + "'", new StockMapper()); // ~bad:89
    }

    @GetMapping("/stock/jpa")
    List<?> findJpa(@RequestParam String name) {
        return em.createQuery("from Stock s where s.name = '" + name + "'").getResultList(); // ~bad:89
    }

    @GetMapping("/stock/{id}")
    Stock get(@PathVariable long id) {
        return jdbc.queryForObject("select * from stock where id = ?", new StockMapper(), id); // ~ok:89
    }

    @GetMapping("/sheet")
    byte[] sheet(@RequestParam String file) throws IOException {
        return Files.readAllBytes(Paths.get("/srv/sheets", file)); // ~bad:22
    }

    @PostMapping("/import")
    Object load(@RequestBody String text) {
        return new Yaml().load(text); // ~bad:502
    }

    @PostMapping("/restore")
    Object restore(@RequestBody byte[] blob) throws Exception {
        try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(blob))) { // ~bad:502
            return in.readObject();
        }
    }

    @PostMapping("/label")
    void label(@RequestParam String printer) throws IOException {
        Runtime.getRuntime().exec("lp -d " + printer + " label.pdf"); // ~bad:78
    }

    @PostMapping("/label/safe")
    void labelSafely(@RequestParam String printer) throws IOException {
        new ProcessBuilder(List.of("lp", "-d", printer, "label.pdf")).start(); // ~ok:78
    }

    int parse(String text) {
        try {
            return Integer.parseInt(text);
        } catch (NumberFormatException e) { // ~ok:390
            return -1;
        }
    }

    void close(Closeable one) {
        try {
            one.close();
        } catch (Exception e) {} // ~bad:390
    }
}
