//! Uploads: what is stored, what is refused, and what an interrupted upload leaves.

use std::time::Duration;

use axum::http::Method;
use everstep_core::actor::Actor;
use everstep_core::ids::{FileId, WorkspaceId};
use everstep_core::limits;
use everstep_core::time::Timestamp;
use everstep_store::{NewFile, UploadOutcome};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{CHUNK, bearer, content, count_rows, download, upload_with};
use crate::people as tokens;
use crate::support::{Server, until};

#[tokio::test]
async fn a_file_is_stored_with_its_name_size_and_digest() {
    let server = Server::start().await;
    let headers = [("x-api-key", server.key()), ("content-type", "Text/Plain; charset=utf-8")];
    let uploaded = upload_with(&server, &headers, "f%C3%BCr%20dich.txt", b"hello".to_vec()).await.is(201);
    let digest: String = Sha256::digest(b"hello").iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = json!({
        "id": uploaded["id"], "name": "für dich.txt", "size": 5, "mediaType": "text/plain", "sha256": digest,
    });
    assert_eq!(uploaded, expected);
    let path = format!("/v1/files/{}", uploaded["id"].as_str().unwrap());
    for path in [path.clone(), path.replace("/v1/", "/api/")] {
        let (status, headers, bytes) = download(&server, &path, &[("x-api-key", server.key())]).await;
        assert_eq!((status, &bytes[..]), (200, &b"hello"[..]));
        assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
        assert_eq!(headers["content-length"], "5");
        assert_eq!(headers["etag"], format!("\"{digest}\""));
    }
    let response = server.send(Method::HEAD, &path, &[("x-api-key", server.key())], "").await;
    assert_eq!((response.status().as_u16(), &response.headers()["content-length"]), (200, &"5".parse().unwrap()));
}

#[tokio::test]
async fn uploads_are_bounded_and_have_a_name() {
    let server = Server::start().await;
    let headers = [("x-api-key", server.key())];
    let most = 25 * 1024 * 1024;
    upload_with(&server, &headers, "a", vec![0; most + 1]).await.refuses(413, "PAYLOAD_TOO_LARGE");
    upload_with(&server, &headers, "a", Vec::new()).await.refuses(422, "VALIDATION_ERROR");
    for name in ["", &"x".repeat(256), "%20", ".", "..", "a%2Fb", "a%5Cb", "a%0Ab", "a%00", &"%C3%A9".repeat(128)] {
        upload_with(&server, &headers, name, b"hello".to_vec()).await.refuses(422, "VALIDATION_ERROR");
    }
    let unnamed = server.ask(Method::POST, "/v1/files", &headers, "hello").await;
    unnamed.refuses(422, "VALIDATION_ERROR");
    assert_eq!(count_rows(&server), (0, 0));
    // Without an announced length, the bytes are counted as they arrive.
    let mut stream = begin(&server, "transfer-encoding: chunked").await;
    let piece = vec![7; 1024 * 1024];
    for _ in 0..26 {
        let framed = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
        // The server may have answered and closed the connection.
        if stream.write_all(&framed).await.is_err() {
            break;
        }
    }
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    until("the rest to be deleted", async || (count_rows(&server) == (0, 0)).then_some(())).await;
}

