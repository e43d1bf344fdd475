//! A server that a command uses over HTTP.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use everstep_net::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use everstep_net::{Client, Guard, Method, OpenResponse, Request, StatusCode, Url};
use serde_json::Value;

use crate::exit::invalid;
use crate::settings::RemoteSettings;
use crate::{server_address, text};

/// The default address of `everstep serve`.
pub(crate) const DEFAULT_URL: &str = "http://127.0.0.1:7373";
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// In the error of a TLS handshake: the response is not a message of TLS.
const NO_TLS: &str = "InvalidContentType";

/// For a path without a query.
pub(crate) const NO_QUERY: &[(&str, &str)] = &[];

/// Statuses of a server that stops or has no place, and of a proxy that does not reach it: a repeated request may
/// succeed.
const TRANSIENT_STATUSES: &[u16] = &[429, 502, 503, 504];
/// Those of them after which the server may have performed the request.
const UNCERTAIN_STATUSES: &[u16] = &[502, 504];

/// A request that may succeed if it is repeated. It is the first in the chain of an error.
#[derive(Debug)]
pub(crate) struct Interrupted {
    message: String,
    /// Whether the server may have performed the request.
    pub(crate) is_uncertain: bool,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Interrupted {}

/// A server, and the API key for it.
pub(crate) struct Remote {
    client: Client,
    url: Url,
    /// None for the routes that need none.
    key: Option<HeaderValue>,
}

impl Remote {
    /// The named server, if there is one.
    pub(crate) fn from_settings(settings: &RemoteSettings) -> anyhow::Result<Option<Self>> {
        let Some(server) = settings.server.as_deref().filter(|server| !server.is_empty()) else { return Ok(None) };
        let url = read_url(server)?;
        // The API key in the data folder is sent to a server of this machine only.
        let local_key = || if is_local(&url) { first_key(&data_folder()) } else { None };
        let key = settings.api_key.clone().or_else(local_key);
        Self::with_key(url, key).map(Some)
    }

    /// The server that was named; else the one that uses the data folder, or the one at the default address.
    pub(crate) fn from_settings_or_default(settings: &RemoteSettings) -> anyhow::Result<Self> {
        if let Some(named) = Self::from_settings(settings)? {
            return Ok(named);
        }
        if let Some(found) = Self::of_folder(settings, &data_folder())? {
            return Ok(found);
        }
        let settings = RemoteSettings { server: Some(DEFAULT_URL.to_owned()), ..settings.clone() };
        Ok(Self::from_settings(&settings)?.expect("a server is named"))
    }

    /// As [`Remote::from_settings_or_default`], without an API key: for the routes that need none.
    pub(crate) fn without_key(settings: &RemoteSettings) -> anyhow::Result<Self> {
        let named = settings.server.clone().filter(|server| !server.is_empty());
        let server = named.or_else(|| server_address::find(&data_folder()));
        let url = read_url(server.as_deref().unwrap_or(DEFAULT_URL))?;
        Ok(Self { client: Client::new(Guard::open()), url, key: None })
    }

    /// The server that uses a data folder, with the API key of the settings or of the folder.
    pub(crate) fn of_folder(settings: &RemoteSettings, data: &Path) -> anyhow::Result<Option<Self>> {
        let Some(server) = server_address::find(data) else { return Ok(None) };
        let key = settings.api_key.clone().or_else(|| first_key(data));
        Self::with_key(read_url(&server)?, key).map(Some)
    }

    fn with_key(url: Url, key: Option<String>) -> anyhow::Result<Self> {
        let Some(key) = key else {
            return Err(invalid(
                "the server needs an API key: set EVERSTEP_API_KEY, or run the command on the server's machine, in \
                 the directory that contains its data folder",
            ));
        };
        if key.trim().is_empty() {
            return Err(invalid(
                "--api-key (EVERSTEP_API_KEY) is empty; set it to an API key, or unset the variable to use the API key \
                 in the server's data folder",
            ));
        }
        // The token of a person is accepted in this header alone.
        let key = HeaderValue::from_str(&format!("Bearer {}", key.trim()));
        let mut key = key.map_err(|_| invalid("EVERSTEP_API_KEY is not a valid API key"))?;
        key.set_sensitive(true);
        // A user may reach every address that this machine reaches.
        Ok(Self { client: Client::new(Guard::open()), url, key: Some(key) })
    }

    /// The address of the server, with a slash at its end.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// A path of these segments, with a query.
    pub(crate) fn path(segments: &[&str], query: &[(impl AsRef<str>, impl AsRef<str>)]) -> String {
        let mut url: Url = "http://server/".parse().expect("it is a valid address");
        url.path_segments_mut().expect("it has a path").clear().extend(segments);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{query}", url.path())
    }

