//! The guarded client.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Method, StatusCode, Url};
use rustls::crypto::ring;

use crate::error::Error;
use crate::guard::Guard;
use crate::redirect;
use crate::resolver::Resolver;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_CONNECTIONS_MAX: usize = 16;
const HEADERS_MAX: usize = 100;
const HEADER_BYTES_MAX: u32 = 64 * 1024;
const URL_BYTES_MAX: usize = 16 * 1024;

/// An HTTP client that connects only to addresses that its guard permits. Cheap to clone; clones share their
/// connections.
///
/// 1. Every address is checked at connect time: names after their resolution, literals as they are.
/// 2. Every redirect is checked likewise, and credentials are sent only to their original origin.
/// 3. Proxies of the environment are not used: behind a proxy, nothing could be checked.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    guard: Arc<Guard>,
    /// For `http:` addresses, which need no certificates.
    plain: OnceLock<Result<reqwest::Client, String>>,
    /// For `https:` addresses. Created at its first use: reading the machine's certificates takes some time.
    secure: OnceLock<Result<reqwest::Client, String>>,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub url: Url,
    /// Headers with a secret are marked as sensitive: they are not sent to another origin.
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// Whether the body contains a secret.
    pub has_secret_body: bool,
    /// The timeout of the whole exchange, including redirects.
    pub timeout: Duration,
    /// The number of redirects that are followed; one more is an error. With 0 the redirect itself is returned.
    pub redirects: u32,
    /// A longer response is an error.
    pub max_bytes: usize,
    /// The statuses whose responses are read; empty for all. A longer response with another status is returned without
    /// a body.
    pub read: Vec<RangeInclusive<u16>>,
}

impl Request {
    /// A plain request, with the usual limits.
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Vec::new(),
            has_secret_body: false,
            timeout: Duration::from_secs(30),
            redirects: redirect::REDIRECTS_MAX,
            max_bytes: 1024 * 1024,
            read: Vec::new(),
        }
    }
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    pub status: StatusCode,
    /// The URL after all redirects.
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Client {
    pub fn new(guard: Guard) -> Self {
        Self { inner: Arc::new(Inner { guard: Arc::new(guard), plain: OnceLock::new(), secure: OnceLock::new() }) }
    }

    pub fn guard(&self) -> &Guard {
        &self.inner.guard
    }

    /// Sends a request and waits for the whole response. Every status is a response.
    pub async fn send(&self, request: Request) -> Result<Response, Error> {
        let timeout = request.timeout;
        match tokio::time::timeout(timeout, self.follow(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::Timeout(timeout)),
        }
    }

    /// Sends a request and returns as soon as the head of the response has arrived, for responses that stay open.
    /// `timeout` is the limit for the head. Redirects are not followed.
    pub async fn open(&self, request: Request) -> Result<OpenResponse, Error> {
        let host = request.url.host_str().unwrap_or_default().to_owned();
        match tokio::time::timeout(request.timeout, self.ask(&request)).await {
            Ok(response) => Ok(OpenResponse { response: response?, host }),
            Err(_) => Err(Error::Timeout(request.timeout)),
        }
    }

    async fn follow(&self, mut request: Request) -> Result<Response, Error> {
        let mut followed = 0;
        loop {
            let response = self.ask(&request).await?;
            let Some(target) = redirect::target(&response).filter(|_| request.redirects > 0) else {
                return read(response, &request).await;
            };
            if followed == request.redirects {
                return Err(Error::Redirect(format!("more than {followed} redirects")));
            }
            followed += 1;
            redirect::follow(&mut request, response.status(), &target)?;
        }
    }

    /// One exchange, without the body of the response.
    async fn ask(&self, request: &Request) -> Result<reqwest::Response, Error> {
        let host = self.check(&request.url)?;
        let Inner { guard, plain, secure } = &*self.inner;
        let client = match request.url.scheme() {
            "https" => secure.get_or_init(|| connect(guard)),
            _ => plain.get_or_init(|| connect_plain(guard)),
        };
        let client = client.as_ref();
        let client =
            client.map_err(|reason| Error::Invalid(format!("this machine cannot send HTTP requests: {reason}")))?;
        let asked = client
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone())
            .body(request.body.clone());
        asked.send().await.map_err(|error| describe_failure(error, &host))
    }

    /// The host of a URL, if the URL may be requested.
    fn check(&self, url: &Url) -> Result<String, Error> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Error::Invalid(format!("the scheme {:?} is not supported; use http or https", url.scheme())));
        }
        if url.as_str().len() > URL_BYTES_MAX {
            return Err(Error::Invalid(format!("the address has more than {URL_BYTES_MAX} bytes")));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::Invalid("an address must not contain credentials; send them in a header".to_owned()));
        }
        let Some(host) = url.host_str() else { return Err(Error::Invalid("the address has no host".to_owned())) };
        // A literal is not resolved, so it is checked here. The URL has it in canonical notation.
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        if literal.is_ok_and(|address| !self.inner.guard.permits(address)) {
            return Err(Error::Refused { host: host.to_owned() });
        }
        Ok(host.to_owned())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("guard", &self.inner.guard).finish_non_exhaustive()
    }
}

