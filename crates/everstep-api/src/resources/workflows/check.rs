//! Checks definitions.

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use everstep_core::graph;
use everstep_core::ids::WorkspaceId;
use everstep_core::publisher::Publisher;
use everstep_core::style::Style;
use everstep_engine::CheckedDefinition;
use serde_json::Value;

use crate::auth::{Caller, Permission};
use crate::body_memory::BodyMemory;
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::server::AppState;

/// Bytes of a definition of a caller who may not save it.
const READER_BYTES_MAX: usize = 1024 * 1024;

/// A body with a definition that is checked and not saved. It has at most 1 MiB if the caller may not save definitions.
pub(crate) struct DefinitionBody<const BYTES_MAX: usize>(pub(crate) Body<BYTES_MAX>);

impl<S: AsRef<BodyMemory> + Sync, const BYTES_MAX: usize> FromRequest<S> for DefinitionBody<BYTES_MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let may_save = request.extensions().get::<Caller>().is_some_and(|caller| caller.may(Permission::Publish));
        if may_save {
            return Body::from_request(request, state).await.map(Self);
        }
        let bytes_max = READER_BYTES_MAX.min(BYTES_MAX);
        let too_large = || {
            let detail = format!("the body has more than {bytes_max} bytes");
            let hint = "larger definitions need an API key or a token with workflow:publish";
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", detail).hint(hint)
        };
        Body::read_request(request, state.as_ref(), bytes_max, too_large).await.map(Self)
    }
}

/// A definition that is checked and not saved.
pub(crate) enum Examined {
    Valid(Box<Style>),
    /// All its problems.
    Invalid(Vec<graph::Problem>),
}

impl Examined {
    /// Checks a definition. Called on a thread for checks.
    pub(crate) fn from_definition(app: &AppState, definition: &Value, publisher: &Publisher) -> Self {
        match app.engine.library().validate(definition, Some(publisher)) {
            Ok(style) => Self::Valid(style.into()),
            Err(problems) => Self::Invalid(problems),
        }
    }

    /// A valid definition is invalid in a workspace for which this server is not configured to perform all its parts.
    pub(crate) async fn in_workspace(self, app: &AppState, workspace: WorkspaceId) -> Result<Self, Problem> {
        let style = match self {
            Self::Valid(style) => style,
            Self::Invalid(_) => return Ok(self),
        };
        let obstacles = app.engine.library().find_obstacles(workspace, &style).await?;
        Ok(if obstacles.is_empty() { Self::Valid(style) } else { Self::Invalid(obstacles) })
    }
}

/// Checks a definition that is about to be saved under a name. Called on a thread for checks.
pub(crate) fn check_definition(
    app: &AppState,
    name: &str,
    definition: &Value,
    publisher: Publisher,
) -> Result<CheckedDefinition, Problem> {
    Ok(app.engine.library().check(name, definition, Some(publisher))?)
}
