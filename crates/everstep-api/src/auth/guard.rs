//! The guard of the routes: authenticates the caller and checks its permission.

use std::fmt;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::auth::identity::{TokenError, TokenFault, is_token};
use crate::auth::rate::{BucketOwner, Excess};
use crate::auth::ticket::Ticket;
use crate::auth::{ApiKey, Caller, Permission, Principal, SignInCode};
use crate::http::problem::Problem;
use crate::server::AppState;
use crate::workers;

const SEND_KEY_HINT: &str = "send the header `Authorization: Bearer es_…` or `x-api-key: es_…`; create API keys with `everstep keys create`; \
     the first one is in the file admin.key of the data folder";
const SEND_TOKEN_HINT: &str = "send a token of the identity provider in the header `Authorization: Bearer …`; \
                   its issuer, audience and workspace must be those of this server, and it must have an expiry time";
const NEW_TICKET_HINT: &str = "a ticket is valid for a minute; create another with POST /v1/tickets and an API key";
/// The query parameter that contains a ticket. A route that accepts it is a live one.
pub(crate) const TICKET: &str = "ticket";
/// Query parameters that would contain a key, on any route.
const KEY_PARAMETERS: &[&str] =
    &["key", "apikey", "api_key", "api-key", "x-api-key", "token", "access_token", "authorization", "bearer"];

/// The filter by idempotency key. On its route alone the name does not announce a credential.
pub(crate) const KEY_FILTER: &str = "key";
const KEY_FILTER_PATH: &str = "/v1/runs";

/// The requirement of a route on its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No API key is needed.
    Public,
    /// Any API key.
    Key,
    /// An API key with this permission.
    Permission(Permission),
    /// An API key with this permission; or with `workflow:act`, for runs of state machines that concern the caller. The
    /// handler checks the latter.
    OrAct(Permission),
}

impl Access {
    pub fn permission(self) -> Option<Permission> {
        match self {
            Self::Public | Self::Key => None,
            Self::Permission(permission) | Self::OrAct(permission) => Some(permission),
        }
    }

    /// The permission that a caller lacks for the route.
    fn lacking(self, caller: &Caller) -> Option<Permission> {
        let needed = self.permission().filter(|permission| !caller.may(*permission))?;
        match self {
            Self::OrAct(_) if caller.may(Permission::Act) => None,
            Self::OrAct(_) | Self::Permission(_) | Self::Public | Self::Key => Some(needed),
        }
    }
}

impl From<Permission> for Access {
    fn from(permission: Permission) -> Self {
        Self::Permission(permission)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => f.write_str("no key"),
            Self::Key => f.write_str("any key"),
            Self::Permission(permission) => write!(f, "`{permission}`"),
            Self::OrAct(permission) => {
                write!(f, "`{permission}`, or `{}` for state machines that concern the caller", Permission::Act)
            }
        }
    }
}

/// Whether a route accepts a ticket instead of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TicketPolicy {
    Accepted,
    Rejected,
}

/// The requirements that are checked before a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) tickets: TicketPolicy,
    /// Whether a request changes nothing, whatever its method is.
    pub(crate) is_dry: bool,
    /// Whether all requests of a caller in a minute share an audit row.
    pub(crate) is_audited_per_minute: bool,
}

/// Rejects requests without an API key, and adds the caller to the others.
pub(crate) async fn authenticate(app: &AppState, mut request: Request) -> Result<Request, Problem> {
    let caller = find_caller(app, request.uri(), request.headers()).await?;
    request.extensions_mut().insert(caller);
    Ok(request)
}

/// Admits a caller that has what the route needs, to `run`, the rest of the route. The request and the response carry
/// the gate, for the audit.
pub(crate) async fn permit<F>(gate: Gate, mut request: Request, run: impl FnOnce(Request) -> F) -> Response
where
    F: Future<Output = Response>,
{
    let caller = request.extensions().get::<Caller>().expect("a guarded route has a caller");
    if caller.is_ticket && gate.tickets == TicketPolicy::Rejected {
        return reject("a ticket is accepted only by live routes").into_response();
    }
    if let Some(permission) = gate.access.lacking(caller) {
        let path = workers::redact(request.uri().path());
        tracing::info!(actor = caller.audit_actor().to_text(), %permission, %path, "a caller lacks a permission");
        return lacks_permission(caller, permission).into_response();
    }
    request.extensions_mut().insert(gate);
    let mut response = run(request).await;
    response.extensions_mut().insert(gate);
    response
}

