//! Stands before the routes: who is it, and may they?

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::auth::{Caller, Permission, Secret};
use crate::problem::Problem;
use crate::server::Served;

const HOW: &str = "send the header `Authorization: Bearer es_…` or `x-api-key: es_…`; \
                   keys are made with `everstep keys create`, and the first one stands in the file admin.key of the \
                   data folder";
/// Query parameters that are meant to hold a key wherever they occur.
const KEY_PARAMETERS: &[&str] =
    &["key", "apikey", "api_key", "api-key", "x-api-key", "token", "access_token", "authorization", "bearer"];

/// Lets nobody through without a key, and tells the route who it is.
pub(crate) async fn authenticate(State(served): State<Served>, mut request: Request, next: Next) -> Response {
    match find(&served, request.uri(), request.headers()).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// Lets through whoever has a permission.
pub(crate) async fn permit(permission: Permission, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>().expect("a guarded route has a caller");
    if caller.may(permission) {
        return next.run(request).await;
    }
    tracing::info!(key = %caller.key, %permission, path = request.uri().path(), "a key was refused");
    lacks(permission).into_response()
}

/// Says that a key may not do something.
pub(crate) fn lacks(permission: Permission) -> Problem {
    let detail = format!("this key lacks the permission {permission}");
    let hint = format!("make one that has it: everstep keys create --permissions {permission}");
    Problem::new(StatusCode::FORBIDDEN, "PERMISSION_DENIED", detail).hint(hint)
}

async fn find(served: &Served, uri: &Uri, headers: &HeaderMap) -> Result<Caller, Problem> {
    refuse_query(uri)?;
    let Some(given) = given(headers)? else { return Err(refuse("this route needs a key")) };
    by_key(served, given).await.map(|(caller, _)| caller)
}

/// The holder of a key.
pub(crate) async fn by_key(served: &Served, text: &str) -> Result<(Caller, Secret), Problem> {
    let Ok(secret) = text.parse::<Secret>() else { return Err(refuse("what was sent has not the form of a key")) };
    let found = served.keys.find(&secret).await?;
    found.map(|caller| (caller, secret)).ok_or_else(|| refuse("the key is unknown or was revoked"))
}

pub(crate) fn refuse(detail: &str) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "AUTH_ERROR", detail).hint(HOW)
}

/// The key in the headers, if there is one.
pub(crate) fn given(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let once = |name: header::HeaderName| {
        let mut values = headers.get_all(name).iter();
        let first = values.next();
        if values.next().is_some() {
            return Err(refuse("a header with a key stands twice"));
        }
        let text = first.map(|value| value.to_str().map_err(|_| refuse("a header with a key is not plain text")));
        text.transpose()
    };
    let bearer = once(header::AUTHORIZATION)?
        .map(|text| match text.split_once(' ') {
            Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => Ok(key.trim()),
            _ => Err(refuse("the header Authorization is not `Bearer es_…`")),
        })
        .transpose()?;
    let plain = once(header::HeaderName::from_static("x-api-key"))?.map(str::trim);
    match (bearer, plain) {
        (Some(bearer), Some(plain)) if bearer != plain => Err(refuse("two headers hold two different keys")),
        (bearer, plain) => Ok(bearer.or(plain)),
    }
}

/// Refuses a request with a key in its query string.
pub(crate) fn refuse_query(uri: &Uri) -> Result<(), Problem> {
    if has_key(uri.query().unwrap_or_default()) {
        let detail = "a key in a query string is refused, because logs and histories keep it; consider it known";
        return Err(refuse(detail));
    }
    Ok(())
}

/// Whether a query string holds what is or should be a key.
fn has_key(query: &str) -> bool {
    form_urlencoded::parse(query.as_bytes()).any(|(name, value)| {
        KEY_PARAMETERS.contains(&name.to_ascii_lowercase().as_str()) || value.parse::<Secret>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_a_query_string_are_seen() {
        let key = Secret::generate();
        for query in ["api_key=x", "limit=5&Token=x", "x-api-key=", &format!("anything={}", key.reveal())] {
            assert!(has_key(query), "{query}");
        }
        for query in ["", "limit=5&after=12", "status=running&cursor=es_1"] {
            assert!(!has_key(query), "{query}");
        }
    }
}
