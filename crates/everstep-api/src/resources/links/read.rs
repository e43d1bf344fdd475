//! Reads links.

use axum::Json;
use axum::extract::State;
use everstep_core::records::{self, Direction, LinkPosition, LinkQuery, LinksRequest, LookupRequest, check_name};

use super::wire::{Link, LinkMatch, LinkMatches, Links};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::page::CURSOR_PARAMETER;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::resources::store::{
    LIMIT_PARAMETER, LinkPath, NamespacePath, check_cursor, check_namespace, find_author, is_end, read_limit,
    refuse_query,
};
use crate::server::AppState;

const RELATION: Parameter = Parameter::text("relation", "Links with this relation.");

pub(super) const LIST_PARAMETERS: &[Parameter] = &[
    Parameter::text("leftType", "Links from identifiers of this type."),
    Parameter::text("rightType", "Links to identifiers of this type."),
    RELATION,
    CURSOR_PARAMETER,
    LIMIT_PARAMETER,
];

pub(super) const LOOKUP_PARAMETERS: &[Parameter] = &[
    Parameter::text("type", "The type of the identifier.").required(),
    Parameter::text("id", "The id of the identifier.").required(),
    Parameter::choice(
        "direction",
        &["forward", "reverse", "either"],
        "`forward`, which is the default: links from the identifier. `reverse`: links to it. `either`: forward links \
         first; a link from an identifier to itself is found in each direction.",
    ),
    RELATION,
    Parameter::text("toType", "Links whose other side has this type."),
    CURSOR_PARAMETER,
    LIMIT_PARAMETER,
];

/// The links of a namespace.
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
    query: Query,
) -> Result<Json<Links>, Problem> {
    let request = LinksRequest {
        namespace: namespace.clone(),
        left_type: name(&query, "leftType")?,
        right_type: name(&query, "rightType")?,
        relation: name(&query, "relation")?,
        limit: read_limit(&query),
        cursor: cursor(&query)?,
    };
    let page = request.into_query().map_err(refuse_query)?;
    let found = app.engine.records().links(caller.workspace, &page).await?;
    if is_end(&found.matches, found.next.as_ref()) {
        check_namespace(&app, caller.workspace, &namespace).await?;
    }
    let links = found.matches.into_iter().map(|found| Link::from_link(found.link, None)).collect();
    Ok(Json(Links { links, next_cursor: found.next.as_ref().map(LinkPosition::to_cursor) }))
}

/// The links of one identifier, each as its other side.
pub(super) async fn lookup(
    State(app): State<AppState>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
    query: Query,
) -> Result<Json<LinkMatches>, Problem> {
    let side = |parameter: &str| name(&query, parameter).map(Option::unwrap_or_default);
    let request = LookupRequest {
        namespace: namespace.clone(),
        from: records::Identifier::new(side("type")?, side("id")?),
        direction: read_direction(&query)?,
        relation: name(&query, "relation")?,
        to_type: name(&query, "toType")?,
        limit: read_limit(&query),
        cursor: cursor(&query)?,
    };
    let page = request.into_query().map_err(refuse_query)?;
    let found = app.engine.records().links(caller.workspace, &page).await?;
    if is_end(&found.matches, found.next.as_ref()) {
        check_namespace(&app, caller.workspace, &namespace).await?;
    }
    let next_cursor = found.next.as_ref().map(LinkPosition::to_cursor);
    let matches = found.matches.into_iter().map(LinkMatch::from_match).collect();
    Ok(Json(LinkMatches { matches, next_cursor }))
}

/// One link, by its id.
pub(super) async fn get(State(app): State<AppState>, caller: Caller, path: LinkPath) -> Result<Json<Link>, Problem> {
    let LinkPath { namespace, id } = path;
    let query = LinkQuery::by_id(namespace.as_str(), id);
    let found = app.engine.records().links(caller.workspace, &query).await?;
    let found = found.matches.into_iter().next().ok_or_else(|| missing(&namespace, id))?;
    let written = (found.link.change, found.link.run, found.link.step.clone());
    let author = find_author(&app, caller.workspace, &namespace, written).await?;
    Ok(Json(Link::from_link(found.link, Some(author))))
}

pub(super) fn missing(namespace: &str, id: records::LinkId) -> Problem {
    Problem::not_found(format!("link {} of namespace {namespace:?} was not found", id.0))
}

/// A query parameter that is a name.
pub(super) fn name(query: &Query, parameter: &str) -> Result<Option<String>, Problem> {
    let name = query.text(parameter).map(|text| check_name(&format!("the query parameter {parameter:?}"), text));
    name.transpose().map_err(refuse_query)
}

fn read_direction(query: &Query) -> Result<Direction, Problem> {
    match query.text("direction") {
        None | Some("forward") => Ok(Direction::Forward),
        Some("reverse") => Ok(Direction::Reverse),
        Some("either") => Ok(Direction::Either),
        Some(other) => Err(Problem::invalid(format!(
            "the query parameter \"direction\" must be `forward`, `reverse` or `either`, not {other:?}"
        ))),
    }
}

fn cursor(query: &Query) -> Result<Option<String>, Problem> {
    check_cursor(query, |text| LinkPosition::from_cursor(text).map(|_| text.to_owned()))
}