/// A response whose body is read piece by piece.
#[derive(Debug)]
pub struct OpenResponse {
    response: reqwest::Response,
    host: String,
}

impl OpenResponse {
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The next piece of the body; `None` at its end.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        let chunk = self.response.chunk().await.map_err(|error| describe_failure(error, &self.host))?;
        Ok(chunk.map(|bytes| bytes.to_vec()))
    }
}

fn builder(guard: &Arc<Guard>) -> reqwest::ClientBuilder {
    // Other code may have installed a provider first; any provider is suitable.
    let _ = ring::default_provider().install_default();
    reqwest::Client::builder()
        .dns_resolver(Resolver(Arc::clone(guard)))
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .referer(false)
        .user_agent(concat!("everstep/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .http1_max_headers(HEADERS_MAX)
        .http2_max_header_list_size(HEADER_BYTES_MAX)
}

/// A client that trusts no certificate, because it is used without TLS.
fn connect_plain(guard: &Arc<Guard>) -> Result<reqwest::Client, String> {
    builder(guard).tls_certs_only([]).build().map_err(|error| root_cause(&error))
}

fn connect(guard: &Arc<Guard>) -> Result<reqwest::Client, String> {
    builder(guard).build().or_else(|error| {
        // Small containers have no certificates.
        tracing::warn!(error = %root_cause(&error), "the machine's certificates cannot be used; the client uses the built-in root certificates instead");
        let roots = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
        let roots = roots.filter_map(|root| Certificate::from_der(root).ok());
        builder(guard).tls_certs_only(roots).build().map_err(|error| root_cause(&error))
    })
}

/// Reads a response to its end, unless it is too long.
async fn read(mut response: reqwest::Response, request: &Request) -> Result<Response, Error> {
    let (status, url, headers) = (response.status(), response.url().clone(), response.headers().clone());
    let host = url.host_str().unwrap_or_default().to_owned();
    let max_bytes = request.max_bytes;
    let mut is_long = response.content_length().is_some_and(|length| length > max_bytes as u64);
    let mut body = Vec::new();
    while !is_long && let Some(chunk) = response.chunk().await.map_err(|error| describe_failure(error, &host))? {
        is_long = body.len() + chunk.len() > max_bytes;
        body.extend_from_slice(&chunk);
    }
    if is_long {
        let is_read = request.read.is_empty() || request.read.iter().any(|range| range.contains(&status.as_u16()));
        if is_read {
            return Err(Error::TooLarge(max_bytes));
        }
        // No part of it is kept: a cut part might end in the middle of a secret.
        body.clear();
    }
    Ok(Response { status, url, headers, body })
}

/// Maps a failed exchange to an error.
fn describe_failure(error: reqwest::Error, host: &str) -> Error {
    let error = error.without_url();
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(ours) = error.downcast_ref::<Error>() {
            return ours.clone();
        }
        cause = error.source();
    }
    let host = host.to_owned();
    if error.is_connect() && error.is_timeout() {
        return Error::Unreachable { host, reason: format!("no response within {} s", CONNECT_TIMEOUT.as_secs()) };
    }
    let reason = root_cause(&error);
    match error {
        error if error.is_connect() => Error::Unreachable { host, reason },
        error if error.is_builder() => Error::Invalid(format!("the request is not valid: {reason}")),
        _ => Error::Broken { host, reason },
    }
}

/// The text of an error's innermost cause, which describes the failure.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}
