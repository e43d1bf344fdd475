//! The files of the web console, as browsers and programs receive them.

use std::io::Read;

use axum::http::{HeaderMap, Method};
use flate2::read::GzDecoder;
use http_body_util::BodyExt;

use crate::support::{Server, Setup};

const PAGE: (&str, &str) = ("accept", "text/html,*/*");
const GZIP: (&str, &str) = ("accept-encoding", "gzip, br");

struct Received {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

async fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Received {
    let response = server.send(Method::GET, path, headers, "").await;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Received { status, headers, body: response.into_body().collect().await.unwrap().to_bytes().to_vec() }
}

fn inflate(bytes: &[u8]) -> Vec<u8> {
    let mut inflated = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut inflated).unwrap();
    inflated
}

/// The address of the script in the page; none in a build without the console.
async fn script_of(server: &Server) -> Option<String> {
    let page = get(server, "/", &[PAGE]).await;
    let page = String::from_utf8(page.body).unwrap();
    if everstep_api::console_digest().is_none() {
        assert!(page.contains("make console"), "{page}");
        return None;
    }
    let begin = page.find("src=\"/assets/").expect("the page has a script") + "src=\"".len();
    Some(page[begin..].split('"').next().unwrap().to_owned())
}

#[tokio::test]
async fn a_page_that_the_browser_has_is_not_sent_again() {
    let server = Server::start().await;
    let Some(script) = script_of(&server).await else { return };
    for (path, cache) in
        [("/", "no-cache"), ("/runs/one", "no-cache"), (&script, "public, max-age=31536000, immutable")]
    {
        let first = get(&server, path, &[PAGE]).await;
        assert_eq!((first.status, first.headers["cache-control"].to_str().unwrap()), (200, cache), "{path}");
        let etag = first.headers["etag"].to_str().unwrap().to_owned();
        for known in [etag.clone(), format!("W/{etag}"), format!("\"other\", {etag}"), "*".to_owned()] {
            let second = get(&server, path, &[PAGE, ("if-none-match", &known)]).await;
            assert_eq!((second.status, second.body.len()), (304, 0), "{path} {known}");
            assert_eq!(second.headers["etag"], etag);
            assert!(second.headers.contains_key("content-security-policy"));
        }
        assert_eq!(get(&server, path, &[PAGE, ("if-none-match", "\"other\"")]).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_client_without_gzip_receives_files_inflated() {
    let server = Server::start().await;
    let Some(script) = script_of(&server).await else { return };
    for path in ["/", &script] {
        let (plain, packed) = (get(&server, path, &[PAGE]).await, get(&server, path, &[PAGE, GZIP]).await);
        assert_eq!((plain.status, packed.status), (200, 200));
        assert!(!plain.headers.contains_key("content-encoding"));
        assert_eq!(packed.headers["content-encoding"], "gzip");
        assert_eq!(inflate(&packed.body), plain.body, "{path}");
        assert!(packed.body.len() < plain.body.len(), "{path}");
        for received in [&plain, &packed] {
            assert!(received.headers["vary"].to_str().unwrap().contains("accept-encoding"));
            assert_eq!(received.headers["content-length"], received.body.len().to_string());
        }
    }
}

#[tokio::test]
async fn a_server_without_the_console_serves_none_of_it() {
    let server = Server::launch(Setup { serves_console: false, ..Setup::default() }).await;
    let root = get(&server, "/", &[PAGE]).await;
    assert_eq!((root.status, root.headers["location"].to_str().unwrap()), (303, "/docs"));
    for path in ["/runs", "/assets/index.js", "/anything"] {
        server.ask(Method::GET, path, &[PAGE], "").await.refuses(401, "AUTH_ERROR");
        server.ask(Method::GET, path, &[PAGE, ("x-api-key", server.key())], "").await.refuses(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn a_program_learns_that_a_path_does_not_exist_only_with_a_key() {
    let server = Server::start().await;
    for path in ["/runs", "/nothing/here", "/v1/nothing", "/v1x"] {
        for accept in [None, Some(("accept", "application/json")), Some(("accept", "*/*"))] {
            let headers: Vec<_> = accept.into_iter().collect();
            server.ask(Method::GET, path, &headers, "").await.refuses(401, "AUTH_ERROR");
            let with_key: Vec<_> = headers.into_iter().chain([("x-api-key", server.key())]).collect();
            server.ask(Method::GET, path, &with_key, "").await.refuses(404, "NOT_FOUND");
        }
    }
}
