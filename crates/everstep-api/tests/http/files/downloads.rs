//! Downloads: bytes, ranges, and what a browser may show.

use axum::http::Method;
use serde_json::json;

use super::{CHUNK, bearer, content, download, upload_as, upload_with};
use crate::people as tokens;
use crate::support::Server;

#[tokio::test]
async fn a_file_of_25_mib_comes_back_whole_and_by_ranges() {
    let server = Server::start().await;
    let key = ("x-api-key", server.key());
    let bytes = content(25 * 1024 * 1024);
    let size = bytes.len();
    let uploaded = upload_with(&server, &[key], "large.bin", bytes.clone()).await.is(201);
    assert_eq!(uploaded["size"], size);
    let path = format!("/v1/files/{}", uploaded["id"].as_str().unwrap());
    let (status, headers, read) = download(&server, &path, &[key]).await;
    assert_eq!((status, &headers["accept-ranges"]), (200, &"bytes".parse().unwrap()));
    assert!(read == bytes);
    for (range, expected) in [
        ("bytes=0-0".to_owned(), 0..1),
        (format!("bytes={}-{}", CHUNK - 1, CHUNK), CHUNK - 1..CHUNK + 1),
        (format!("bytes={}-{}", CHUNK, 3 * CHUNK + 5), CHUNK..3 * CHUNK + 6),
        (format!("bytes={}-", size - 3), size - 3..size),
        ("bytes=-5".to_owned(), size - 5..size),
    ] {
        let (status, headers, read) = download(&server, &path, &[key, ("range", &range)]).await;
        assert_eq!(status, 206, "{range}");
        let shown = format!("bytes {}-{}/{size}", expected.start, expected.end - 1);
        assert_eq!(headers["content-range"], shown, "{range}");
        assert_eq!(headers["content-length"], (expected.end - expected.start).to_string(), "{range}");
        assert!(read == bytes[expected], "{range}");
    }
    let (status, headers, _) = download(&server, &path, &[key, ("range", &format!("bytes={size}-"))]).await;
    assert_eq!((status, &headers["content-range"]), (416, &format!("bytes */{size}").parse().unwrap()));
    // A range of another version of the file is not sent.
    let tag = headers_of(&server, &path).await["etag"].to_str().unwrap().to_owned();
    let part = [key, ("range", "bytes=0-0"), ("if-range", &*tag)];
    assert_eq!(download(&server, &path, &part).await.0, 206);
    let part = [key, ("range", "bytes=0-0"), ("if-range", "\"other\"")];
    assert_eq!(download(&server, &path, &part).await.0, 200);
    assert_eq!(download(&server, &path, &[key, ("if-none-match", &tag)]).await.0, 304);
}

async fn headers_of(server: &Server, path: &str) -> axum::http::HeaderMap {
    server.send(Method::HEAD, path, &[("x-api-key", server.key())], "").await.headers().clone()
}

#[tokio::test]
async fn a_browser_shows_only_harmless_files() {
    let server = tokens::start().await;
    let ann = bearer(&server, "ann");
    let cases: [(&str, &[u8], &str); 9] = [
        ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "inline"),
        ("application/pdf", b"%PDF-1.7\n", "inline"),
        ("text/plain", b"hello", "inline"),
        ("image/png", b"<html><script>alert(1)</script>", "attachment"),
        ("image/jpeg", b"\x89PNG\r\n\x1a\n", "attachment"),
        ("image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "attachment"),
        ("text/html", b"<html><script>alert(1)</script>", "attachment"),
        ("text/plain", b"<html><script>alert(1)</script>", "attachment"),
        ("", b"hello", "attachment"),
    ];
    for (media_type, bytes, expected) in cases {
        let id = upload_as(&server, "ann", media_type, bytes).await;
        let (status, headers, read) = download(&server, &format!("/v1/files/{id}"), &[("authorization", &ann)]).await;
        assert_eq!((status, &read[..]), (200, bytes));
        let disposition = headers["content-disposition"].to_str().unwrap();
        assert!(
            disposition.starts_with(&format!("{expected}; filename=\"report.bin\"")),
            "{media_type}: {disposition}"
        );
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["content-security-policy"], "sandbox; default-src 'none'");
    }
}

#[tokio::test]
async fn an_unbound_file_is_read_by_the_person_who_uploaded_it() {
    let server = tokens::start().await;
    let id = upload_as(&server, "ann", "text/plain", b"hello").await;
    let path = format!("/v1/files/{id}");
    let status = async |credential| download(&server, &path, &[("authorization", credential)]).await.0;
    let (ann, bob) = (bearer(&server, "ann"), bearer(&server, "bob"));
    assert_eq!(status(&ann).await, 200);
    assert_eq!(status(&bob).await, 404);
    // Also for an admin.
    server.get(&path).await.refuses(404, "NOT_FOUND");
    server.get("/v1/files/none").await.refuses(404, "NOT_FOUND");
    let made = server.post("/v1/workspaces", &json!({"name": "theirs"})).await.is(201);
    let stranger = made["secret"].as_str().unwrap();
    server.ask(Method::GET, &path, &[("x-api-key", stranger)], "").await.refuses(404, "NOT_FOUND");
}
