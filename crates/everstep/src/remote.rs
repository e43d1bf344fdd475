//! A server that is asked over HTTP.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use everstep_net::header::{CONTENT_TYPE, HeaderValue};
use everstep_net::{Client, Guard, Method, Request, Url};
use serde_json::Value;

use crate::exit::invalid;
use crate::settings::RemoteSettings;

const TIMEOUT: Duration = Duration::from_secs(60);
const ANSWER: usize = 64 * 1024 * 1024;

/// A server, and the key to ask it with.
pub(crate) struct Remote {
    client: Client,
    url: Url,
    key: HeaderValue,
}

impl Remote {
    /// The server that was named; none when none was.
    pub(crate) fn of(settings: &RemoteSettings) -> anyhow::Result<Option<Self>> {
        let Some(server) = settings.server.as_deref().filter(|server| !server.is_empty()) else { return Ok(None) };
        let wrong = || invalid(format!("--server is {server:?}; write http://HOST:PORT or https://HOST"));
        let url: Url = server.parse().map_err(|_| wrong())?;
        if !["http", "https"].contains(&url.scheme()) || !["", "/"].contains(&url.path()) || url.query().is_some() {
            return Err(wrong());
        }
        let Some(key) = settings.api_key.as_deref() else {
            return Err(invalid("a server is asked with a key: put one into EVERSTEP_API_KEY"));
        };
        let mut key = HeaderValue::from_str(key.trim()).map_err(|_| invalid("EVERSTEP_API_KEY is no key"))?;
        key.set_sensitive(true);
        // A person may reach what this machine reaches.
        Ok(Some(Self { client: Client::new(Guard::open()), url, key }))
    }

    /// Asks, and tells a refusal as the server does.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let url = self.url.join(path).context("writing the address")?;
        let mut request = Request { timeout: TIMEOUT, redirects: 0, max_bytes: ANSWER, ..Request::new(method, url) };
        request.headers.insert("x-api-key", self.key.clone());
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
        let told = |name: &str| body[name].as_str().map(str::to_owned);
        let (Some(code), Some(detail)) = (told("code"), told("detail")) else {
            bail!("{} answered {}", self.url, answer.status);
        };
        let hint = told("hint").map(|hint| format!("; {hint}")).unwrap_or_default();
        let message = format!("{code}: {detail}{hint}");
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
