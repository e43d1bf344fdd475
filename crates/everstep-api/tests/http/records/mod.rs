//! Records, links and namespaces over HTTP.

mod busy;
mod expiry;
mod histories;
mod links;
mod many;
mod preconditions;
mod store;
mod transactions;

use axum::http::Method;
use serde_json::Value;

use crate::support::{Answer, Server};

async fn put_with(server: &Server, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    server.ask_as_admin(Method::PUT, path, headers, body).await
}

async fn get_with(server: &Server, path: &str, headers: &[(&str, &str)]) -> Answer {
    server.ask_as_admin(Method::GET, path, headers, &Value::Null).await
}

async fn delete_with(server: &Server, path: &str, headers: &[(&str, &str)]) -> Answer {
    server.ask_as_admin(Method::DELETE, path, headers, &Value::Null).await
}

/// The header `ETag`.
fn tag(answer: &Answer) -> &str {
    answer.headers["etag"].to_str().unwrap()
}
