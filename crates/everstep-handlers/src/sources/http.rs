//! Services that respond with JSON.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everstep_core::failure::{Failure, code};
use everstep_core::ids::WorkspaceId;
use everstep_net::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use everstep_net::{Client, Method, Request, StatusCode, Url};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::arguments::describe;
use super::query::{HttpMethod, HttpRequest, Limits, PathPart, Values, argument_of};
use super::result::{Field, QueryResult};
use super::rows::Rows;
use super::source::{HttpAuth, HttpSource, SecretOrText};
use super::{QUERY_ERROR, net_failure};
use crate::ports::Secrets;
use crate::secrets::RevealedSecrets;

/// Bytes of a response, of which the rows are a part.
const RESPONSE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The characters that are percent-encoded in a path segment.
const PATH_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A query of an HTTP source, with its values.
pub(super) struct ServiceQuery<'a> {
    pub(super) workspace: WorkspaceId,
    pub(super) request: &'a HttpRequest,
    pub(super) values: &'a Values<'a>,
    pub(super) limits: Limits,
    pub(super) max_rows: Option<u32>,
    pub(super) timeout: Duration,
}

/// Queries a service.
pub(super) async fn ask(
    source: &HttpSource,
    client: &Client,
    secrets: &dyn Secrets,
    query: &ServiceQuery<'_>,
) -> Result<QueryResult, Failure> {
    let method = match query.request.method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Head => Method::HEAD,
        HttpMethod::Post => Method::POST,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Patch => Method::PATCH,
        HttpMethod::Delete => Method::DELETE,
    };
    let mut request = Request::new(method, url(source, query.request, query.values)?);
    let mut revealed = RevealedSecrets::default();
    request.headers = headers(source, query.workspace, secrets, &mut revealed).await?;
    request.timeout = query.timeout;
    request.max_bytes = RESPONSE_BYTES_MAX;
    request.read = vec![200..=299];
    if let Some(body) = &query.request.body {
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body = fill(body, query.values)?.to_string().into_bytes();
    }
    let response = client.send(request).await.map_err(|error| net_failure(&error))?;
    if !response.status.is_success() {
        return Err(refused(response.status));
    }
    // A caller must not receive our credentials, even from a service that repeats them.
    let rows = rows(&revealed.mask_bytes(response.body), query.request.rows.as_deref())?;
    let mut gathered = Rows::new(query.limits, query.max_rows, fields(&rows));
    for row in &rows {
        let wants_more = gathered.push(|out| {
            out.push_str(&row.to_string());
            Ok(())
        })?;
        if !wants_more {
            break;
        }
    }
    Ok(gathered.finish(None))
}

/// Whether a service responds and accepts our credentials.
pub(super) async fn test(
    source: &HttpSource,
    client: &Client,
    workspace: WorkspaceId,
    secrets: &dyn Secrets,
    timeout: Duration,
) -> Result<String, Failure> {
    let mut request = Request::new(Method::GET, base(source)?);
    request.headers = headers(source, workspace, secrets, &mut RevealedSecrets::default()).await?;
    request.timeout = timeout;
    request.max_bytes = RESPONSE_BYTES_MAX;
    let response = client.send(request).await.map_err(|error| net_failure(&error))?;
    let status = response.status;
    let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    if is_refused || status.is_server_error() {
        Err(refused(status))
    } else {
        Ok(format!("the service responds with status {status}"))
    }
}

fn refused(status: StatusCode) -> Failure {
    let message = format!("the service responded with status {status}");
    let may_pass = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
    if may_pass { Failure::transient(QUERY_ERROR, message) } else { Failure::fatal(QUERY_ERROR, message) }
}

fn base(source: &HttpSource) -> Result<Url, Failure> {
    Url::parse(&source.base_url).map_err(|error| Failure::fatal(QUERY_ERROR, format!("the base URL: {error}")))
}

fn url(source: &HttpSource, request: &HttpRequest, values: &Values<'_>) -> Result<Url, Failure> {
    let invalid = |message: String| Failure::fatal(code::INVALID_CONFIG, message);
    let mut path = base(source)?.path().trim_end_matches('/').to_owned();
    for part in request.path_parts().map_err(invalid)? {
        match part {
            PathPart::Text(text) => path.push_str(text),
            PathPart::Argument(name) => {
                let text = plain(name, values)?;
                let text = text.filter(|text| !text.is_empty());
                let text = text.ok_or_else(|| {
                    invalid(format!("the argument {name:?} is part of the path and must not be empty"))
                })?;
                path.extend(utf8_percent_encode(&text, PATH_SEGMENT));
            }
        }
    }
    // They would leave the base URL, and no encoding prevents that.
    if path.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(invalid("an argument in the path must not be . or ..".to_owned()));
    }
    let mut url = base(source)?;
    url.set_path(&path);
    if !request.query.is_empty() {
        let mut pairs = url.query_pairs_mut();
        for (name, value) in &request.query {
            let text = match (argument_of(value), value) {
                (Some(argument), _) => plain(argument, values)?,
                (None, Value::String(text)) => Some(text.clone()),
                (None, value) => Some(value.to_string()),
            };
            if let Some(text) = text {
                pairs.append_pair(name, &text);
            }
        }
    }
    Ok(url)
}