    /// Sends a request. An error response becomes an error with the server's message.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        self.ask_with(method, path, None, body).await
    }

    /// Like [`Remote::ask`], with an idempotency key.
    pub(crate) async fn ask_with(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let mut request = self.request(method, path)?;
        if let Some(key) = key {
            let key = HeaderValue::from_str(key)
                .map_err(|_| invalid("--key contains a character that is not allowed in a header"))?;
            request.headers.insert("idempotency-key", key);
        }
        if let Some(body) = body {
            request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request.body = body.to_string().into_bytes();
        }
        let (status, body) = self.send(request).await?;
        if status.is_success() { Ok(body) } else { Err(self.refusal(status, &body)) }
    }

    /// Sends a request and returns the status and the JSON of the answer, whatever the status is.
    pub(crate) async fn ask_status(&self, path: &str) -> anyhow::Result<(StatusCode, Value)> {
        self.send(self.request(Method::GET, path)?).await
    }

    /// Opens a stream of events. The answer has been checked: its status is a success.
    pub(crate) async fn open(&self, path: &str) -> anyhow::Result<OpenResponse> {
        let mut response =
            self.client.open(self.request(Method::GET, path)?).await.map_err(|error| self.explain(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.explain(&error))? {
            body.extend(chunk);
            anyhow::ensure!(
                body.len() <= RESPONSE_BYTES_MAX,
                "{} responded with status {}",
                self.url,
                response.status()
            );
        }
        Err(self.refusal(response.status(), &serde_json::from_slice(&body).unwrap_or_default()))
    }

    fn request(&self, method: Method, path: &str) -> anyhow::Result<Request> {
        let url = self.url.join(path).context("writing the address")?;
        let mut request = Request {
            timeout: REQUEST_TIMEOUT,
            redirects: 0,
            max_bytes: RESPONSE_BYTES_MAX,
            ..Request::new(method, url)
        };
        if let Some(key) = &self.key {
            request.headers.insert(AUTHORIZATION, key.clone());
        }
        Ok(request)
    }

    async fn send(&self, request: Request) -> anyhow::Result<(StatusCode, Value)> {
        let answer = self.client.send(request).await.map_err(|error| self.explain(&error))?;
        let body =
            if answer.body.is_empty() { Value::Null } else { serde_json::from_slice(&answer.body).unwrap_or_default() };
        Ok((answer.status, body))
    }

    /// Why no answer came.
    fn explain(&self, error: &everstep_net::Error) -> anyhow::Error {
        use everstep_net::Error;
        let hint = match error {
            Error::Unreachable { reason, .. } | Error::Broken { reason, .. }
                if self.url.scheme() == "https" && reason.contains(NO_TLS) =>
            {
                let hint = "write http:// in --server (EVERSTEP_URL)";
                return anyhow!("requesting {}: the server seems to speak http, not https; {hint}", self.url);
            }
            Error::Unreachable { .. } => {
                "; is `everstep serve` running? Choose another server with --server (EVERSTEP_URL)"
            }
            _ => "",
        };
        let message = format!("requesting {}: {error}{hint}", self.url);
        if !error.is_transient() {
            return anyhow!(message);
        }
        Interrupted { message, is_uncertain: matches!(error, Error::Timeout(_) | Error::Broken { .. }) }.into()
    }

    /// An error response as an error.
    fn refusal(&self, status: StatusCode, body: &Value) -> anyhow::Error {
        let described = describe_refusal(body);
        // Either an argument is wrong, or the server has a problem.
        let is_given = described.is_some() && status.is_client_error() && ![401, 403, 429].contains(&status.as_u16());
        let message = described.unwrap_or_else(|| format!("{} responded with {status}", self.url));
        if TRANSIENT_STATUSES.contains(&status.as_u16()) {
            return Interrupted { message, is_uncertain: UNCERTAIN_STATUSES.contains(&status.as_u16()) }.into();
        }
        if is_given { invalid(message) } else { anyhow!(message) }
    }

    /// All pages of a list.
    pub(crate) async fn list(&self, path: &str, name: &str) -> anyhow::Result<Vec<Value>> {
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let more = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let mut page = self.ask(Method::GET, &format!("{path}?limit=500{more}"), None).await?;
            match page[name].take() {
                Value::Array(rows) => all.extend(rows),
                _ => bail!("the response of {} contains no {name}; is it an Everstep server?", self.url),
            }
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }
}

fn read_url(server: &str) -> anyhow::Result<Url> {
    let wrong = || invalid(format!("--server (EVERSTEP_URL) is {server:?}; write http://HOST:PORT or https://HOST"));
    let url: Url = server.parse().map_err(|_| wrong())?;
    if !["http", "https"].contains(&url.scheme()) || !["", "/"].contains(&url.path()) || url.query().is_some() {
        return Err(wrong());
    }
    Ok(url)
}

fn is_local(url: &Url) -> bool {
    url.host_str().is_some_and(|host| ["localhost", "127.0.0.1", "[::1]"].contains(&host))
}

/// The data folder of the server on this machine.
pub(crate) fn data_folder() -> PathBuf {
    std::env::var_os("EVERSTEP_DATA").unwrap_or_else(|| "./data".into()).into()
}

/// The API key that the first start of a server has stored in its data folder.
fn first_key(data: &Path) -> Option<String> {
    std::fs::read_to_string(data.join("admin.key")).ok().filter(|key| !key.trim().is_empty())
}

/// An error response of the server as text, safe to show.
fn describe_refusal(body: &Value) -> Option<String> {
    let text_of = |name: &str| body[name].as_str().map(text::safe);
    let (code, detail) = (text_of("code")?, text_of("detail")?);
    let hint = text_of("hint").map(|hint| format!("; {hint}")).unwrap_or_default();
    let problems = body["problems"].as_array().into_iter().flatten().map(describe_problem);
    let errors = body["errors"].as_array().into_iter().flatten().map(|error| {
        let said = |name: &str| error[name].as_str().map(text::safe).unwrap_or_default();
        format!("{}: {}", said("field"), said("message"))
    });
    Some(problems.chain(errors).fold(format!("{code}: {detail}{hint}"), |message, line| format!("{message}\n  {line}")))
}

/// A problem of a definition, and its place.
fn describe_problem(problem: &Value) -> String {
    let said = |name: &str| problem[name].as_str().map(text::safe);
    let pointer = said("path").filter(|path| !path.is_empty()).unwrap_or_else(|| "/".to_owned());
    let hint = said("hint").map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{pointer}: {}{hint}", said("message").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_is_safe_to_show() {
        let problems = json!([{"path": "/nodes/0", "message": "it\u{1b}[2J"}]);
        let body = json!({"code": "X", "detail": "no\u{1b}[2J", "hint": "try\u{9b}", "problems": problems});
        let message = describe_refusal(&body).unwrap_or_default();
        assert_eq!(message, "X: no\\u{1b}[2J; try\\u{9b}\n  /nodes/0: it\\u{1b}[2J");
        assert_eq!(describe_refusal(&json!("<html>")), None);
    }

