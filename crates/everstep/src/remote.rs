//! A server that a command uses over HTTP.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use everstep_net::header::{CONTENT_TYPE, HeaderValue};
use everstep_net::{Client, Guard, Method, Request, Url};
use serde_json::Value;

use crate::exit::invalid;
use crate::settings::RemoteSettings;
use crate::text;

/// Where `everstep serve` listens by default.
const DEFAULT_URL: &str = "http://127.0.0.1:7373";
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const RESPONSE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// For a path without one.
pub(crate) const NO_QUERY: &[(&str, &str)] = &[];

/// A server, and the key to ask it with.
pub(crate) struct Remote {
    client: Client,
    url: Url,
    key: HeaderValue,
}

impl Remote {
    /// The server that was named; none when none was.
    pub(crate) fn from_settings(settings: &RemoteSettings) -> anyhow::Result<Option<Self>> {
        let Some(server) = settings.server.as_deref().filter(|server| !server.is_empty()) else { return Ok(None) };
        let wrong =
            || invalid(format!("--server (EVERSTEP_URL) is {server:?}; write http://HOST:PORT or https://HOST"));
        let url: Url = server.parse().map_err(|_| wrong())?;
        if !["http", "https"].contains(&url.scheme()) || !["", "/"].contains(&url.path()) || url.query().is_some() {
            return Err(wrong());
        }
        // The key of this machine's server is for nobody else's eyes.
        let is_local = url.host_str().is_some_and(|host| ["localhost", "127.0.0.1", "[::1]"].contains(&host));
        let Some(key) = settings.api_key.clone().or_else(|| first_key().filter(|_| is_local)) else {
            return Err(invalid(
                "a server is asked with a key: put one into EVERSTEP_API_KEY, or on its machine go where its data folder is",
            ));
        };
        let mut key = HeaderValue::from_str(key.trim()).map_err(|_| invalid("EVERSTEP_API_KEY is no key"))?;
        key.set_sensitive(true);
        // A person may reach what this machine reaches.
        Ok(Some(Self { client: Client::new(Guard::open()), url, key }))
    }

    /// The server that was named, else the one that `everstep serve` starts on this machine, with its first key.
    pub(crate) fn from_settings_or_default(settings: &RemoteSettings) -> anyhow::Result<Self> {
        let mut settings = settings.clone();
        settings.server = settings.server.filter(|server| !server.is_empty()).or_else(|| Some(DEFAULT_URL.to_owned()));
        Ok(Self::from_settings(&settings)?.expect("a server is named"))
    }

    /// A path of these segments, with a query.
    pub(crate) fn path(segments: &[&str], query: &[(impl AsRef<str>, impl AsRef<str>)]) -> String {
        let mut url: Url = "http://server/".parse().expect("it is an address");
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

    /// As [`Remote::ask`], with an idempotency key.
    pub(crate) async fn ask_with(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let url = self.url.join(path).context("writing the address")?;
        let mut request = Request {
            timeout: REQUEST_TIMEOUT,
            redirects: 0,
            max_bytes: RESPONSE_BYTES_MAX,
            ..Request::new(method, url)
        };
        request.headers.insert("x-api-key", self.key.clone());
        if let Some(key) = key {
            let key =
                HeaderValue::from_str(key).map_err(|_| invalid("--key holds a character that no header takes"))?;
            request.headers.insert("idempotency-key", key);
        }
        if let Some(body) = body {
            request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            request.body = body.to_string().into_bytes();
        }
        let answer = self.client.send(request).await.map_err(|error| anyhow!("asking {}: {error}", self.url))?;
        let body =
            if answer.body.is_empty() { Value::Null } else { serde_json::from_slice(&answer.body).unwrap_or_default() };
        if answer.status.is_success() {
            return Ok(body);
        }
        let Some(message) = describe_refusal(&body) else { bail!("{} answered {}", self.url, answer.status) };
        // What was given is wrong, or the server is.
        if answer.status.is_client_error() && ![401, 403, 429].contains(&answer.status.as_u16()) {
            return Err(invalid(message));
        }
        Err(anyhow!(message))
    }

    /// All pages of a list.
    pub(crate) async fn list(&self, path: &str, name: &str) -> anyhow::Result<Vec<Value>> {
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let more = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let mut page = self.ask(Method::GET, &format!("{path}?limit=500{more}"), None).await?;
            match page[name].take() {
                Value::Array(rows) => all.extend(rows),
                _ => bail!("{} answered without {name}; is it an Everstep server?", self.url),
            }
            cursor = page["nextCursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }
}

/// The key that the first start of a server has left in its data folder.
fn first_key() -> Option<String> {
    let data = std::env::var_os("EVERSTEP_DATA").unwrap_or_else(|| "./data".into());
    std::fs::read_to_string(Path::new(&data).join("admin.key")).ok()
}

/// An error response of the server as text, safe to show.
fn describe_refusal(body: &Value) -> Option<String> {
    let text_of = |name: &str| body[name].as_str().map(text::safe);
    let (code, detail) = (text_of("code")?, text_of("detail")?);
    let hint = text_of("hint").map(|hint| format!("; {hint}")).unwrap_or_default();
    let problems = body["problems"].as_array().into_iter().flatten().map(describe_problem);
    Some(problems.fold(format!("{code}: {detail}{hint}"), |message, line| format!("{message}\n  {line}")))
}

/// What is wrong with a definition, and where.
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
}