/// An argument as plain text; none if it is null.
fn plain(name: &str, values: &Values<'_>) -> Result<Option<String>, Failure> {
    let value = values.get(name).map_or(&Value::Null, |(_, value)| value);
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Bool(_) | Value::Number(_) => Ok(Some(value.to_string())),
        Value::Array(_) | Value::Object(_) => {
            let message = format!("the argument {name:?} is {}: a URL accepts a string or a number", describe(value));
            Err(Failure::fatal(code::INVALID_CONFIG, message))
        }
    }
}

/// A body with the values of the arguments.
fn fill(body: &Value, values: &Values<'_>) -> Result<Value, Failure> {
    if let Some(name) = argument_of(body) {
        return Ok(values.get(name).map_or(Value::Null, |(_, value)| value.clone()));
    }
    Ok(match body {
        Value::Array(elements) => {
            Value::Array(elements.iter().map(|element| fill(element, values)).collect::<Result<_, _>>()?)
        }
        Value::Object(object) => {
            let filled = object.iter().map(|(name, value)| Ok((name.clone(), fill(value, values)?)));
            Value::Object(filled.collect::<Result<Map<_, _>, Failure>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => body.clone(),
    })
}

async fn headers(
    source: &HttpSource,
    workspace: WorkspaceId,
    secrets: &dyn Secrets,
    revealed: &mut RevealedSecrets,
) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    for (name, value) in &source.headers {
        let invalid = || Failure::fatal(QUERY_ERROR, format!("the header {name:?} cannot be sent"));
        let key = HeaderName::try_from(name).map_err(|_| invalid())?;
        let value = match value {
            SecretOrText::Text(text) => HeaderValue::try_from(text).map_err(|_| invalid())?,
            SecretOrText::Secret(secret) => {
                let secret = secrets.reveal(workspace, &secret.name).await?;
                revealed.add(&secret);
                sensitive(&secret).ok_or_else(invalid)?
            }
        };
        headers.insert(key, value);
    }
    let credentials = match &source.auth {
        None => return Ok(headers),
        Some(HttpAuth::Bearer { token }) => {
            let token = secrets.reveal(workspace, &token.name).await?;
            revealed.add(&token);
            Zeroizing::new(format!("Bearer {}", token.as_str()))
        }
        Some(HttpAuth::Basic { username, password }) => {
            let password = secrets.reveal(workspace, &password.name).await?;
            let pair = Zeroizing::new(format!("{username}:{}", password.as_str()));
            let token = Zeroizing::new(STANDARD.encode(pair.as_bytes()));
            revealed.add(&password);
            revealed.add(&token);
            Zeroizing::new(format!("Basic {}", token.as_str()))
        }
    };
    let unsendable = || Failure::fatal(QUERY_ERROR, "the credentials cannot be sent in a header");
    headers.insert(AUTHORIZATION, sensitive(&credentials).ok_or_else(unsendable)?);
    Ok(headers)
}

/// A value that is not sent to another origin.
fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The rows of a response: the elements of an array, no row for null, and one row for any other value.
fn rows(body: &[u8], pointer: Option<&str>) -> Result<Vec<Value>, Failure> {
    let fatal = |message: String| Failure::fatal(QUERY_ERROR, message);
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let mut answer: Value =
        serde_json::from_slice(body).map_err(|error| fatal(format!("the response is not JSON: {error}")))?;
    let found = match pointer {
        None => answer,
        Some(pointer) => {
            let found = answer.pointer_mut(pointer).map(Value::take);
            found.ok_or_else(|| {
                fatal(format!("the response has no value at {pointer:?}, where the query expects its rows"))
            })?
        }
    };
    Ok(match found {
        Value::Array(rows) => rows,
        Value::Null => Vec::new(),
        row => vec![row],
    })
}

/// The names in the rows, in the order of their first occurrence.
fn fields(rows: &[Value]) -> Vec<Field> {
    let mut fields: Map<String, Value> = Map::new();
    for (name, value) in rows.iter().filter_map(Value::as_object).flatten() {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        if fields.get(name).is_none_or(|known| known == "null") {
            fields.insert(name.clone(), kind.into());
        }
    }
    let named = |(name, kind): (String, Value)| Field { name, kind: kind.as_str().unwrap_or_default().to_owned() };
    // A response with different names in each row is not a table.
    fields.into_iter().take(1_000).map(named).collect()
}
