//! `fetch` of scripts, through the guarded client.

use std::str::FromStr;

use everstep_net::header::{HeaderMap, HeaderName, HeaderValue};
use everstep_net::{Client, Method, Url};
use everstep_sandbox::{Fetch, FetchFuture, FetchRequest, FetchResponse};

/// Headers that the client itself sets.
const RESERVED_HEADERS: &[&str] =
    &["connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"];

/// Sends requests to the addresses that the client's guard permits.
pub(crate) struct GuardedFetch(pub(crate) Client);

impl Fetch for GuardedFetch {
    fn fetch(&self, request: FetchRequest) -> FetchFuture {
        let client = self.0.clone();
        Box::pin(async move {
            let response = client.send(read(request)?).await.map_err(|error| error.to_string())?;
            let headers = response.headers.iter();
            let headers = headers.map(|(name, value)| {
                (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            });
            Ok(FetchResponse {
                status: response.status.as_u16(),
                url: response.url.to_string(),
                headers: headers.collect(),
                body: response.body,
            })
        })
    }
}

/// Reads the request of a script; an unknown part is an error.
fn read(request: FetchRequest) -> Result<everstep_net::Request, String> {
    let url = Url::parse(&request.url).map_err(|error| format!("{:?} is not a valid address: {error}", request.url))?;
    let method = request.method.to_ascii_uppercase();
    let is_known = matches!(method.as_str(), "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS");
    let method = Method::from_str(&method).ok().filter(|_| is_known);
    let method = method.ok_or_else(|| {
        format!(
            "the method {:?} is not supported; use one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS",
            request.method
        )
    })?;
    let mut headers = HeaderMap::new();
    for (name, value) in request.headers {
        let read = HeaderName::from_str(&name).map_err(|_| format!("{name:?} is not a valid name of a header"))?;
        if RESERVED_HEADERS.contains(&read.as_str()) {
            return Err(format!("the header {name:?} cannot be set: the client sets it"));
        }
        let value =
            HeaderValue::from_str(&value).map_err(|_| format!("the value of the header {name:?} is not valid"))?;
        headers.append(read, value);
    }
    Ok(everstep_net::Request {
        headers,
        body: request.body.into_bytes(),
        timeout: request.timeout,
        max_bytes: request.max_bytes,
        ..everstep_net::Request::new(method, url)
    })
}
