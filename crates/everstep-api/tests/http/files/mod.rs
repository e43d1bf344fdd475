//! Files: uploads, downloads, and the transitions that bind them.

mod downloads;
mod transitions;
mod uploads;

use axum::body::Bytes;
use axum::http::{HeaderMap, Method};
use http_body_util::BodyExt;
use serde_json::Value;

use crate::people as tokens;
use crate::support::{Answer, Server};

/// Bytes of a chunk.
const CHUNK: usize = 256 * 1024;

/// Bytes of which no two chunks are equal, with every value of a byte.
fn content(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

/// The header with the credential of a person who may only act.
fn bearer(server: &Server, person: &str) -> String {
    format!("Bearer {}", tokens::token(server, person, &["workflow:act"]))
}

/// Uploads a file with these headers.
async fn upload_with(server: &Server, headers: &[(&str, &str)], name: &str, bytes: Vec<u8>) -> Answer {
    let path = format!("/v1/files?name={name}");
    let response = server.send_bytes(Method::POST, &path, headers, Bytes::from(bytes)).await;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Answer { status, headers, body: serde_json::from_slice(&body).unwrap_or(Value::Null) }
}

/// Uploads a file as a person, and returns its id.
async fn upload_as(server: &Server, person: &str, media_type: &str, bytes: &[u8]) -> String {
    let bearer = bearer(server, person);
    let headers = [("authorization", &*bearer), ("content-type", media_type)];
    let uploaded = upload_with(server, &headers, "report.bin", bytes.to_vec()).await.is(201);
    uploaded["id"].as_str().unwrap().to_owned()
}

/// A download: its status, its headers and its bytes.
async fn download(server: &Server, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, Bytes) {
    let response = server.send(Method::GET, path, headers, "").await;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    (status, headers, response.into_body().collect().await.unwrap().to_bytes())
}

/// The number of files and of chunks in the database, with those that no reader finds.
fn count_rows(server: &Server) -> (i64, i64) {
    let connection = rusqlite::Connection::open(server.folder.path().join("everstep.db")).unwrap();
    let count = |table: &str| {
        connection.query_row(&format!("select count(*) from {table}"), [], |row| row.get::<_, i64>(0)).unwrap()
    };
    (count("files"), count("file_chunks"))
}
