//! `/v1/workspaces`: an API key gives access to one workspace only.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_net::Url;
use everstep_store::WorkspaceRow;
use everstep_vault::check_name;
use serde_json::json;

use super::wire::{ChangedOptions, ChangedWorkspace, MadeWorkspace, NewWorkspace, Workspace, Workspaces};
use crate::auth::{ApiKey, Caller, Grant, NewKey, Role};
use crate::http::body::Body;
use crate::http::page::Page;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::id;
use crate::resources::keys::wire::Key;
use crate::server::AppState;

const BODY_BYTES_MAX: usize = 16 * 1024;
/// Characters of a name.
const NAME_CHARS_MAX: usize = 64;
/// Entries of a workspace's role map.
const ROLES_MAX: usize = 200;
/// Characters of a role, and of the permission that it maps to.
const ROLE_CHARS_MAX: usize = 128;
/// Bytes of an address for mails.
const NOTIFY_URL_BYTES_MAX: usize = 2_048;

pub(crate) async fn list(
    State(app): State<AppState>,
    caller: Caller,
    query: Query,
) -> Result<Json<Workspaces>, Problem> {
    only_for_the_default(&caller, "workspaces are listed")?;
    let page = Page::read(&query);
    let after: Option<String> = page.cursor()?;
    let rows = app.access.workspaces().await?;
    let rest = rows.into_iter().filter(|row| after.as_ref().is_none_or(|after| row.name > *after));
    let (rows, next_cursor) = page.cut(rest, |row| row.name.clone());
    Ok(Json(Workspaces { workspaces: rows.into_iter().map(Workspace::from_row).collect(), next_cursor }))
}

/// Creates a workspace, with an admin API key that only this response shows.
pub(crate) async fn make(
    State(app): State<AppState>,
    caller: Caller,
    body: Body<BODY_BYTES_MAX>,
) -> Result<(StatusCode, Json<MadeWorkspace>), Problem> {
    only_for_the_default(&caller, "workspaces are created")?;
    let NewWorkspace { name, options } = body.json()?;
    check_workspace_name(&name).map_err(Problem::invalid)?;
    check_roles(options.roles.as_ref())?;
    let options = change(None, options);
    check_notify(&options)?;
    let (store, now) = (&app.access, app.engine.world().clock.now());
    let taken = || {
        let detail = format!("the workspace {name:?} already exists");
        Problem::new(StatusCode::CONFLICT, "WORKSPACE_EXISTS", detail)
    };
    if store.workspaces().await?.iter().any(|row| row.name == name) {
        return Err(taken());
    }
    let workspace = WorkspaceId::from_uuid(id::new_id(now));
    let row = WorkspaceRow { id: workspace, name: name.clone(), options, created_at: now };
    // The key is created first: if an error follows, the name is still free for another request, and the key belongs to
    // no workspace.
    let (secret, key) = first_key(&row, now);
    store.add_key(&key).await?;
    if !store.add_workspace(&row).await? {
        store.revoke_key(workspace, key.id, now).await?;
        return Err(taken());
    }
    let secret = secret.reveal().to_owned();
    Ok((
        StatusCode::CREATED,
        Json(MadeWorkspace { workspace: Workspace::from_row(row), key: Key::from_row(key), secret }),
    ))
}

/// Changes the options of a workspace: for its own admins, and those of the default workspace.
pub(crate) async fn change_options(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    body: Body<BODY_BYTES_MAX>,
) -> Result<Json<Workspace>, Problem> {
    let ChangedWorkspace { options } = body.json()?;
    check_roles(options.roles.as_ref())?;
    let store = &app.access;
    let is_seen = |row: &WorkspaceRow| row.name == name && [row.id, WorkspaceId::DEFAULT].contains(&caller.workspace);
    let missing = || Problem::not_found(format!("workspace {name:?} was not found"));
    let mut row = store.workspaces().await?.into_iter().find(is_seen).ok_or_else(missing)?;
    row.options = change(Some(&row.options), options);
    check_notify(&row.options)?;
    if !store.set_workspace_options(row.id, &row.options).await? {
        return Err(missing());
    }
    app.role_maps.forget();
    Ok(Json(Workspace::from_row(row)))
}

/// An admin API key for a workspace that is being created.
pub fn first_key(row: &WorkspaceRow, now: everstep_core::time::Timestamp) -> (ApiKey, everstep_store::KeyRow) {
    let secret = ApiKey::generate();
    let name = format!("first admin of {}", row.name);
    let new = NewKey { name, allows: Grant::Role(Role::Admin), expires_at: None, rate_limit: None };
    let key = new.row(&secret, row.id, now);
    (secret, key)
}