    fn remote() -> Remote {
        let url = read_url("https://127.0.0.1:7373").unwrap();
        Remote { client: Client::new(Guard::open()), url, key: None }
    }

    #[test]
    fn a_request_that_may_succeed_later_is_distinguished_from_a_rejected_one() {
        let remote = remote();
        let uncertain = |error: anyhow::Error| error.downcast_ref::<Interrupted>().map(|error| error.is_uncertain);
        for (status, expected) in [
            (StatusCode::NOT_FOUND, None),
            (StatusCode::UNAUTHORIZED, None),
            (StatusCode::INTERNAL_SERVER_ERROR, None),
            (StatusCode::TOO_MANY_REQUESTS, Some(false)),
            (StatusCode::SERVICE_UNAVAILABLE, Some(false)),
            (StatusCode::BAD_GATEWAY, Some(true)),
            (StatusCode::GATEWAY_TIMEOUT, Some(true)),
        ] {
            for body in [json!({"code": "X", "detail": "no"}), Value::Null] {
                assert_eq!(uncertain(remote.refusal(status, &body)), expected, "{status}");
            }
        }
        let (host, reason) = ("127.0.0.1".to_owned(), "Connection refused".to_owned());
        let broken = everstep_net::Error::Broken { host: host.clone(), reason: reason.clone() };
        assert_eq!(uncertain(remote.explain(&broken)), Some(true));
        let unreachable = everstep_net::Error::Unreachable { host, reason };
        assert_eq!(uncertain(remote.explain(&unreachable)), Some(false));
        assert_eq!(uncertain(remote.explain(&everstep_net::Error::TooLarge(1))), None);
    }

    #[test]
    fn an_empty_api_key_is_reported() {
        let url = read_url("http://127.0.0.1:7373").unwrap();
        for key in ["", "\n"] {
            let error = Remote::with_key(url.clone(), Some(key.to_owned())).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("EVERSTEP_API_KEY) is empty"), "{error}");
        }
    }
}
