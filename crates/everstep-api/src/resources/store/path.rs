//! Namespaces, keys and ids in paths. They are percent-encoded there: `%2F` is a slash of the name.

use std::collections::BTreeMap;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use everstep_core::records::{LinkId, check_name};

use crate::http::problem::Problem;

/// `{namespace}`.
pub(crate) struct NamespacePath(pub(crate) String);

/// `{namespace}/{key}`.
pub(crate) struct RecordPath {
    pub(crate) namespace: String,
    pub(crate) key: String,
}

/// `{namespace}/{id}`.
pub(crate) struct LinkPath {
    pub(crate) namespace: String,
    pub(crate) id: LinkId,
}

impl<S: Send + Sync> FromRequestParts<S> for NamespacePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        name(&segments(parts, state).await?, "namespace").map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RecordPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let segments = segments(parts, state).await?;
        Ok(Self { namespace: name(&segments, "namespace")?, key: name(&segments, "key")? })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for LinkPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let segments = segments(parts, state).await?;
        let id = &segments["id"];
        let unknown = |_| Problem::not_found(format!("link {id:?} was not found: this is not the id of a link"));
        Ok(Self { namespace: name(&segments, "namespace")?, id: id.parse().map_err(unknown)? })
    }
}

/// The parameters of the path, decoded.
async fn segments<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<BTreeMap<String, String>, Problem> {
    let Path(segments) = Path::from_request_parts(parts, state)
        .await
        .map_err(|rejection| Problem::invalid(format!("the path is not valid: {}", rejection.body_text())))?;
    Ok(segments)
}

fn name(segments: &BTreeMap<String, String>, parameter: &str) -> Result<String, Problem> {
    check_name(parameter, &segments[parameter]).map_err(|failure| Problem::invalid(failure.message))
}