/// The response to a caller that lacks a permission.
pub(crate) fn lacks_permission(caller: &Caller, permission: Permission) -> Problem {
    let detail = format!("this {} lacks the permission {permission}", caller.credential());
    let hint = match caller.principal {
        Principal::Key(_) => format!("create an API key that has it: everstep keys create --permissions {permission}"),
        Principal::Person(_) => format!(
            "the identity provider grants it: the token must have the permission {permission}, or a role that the \
             role map maps to it"
        ),
    };
    Problem::new(StatusCode::FORBIDDEN, "PERMISSION_DENIED", detail).hint(hint)
}

/// The holder of a key; the request counts against its rate limit.
pub(crate) async fn authenticate_api_key(app: &AppState, text: &str) -> Result<Caller, Problem> {
    count_and_admit(app, find_holder(app, text).await?)
}

/// The holder of a worker's key. The frequent requests of a worker are not counted: its session bounds them.
async fn authenticate_worker(app: &AppState, text: &str) -> Result<Caller, Problem> {
    let caller = find_holder(app, text).await?;
    if caller.may(Permission::Serve) { Ok(caller) } else { count_and_admit(app, caller) }
}

/// The person who has sent a token.
async fn find_person(app: &AppState, token: &str) -> Result<Caller, Problem> {
    let Some(identity) = &app.identity else {
        return Err(reject("this server has no identity provider, so it accepts no tokens"));
    };
    let error = match identity.verify(token, app.engine.world().clock.now()).await {
        Ok(verified) => return Ok(Caller::from_person(verified)),
        Err(error) => error,
    };
    match error {
        TokenError::Fault(fault) => {
            app.meters.count_refused_token(fault.reason());
            // No part of the token is logged: it may contain a secret of its holder.
            tracing::info!(reason = fault.reason(), "a token was rejected");
            Err(reject_token(fault))
        }
        TokenError::NoKeys => {
            let detail = "the keys of the identity provider cannot be read, so no token can be verified";
            Err(Problem::unavailable(detail).hint("retry; the log of the server states the reason").retry_after(5))
        }
        TokenError::Store(error) => Err(error.into()),
    }
}

fn reject_token(fault: TokenFault) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "AUTH_ERROR", fault.detail()).hint(SEND_TOKEN_HINT)
}

async fn find_holder(app: &AppState, text: &str) -> Result<Caller, Problem> {
    if is_token(text) {
        return find_person(app, text).await;
    }
    let Ok(secret) = text.parse::<ApiKey>() else {
        return Err(reject("the credential does not have the form of an API key"));
    };
    let found = app.keys.find(&secret, app.engine.world().clock.now()).await?;
    found.ok_or_else(|| reject("the API key is unknown, has expired or was revoked"))
}

/// The caller that created a ticket; the request counts against the rate limit of its key.
pub(crate) async fn authenticate_ticket(app: &AppState, text: &str) -> Result<Caller, Problem> {
    let unknown = || reject("the ticket has expired, or its API key is no longer valid").hint(NEW_TICKET_HINT);
    let ticket = text.parse::<Ticket>().map_err(|()| unknown())?;
    let found = app.keys.find_ticket(&ticket, app.engine.world().clock.now()).await?;
    count_and_admit(app, found.ok_or_else(unknown)?)
}

fn count_and_admit(app: &AppState, caller: Caller) -> Result<Caller, Problem> {
    count_request(app, &caller)?;
    Ok(caller)
}

/// Counts a request against the rate limits of its key and its workspace.
pub(crate) fn count_request(app: &AppState, caller: &Caller) -> Result<(), Problem> {
    let Err(Excess { wait, bucket }) = app.keys.count(caller) else { return Ok(()) };
    let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
    let (detail, hint) = match bucket {
        BucketOwner::Caller => (
            format!("this {} has exceeded its rate limit", caller.credential()),
            "send fewer requests per second, give the key a higher limit, or raise EVERSTEP_RATE_LIMIT on the server",
        ),
        BucketOwner::Workspace => (
            "the keys and people of this workspace have exceeded its rate limit together".to_owned(),
            "send fewer requests per second, or raise EVERSTEP_WORKSPACE_RATE_LIMIT on the server",
        ),
    };
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", detail);
    Err(problem.hint(hint).retry_after(seconds))
}

