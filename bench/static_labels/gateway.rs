use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use actix_web::{web, HttpResponse, Responder};
use md5::{Digest, Md5};
use reqwest::Client;
use sha2::Sha256;
use sqlx::PgPool;

pub struct Sessions {
    open: Mutex<HashMap<String, u64>>,
}

pub async fn by_device(pool: web::Data<PgPool>, device: web::Path<String>) -> impl Responder {
    let sql = format!("SELECT * FROM reading WHERE device = '{}'", device.into_inner()); // ~bad:89
    let rows = sqlx::query(&sql).fetch_all(pool.get_ref()).await;
    HttpResponse::Ok().json(rows.map(|r| r.len()).unwrap_or(0))
}

pub async fn by_room(pool: web::Data<PgPool>, room: web::Path<String>) -> impl Responder {
    let rows = sqlx::query("SELECT * FROM reading WHERE room = $1") // ~ok:89
        .bind(room.into_inner())
        .fetch_all(pool.get_ref())
        .await;
    HttpResponse::Ok().json(rows.map(|r| r.len()).unwrap_or(0))
}

pub fn ping(host: &str) -> std::io::Result<std::process::Output> {
    Command::new("sh").arg("-c").arg(format!("ping -c1 {}", host)).output() // ~bad:78
}

pub fn uptime() -> std::io::Result<std::process::Output> {
    Command::new("uptime").arg("-p").output() // ~ok:78
}

pub async fn firmware(name: web::Path<String>) -> impl Responder {
    let image = fs::read(format!("/srv/firmware/{}", name.into_inner())); // ~bad:22
    match image {
        Ok(bytes) => HttpResponse::Ok().body(bytes),
        Err(_) => HttpResponse::NotFound().finish(),
    }
}

pub fn default_image(root: &Path) -> std::io::Result<Vec<u8>> {
    fs::read(root.join("default.bin")) // ~ok:22
}

pub fn digest(password: &str) -> String {
    let mut hasher = Md5::new(); // ~bad:327
    hasher.update(password.as_bytes());
    format!("{:x}", hasher.finalize())
}

pub fn checksum(body: &[u8]) -> String {
    let mut hasher = Sha256::new(); // ~ok:327
    hasher.update(body);
    format!("{:x}", hasher.finalize())
}

pub fn insecure_client() -> reqwest::Result<Client> {
    Client::builder().danger_accept_invalid_certs(true).build() // ~bad:295
}

pub fn client() -> reqwest::Result<Client> {
    Client::builder().https_only(true).build() // ~ok:295
}

pub fn reinterpret(bytes: &[u8; 8]) -> u64 {
    unsafe { std::mem::transmute::<[u8; 8], u64>(*bytes) } // ~bad:704
}

pub fn decode(bytes: &[u8; 8]) -> u64 {
    u64::from_le_bytes(*bytes) // ~ok:704
}

pub fn forget(path: &Path) {
    let _ = fs::remove_file(path); // ~bad:252
}

pub fn remove(path: &Path) -> std::io::Result<()> {
    fs::remove_file(path) // ~ok:252
}

pub fn name_of(bytes: Vec<u8>) -> String {
    unsafe { String::from_utf8_unchecked(bytes) } // ~bad:704
}

pub async fn refresh(sessions: web::Data<Sessions>, client: web::Data<Client>) -> reqwest::Result<()> {
    let open = sessions.open.lock().unwrap(); // ~bad:833
    for host in open.keys() {
        client.get(host).send().await?;
    }
    Ok(())
}

pub fn settings(path: PathBuf) -> std::io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.read_to_string(&mut text)?; // ~ok:772
    Ok(text)
}
