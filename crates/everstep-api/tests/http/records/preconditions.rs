//! `If-Match`, `If-None-Match` and `ifRevision`.

use serde_json::json;

use super::{delete_with, get_with, put_with, tag};
use crate::support::Server;

const PATH: &str = "/v1/store/books/one";

#[tokio::test]
async fn a_write_needs_the_tag_that_it_names() {
    let server = Server::start().await;
    put_with(&server, PATH, &[("if-match", "\"1\"")], &json!({"value": 0})).await.refuses(409, "CONCURRENCY_ERROR");
    server.put(PATH, &json!({"value": 1})).await.is(201);
    let second = put_with(&server, PATH, &[("if-match", "\"1\"")], &json!({"value": 2})).await;
    assert_eq!((second.status, tag(&second)), (200, "\"2\""));
    let late = put_with(&server, PATH, &[("if-match", "\"1\"")], &json!({"value": 3})).await;
    let refused = late.refuses(409, "CONCURRENCY_ERROR");
    assert!(refused["detail"].as_str().unwrap().contains("revision 2"), "{refused}");
    delete_with(&server, PATH, &[("if-match", "\"1\"")]).await.refuses(409, "CONCURRENCY_ERROR");
    assert_eq!(delete_with(&server, PATH, &[("if-match", "\"2\"")]).await.status, 204);
    // A record that was created again has another tag, although its revision is the same.
    let again = server.put(PATH, &json!({"value": 1})).await;
    assert_eq!(tag(&again), "\"4\"");
    put_with(&server, PATH, &[("if-match", "\"1\"")], &json!({"value": 3})).await.refuses(409, "CONCURRENCY_ERROR");
}

#[tokio::test]
async fn a_write_may_require_absence() {
    let server = Server::start().await;
    let absent = [("if-none-match", "*")];
    put_with(&server, PATH, &absent, &json!({"value": 1})).await.is(201);
    put_with(&server, PATH, &absent, &json!({"value": 2})).await.refuses(409, "CONCURRENCY_ERROR");
    assert_eq!(server.get(PATH).await.is(200)["value"], 1);
    for wrong in ["\"1\"", "x"] {
        put_with(&server, PATH, &[("if-none-match", wrong)], &json!({"value": 2}))
            .await
            .refuses(400, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn a_wrong_revision_is_a_conflict_that_names_the_stored_one() {
    let server = Server::start().await;
    let absent = server.put(PATH, &json!({"value": 1, "ifRevision": 3})).await.refuses(409, "CONFLICT");
    assert_eq!(absent["revision"], 0);
    server.put(PATH, &json!({"value": 1, "ifRevision": 0})).await.is(201);
    server.put(PATH, &json!({"value": 2, "ifRevision": 1})).await.is(200);
    for wrong in [0, 1, 3] {
        let refused = server.put(PATH, &json!({"value": 3, "ifRevision": wrong})).await.refuses(409, "CONFLICT");
        assert_eq!(refused["revision"], 2);
        assert!(refused["detail"].as_str().unwrap().contains("revision 2"), "{refused}");
    }
    let refused = server.delete(&format!("{PATH}?ifRevision=1")).await.refuses(409, "CONFLICT");
    assert_eq!(refused["revision"], 2);
    assert_eq!(server.delete(&format!("{PATH}?ifRevision=2")).await.status, 204);
    server.delete(&format!("{PATH}?ifRevision=2")).await.refuses(409, "CONFLICT");
}

#[tokio::test]
async fn a_request_has_one_precondition() {
    let server = Server::start().await;
    server.put(PATH, &json!({"value": 1})).await.is(201);
    for (headers, body) in [
        (&[("if-match", "\"1\""), ("if-none-match", "*")][..], json!({"value": 2})),
        (&[("if-match", "\"1\"")], json!({"value": 2, "ifRevision": 1})),
        (&[("if-none-match", "*")], json!({"value": 2, "ifRevision": 0})),
    ] {
        put_with(&server, PATH, headers, &body).await.refuses(400, "VALIDATION_ERROR");
    }
    let path = format!("{PATH}?ifRevision=1");
    delete_with(&server, &path, &[("if-match", "\"1\"")]).await.refuses(400, "VALIDATION_ERROR");
    assert_eq!(server.get(PATH).await.is(200)["revision"], 1);
}

#[tokio::test]
async fn a_reader_that_has_the_record_gets_304() {
    let server = Server::start().await;
    server.put(PATH, &json!({"value": 1})).await.is(201);
    for known in ["\"1\"", "W/\"1\"", "\"7\", \"1\"", "*"] {
        let answer = get_with(&server, PATH, &[("if-none-match", known)]).await;
        assert_eq!((answer.status, tag(&answer)), (304, "\"1\""), "{known}");
        assert!(answer.body.is_null());
    }
    server.put(PATH, &json!({"value": 2})).await.is(200);
    for other in ["\"1\"", "\"abc\"", "1"] {
        let answer = get_with(&server, PATH, &[("if-none-match", other)]).await;
        assert_eq!(tag(&answer), "\"2\"");
        answer.is(200);
    }
}