async fn find_caller(app: &AppState, uri: &Uri, headers: &HeaderMap) -> Result<Caller, Problem> {
    let query = uri.query().unwrap_or_default();
    reject_keys(query, Some(KEY_FILTER).filter(|_| uri.path() == KEY_FILTER_PATH))?;
    let mut shown = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == TICKET);
    match (sent_key(headers)?, shown.next(), shown.next()) {
        (None, None, _) => Err(reject("this route needs an API key")),
        (None, Some((_, ticket)), None) => authenticate_ticket(app, &ticket).await,
        (Some(text), None, _) if workers::is_uncounted(uri.path()) && !Ticket::has_prefix(text) => {
            authenticate_worker(app, text).await
        }
        (Some(text), None, _) => authenticate_header(app, text).await,
        (_, Some(_), _) => Err(reject("send either one ticket or an API key, not both")),
    }
}

/// The caller of a request with an API key or a ticket in a header.
pub(crate) async fn authenticate_header(app: &AppState, text: &str) -> Result<Caller, Problem> {
    if Ticket::has_prefix(text) {
        return authenticate_ticket(app, text).await;
    }
    authenticate_api_key(app, text).await
}

/// Rejects a query string that contains a key.
pub(crate) fn reject_keys_in_query(query: &str) -> Result<(), Problem> {
    reject_keys(query, None)
}

/// The same, for a route with a parameter whose name would announce a key.
fn reject_keys(query: &str, filter: Option<&str>) -> Result<(), Problem> {
    if has_key(query, filter) {
        let detail =
            "an API key in a query string is rejected, because logs and browser histories store it; revoke the key";
        return Err(reject(detail));
    }
    Ok(())
}

pub(crate) fn reject(detail: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "AUTH_ERROR", detail).hint(SEND_KEY_HINT)
}

/// The key in the headers, if there is one.
pub(crate) fn sent_key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let once = |name: header::HeaderName| {
        let mut values = headers.get_all(name).iter();
        let first = values.next();
        if values.next().is_some() {
            return Err(reject("a header with an API key occurs twice"));
        }
        let text = first.map(|value| value.to_str().map_err(|_| reject("a header with an API key is not plain text")));
        text.transpose()
    };
    let bearer = once(header::AUTHORIZATION)?
        .map(|text| match text.split_once(' ') {
            Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => Ok(key.trim()),
            _ => Err(reject("the header Authorization is not `Bearer es_…` or `Bearer <token>`")),
        })
        .transpose()?;
    let plain = once(header::HeaderName::from_static("x-api-key"))?.map(str::trim);
    if plain.is_some_and(is_token) {
        return Err(reject("a token belongs in the header Authorization, not in x-api-key"));
    }
    match (bearer, plain) {
        (Some(bearer), Some(plain)) if bearer != plain => Err(reject("two headers contain two different API keys")),
        (bearer, plain) => Ok(bearer.or(plain)),
    }
}

/// Whether a query string contains a parameter for keys, a value with the form of a key, a token or a sign-in code,
/// or a ticket in another parameter than `ticket`.
fn has_key(query: &str, filter: Option<&str>) -> bool {
    form_urlencoded::parse(query.as_bytes()).any(|(name, value)| {
        (KEY_PARAMETERS.contains(&name.to_ascii_lowercase().as_str()) && filter != Some(&*name))
            || value.parse::<ApiKey>().is_ok()
            || (name != TICKET && value.parse::<Ticket>().is_ok())
            || value.parse::<SignInCode>().is_ok()
            || (value.starts_with("eyJ") && is_token(&value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_a_query_string_are_seen() {
        let key = ApiKey::generate();
        for query in [
            "api_key=x",
            "limit=5&Token=x",
            "x-api-key=",
            &format!("anything={}", key.reveal()),
            "q=eyJhbGciOi.eyJz.c2ln",
        ] {
            assert!(has_key(query, None), "{query}");
        }
        for query in ["", "limit=5&after=12", "status=running&cursor=es_1", "name=a.b.c"] {
            assert!(!has_key(query, None), "{query}");
        }
        // A list of runs has a filter with that name, and a key is rejected even there.
        assert!(has_key("key=order-17", None) && !has_key("key=order-17", Some(KEY_FILTER)));
        assert!(has_key(&format!("key={}", key.reveal()), Some(KEY_FILTER)) && has_key("Key=x", Some(KEY_FILTER)));
    }
}