/// The error in the name of a workspace.
pub fn check_workspace_name(name: &str) -> Result<(), String> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    let begins_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if is_plain && begins_well && name.len() <= NAME_CHARS_MAX {
        return Ok(());
    }
    let rule = format!("1 to {NAME_CHARS_MAX} letters, digits, `_`, `.` or `-`, beginning with a letter or digit");
    Err(format!("{name:?} is not a valid name of a workspace: use {rule}"))
}

/// Rejects a role map with too many entries, or with a role or a permission that is empty or too long.
fn check_roles(roles: Option<&BTreeMap<String, String>>) -> Result<(), Problem> {
    let Some(roles) = roles else { return Ok(()) };
    let is_word = |word: &String| !word.trim().is_empty() && word.chars().count() <= ROLE_CHARS_MAX;
    if roles.len() > ROLES_MAX || !roles.iter().all(|(role, permission)| is_word(role) && is_word(permission)) {
        let detail = format!(
            "options.roles has at most {ROLES_MAX} entries; each role and each permission has 1 to {ROLE_CHARS_MAX} characters"
        );
        return Err(Problem::invalid(detail).hint("write for example {\"roles\": {\"Clerk\": \"workflow:act\"}}"));
    }
    Ok(())
}

fn change(before: Option<&Payload>, change: ChangedOptions) -> Payload {
    let mut options = before.map_or_else(|| json!({}), |before| before.value().clone());
    if !options.is_object() {
        options = json!({});
    }
    if let Some(fetch) = change.fetch {
        options["fetch"] = fetch.into();
    }
    if let Some(roles) = change.roles {
        options["roles"] = json!(roles);
    }
    let mut set = |name: &str, value: Option<Option<String>>| match (value, options.as_object_mut()) {
        (Some(Some(value)), Some(options)) => drop(options.insert(name.to_owned(), value.into())),
        (Some(None), Some(options)) => drop(options.shift_remove(name)),
        (None, _) | (_, None) => {}
    };
    // The secret has no other use.
    let removes_url = change.notify_url == Some(None) && change.notify_secret.is_none();
    set("notifyUrl", change.notify_url);
    set("notifySecret", if removes_url { Some(None) } else { change.notify_secret });
    Payload::from(options)
}

/// Rejects an address for mails that cannot be used, or that has no secret.
fn check_notify(options: &Payload) -> Result<(), Problem> {
    let [url, secret] = ["notifyUrl", "notifySecret"].map(|name| options.value()[name].as_str());
    let hint =
        "write for example {\"notifyUrl\": \"https://mail.example.com/hooks\", \"notifySecret\": \"mail-signing\"}";
    let invalid = |detail: &str| Err(Problem::invalid(detail).hint(hint));
    let (url, secret) = match (url, secret) {
        (None, None) => return Ok(()),
        (Some(_), None) => return invalid("options.notifyUrl needs options.notifySecret, which signs the mails"),
        (None, Some(_)) => return invalid("options.notifySecret has no effect without options.notifyUrl"),
        (Some(url), Some(secret)) => (url, secret),
    };
    let read: Result<Url, _> = url.parse();
    let is_web = |url: &Url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
    let Some(url) = read.ok().filter(is_web).filter(|url| url.as_str().len() <= NOTIFY_URL_BYTES_MAX) else {
        return invalid("options.notifyUrl must be a URL that begins with http:// or https://");
    };
    if !url.username().is_empty() || url.password().is_some() {
        return invalid(
            "options.notifyUrl must not contain a user and a password; the signature authenticates the server",
        );
    }
    if check_name(secret).is_err() {
        return invalid("options.notifySecret is not a valid name of a secret");
    }
    Ok(())
}

/// Rejects admins of workspaces other than the default one; `what` is only for the latter.
pub(crate) fn only_for_the_default(caller: &Caller, what: &str) -> Result<(), Problem> {
    if caller.workspace == WorkspaceId::DEFAULT {
        return Ok(());
    }
    let detail = format!("{what} only by admins of the default workspace");
    let hint = "GET /v1/me shows the workspace of this API key";
    Err(Problem::new(StatusCode::FORBIDDEN, "PERMISSION_DENIED", detail).hint(hint))
}