/// Begins an upload, with this header about its length.
async fn begin(server: &Server, length: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let head =
        format!("POST /v1/files?name=a.bin HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\n{length}\r\n\r\n", server.key());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn an_upload_that_is_cut_leaves_nothing() {
    let server = Server::start().await;
    let size = 4 * CHUNK;
    let bytes = content(size);
    for cut in [0, 1, 2, 3, 4].map(|chunks| (chunks * CHUNK).min(size - 1)) {
        for length in [format!("content-length: {size}"), "transfer-encoding: chunked".to_owned()] {
            let mut stream = begin(&server, &length).await;
            match length.starts_with("content") {
                true => stream.write_all(&bytes[..cut]).await.unwrap(),
                false if cut > 0 => {
                    let framed = [format!("{cut:x}\r\n").as_bytes(), &bytes[..cut], b"\r\n"].concat();
                    stream.write_all(&framed).await.unwrap();
                }
                false => {}
            }
            // The server has begun to store it.
            until("the upload to begin", async || (count_rows(&server).0 == 1).then_some(())).await;
            let chunks = i64::try_from(cut / CHUNK).unwrap();
            until("the chunks", async || (count_rows(&server).1 >= chunks).then_some(())).await;
            drop(stream);
            until("the rest to be deleted", async || (count_rows(&server) == (0, 0)).then_some(())).await;
        }
    }
}

#[tokio::test]
async fn an_upload_that_its_server_cannot_delete_is_deleted_soon() {
    let server = Server::start().await;
    // A server that is killed leaves the same.
    let _upload = begin(&server, "content-length: 10").await;
    until("the upload to begin", async || (count_rows(&server).0 == 1).then_some(())).await;
    let world = server.engine.world();
    let minutes = |minutes: u64| world.clock.now().plus(Duration::from_secs(60 * minutes));
    assert_eq!(world.files.sweep_files(minutes(60), 10).await.unwrap(), 0, "a slow upload takes this time");
    assert_eq!(world.files.sweep_files(minutes(76), 10).await.unwrap(), 1);
    assert_eq!(count_rows(&server), (0, 0));
}

#[tokio::test]
async fn four_files_are_uploaded_at_a_time() {
    let server = Server::start().await;
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(begin(&server, "content-length: 10").await);
    }
    until("the uploads to begin", async || (count_rows(&server).0 == 4).then_some(())).await;
    let headers = [("x-api-key", server.key())];
    let fifth = upload_with(&server, &headers, "a", b"hello".to_vec()).await;
    assert_eq!(fifth.headers["retry-after"], "1");
    fifth.refuses(429, "RATE_LIMITED");
    held.pop();
    until("a place", async || {
        (upload_with(&server, &headers, "a", b"hello".to_vec()).await.status == 201).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_person_has_250_mib_that_no_run_has() {
    let server = tokens::start().await;
    let file = NewFile {
        id: FileId::new(Timestamp::EPOCH, 1),
        workspace: WorkspaceId::DEFAULT,
        name: "a".to_owned(),
        media_type: "a/b".to_owned(),
        announced: limits::UNBOUND_FILE_BYTES - 20_000,
        by: Actor::person("ann"),
        created_at: Timestamp::EPOCH,
        expires_at: server.engine.world().clock.now().plus(Duration::from_secs(60)),
    };
    let begun = server.engine.world().files.begin_file(&file, limits::UNBOUND_FILE_BYTES).await.unwrap();
    assert_eq!(begun, UploadOutcome::Stored);
    let (ann, bob) = (bearer(&server, "ann"), bearer(&server, "bob"));
    let large = content(30_000);
    let problem = upload_with(&server, &[("authorization", &ann)], "a", large.clone()).await;
    let problem = problem.refuses(409, "QUOTA_REACHED");
    assert_eq!(problem["quota"], limits::UNBOUND_FILE_BYTES);
    upload_with(&server, &[("authorization", &ann)], "a", content(10)).await.is(201);
    upload_with(&server, &[("authorization", &ann)], "a", content(10)).await.refuses(409, "QUOTA_REACHED");
    upload_with(&server, &[("authorization", &bob)], "a", large).await.is(201);
}

/// A form with one part.
fn form(head: &str, bytes: &[u8], end: &str) -> Vec<u8> {
    [format!("--xyz\r\n{head}\r\n\r\n").as_bytes(), bytes, end.as_bytes()].concat()
}

#[tokio::test]
async fn a_browser_uploads_a_file_as_a_form() {
    let server = Server::start().await;
    let headers = [("x-api-key", server.key()), ("content-type", "multipart/form-data; boundary=xyz")];
    let head = "Content-Disposition: form-data; name=\"file\"; filename=\"photo.png\"\r\nContent-Type: image/png";
    // Bytes that almost end the form.
    let mut bytes = content(2 * CHUNK + 7);
    bytes[CHUNK - 3..CHUNK + 5].copy_from_slice(b"\r\n--xyq\r");
    for bytes in [&bytes[..], b"\r\n--xy", b"x"] {
        let sent = form(head, bytes, "\r\n--xyz--\r\n");
        let path = "/v1/files";
        let response = server.send_bytes(Method::POST, path, &headers, sent.into()).await;
        assert_eq!(response.status(), 201);
        let read = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        let uploaded: serde_json::Value = serde_json::from_slice(&read).unwrap();
        assert_eq!((&uploaded["name"], &uploaded["mediaType"]), (&json!("photo.png"), &json!("image/png")));
        assert_eq!(uploaded["size"], bytes.len());
        let path = format!("/v1/files/{}", uploaded["id"].as_str().unwrap());
        assert!(download(&server, &path, &[("x-api-key", server.key())]).await.2 == bytes);
    }
    let before = count_rows(&server);
    for sent in [
        form(head, b"hello", ""),
        form(head, b"hello", "\r\n--xyz\r\nContent-Disposition: form-data; name=\"b\"\r\n\r\nb\r\n--xyz--\r\n"),
        form(head, b"", "\r\n--xyz--\r\n"),
        form(&"a".repeat(20_000), b"hello", "\r\n--xyz--\r\n"),
        b"--other\r\n\r\nhello\r\n--other--\r\n".to_vec(),
    ] {
        upload_with(&server, &headers, "a", sent).await.refuses(422, "VALIDATION_ERROR");
    }
    assert_eq!(count_rows(&server), before);
}
