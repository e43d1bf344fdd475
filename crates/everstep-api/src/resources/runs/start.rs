//! Starting runs: `POST /v1/workflows/{name}/runs` and `POST /v1/workflow-runs`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use everstep_core::ids::RunId;
use everstep_core::limits;
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::style::StyleName;
use everstep_core::time::Timestamp;
use everstep_core::workflow;
use everstep_engine::{self as engine, Start, StartDetail, Version};
use futures_util::future;
use serde_json::json;

use super::show;
use super::wire;
use super::wire::{Batch, OfDefinition, OfWorkflow, Started, StartedBatch, StartedOne};
use crate::audit::AuditDraft;
use crate::auth::{Caller, Permission, lacks_permission};
use crate::http::body::Body;
use crate::http::headers::{self, IdempotencyKey};
use crate::http::openapi::{Doc, doc};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::id::is_version;
use crate::resources::machines::{self, Reader};
use crate::resources::workflows;
use crate::run_deadline::within_run_deadline;
use crate::server::AppState;

/// The maximum size of a start: an input and its envelope.
const START_BODY_BYTES_MAX: usize = limits::PAYLOAD_BYTES + 16 * 1024;
/// The maximum size of a batch of starts, and its number of starts.
const BATCH_BODY_BYTES_MAX: usize = 16 * limits::PAYLOAD_BYTES;
const BATCH_STARTS_MAX: usize = 1_000;
/// The refusal of a start of an unknown workflow.
pub(crate) const NOT_FOUND: &str =
    "`WORKFLOW_NOT_FOUND`: no definition was saved under this name, and no worker has ever registered it.";
/// The latest time at which a run may begin, from now.
const BEGIN_MAX: Duration = Duration::from_secs(365 * 86_400);
/// The maximum number of tags of a run, and the characters of a tag's name and value.
const TAGS_MAX: usize = 50;
const TAG_CHARS_MAX: usize = 256;

type Answer = Result<(StatusCode, [(header::HeaderName, HeaderValue); 1], Json<Started>), Problem>;

/// Starts a run of a workflow. The scope of its idempotency key is the workflow: two workflows may use the same key.
pub(crate) async fn of_workflow(
    State(app): State<AppState>,
    audit: AuditDraft,
    Path(name): Path<String>,
    query: Query,
    header: IdempotencyKey,
    body: Body<START_BODY_BYTES_MAX>,
) -> Answer {
    let mut asked: OfWorkflow = body.json_or_default()?;
    asked.idempotency_key = header.or(asked.idempotency_key)?;
    check_name(&name)?;
    let now = app.engine.world().clock.now();
    let start = prepare(audit.caller(), &name, asked, now)?;
    self::start(&app, &audit, start, &query).await
}

/// A start of a workflow, from the request.
fn prepare(caller: &Caller, name: &str, asked: OfWorkflow, now: Timestamp) -> Result<Start, Problem> {
    let OfWorkflow { input, version, idempotency_key, retention_days, tags, start_at, delay_seconds, allow_unserved } =
        asked;
    let begin_at = read_begin(start_at.as_deref(), delay_seconds, now)?;
    check_version(version)?;
    if let Some(key) = &idempotency_key {
        headers::check(key, "idempotencyKey")?;
    }
    let key = idempotency_key.map(|key| (name.to_owned(), key));
    let tags = check_tags(&tags)?;
    check_size(&input)?;
    let (workspace, by) = (caller.workspace, Some(caller.actor()));
    let start = Start::new(name, input);
    Ok(Start { workspace, version, key, tags, retention_days, begin_at, allow_unserved, by, ..start })
}

/// When a run begins, if not at once.
fn read_begin(at: Option<&str>, delay: Option<u64>, now: Timestamp) -> Result<Option<Timestamp>, Problem> {
    let wrong = |field: &'static str, why: String| Problem::invalid(format!("{field}: {why}")).with("path", field);
    let latest = now.plus(BEGIN_MAX);
    match (at, delay) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            Err(Problem::invalid("startAt and delaySeconds are both given; send one of them").with("path", "startAt"))
        }
        (None, Some(seconds)) if seconds > BEGIN_MAX.as_secs() => {
            let why = format!("{seconds} is more than {} (365 days)", BEGIN_MAX.as_secs());
            Err(wrong("delaySeconds", why))
        }
        (None, Some(seconds)) => Ok(Some(now.plus(Duration::from_secs(seconds)))),
        (Some(text), None) => match text.parse::<Timestamp>() {
            Ok(at) if at > latest => Err(wrong("startAt", format!("{text} is more than 365 days from now"))),
            Ok(at) => Ok(Some(at)),
            Err(_) => Err(wrong("startAt", format!("{text:?} is not a time"))
                .hint("write a time in RFC 3339, such as 2026-12-01T06:00:00Z")),
        },
    }
}

/// Starts many runs of a workflow. Each is started, or rejected, separately; they share the cost of the commit.
pub(crate) async fn batch(
    State(app): State<AppState>,
    audit: AuditDraft,
    Path(name): Path<String>,
    header: IdempotencyKey,
    body: Body<BATCH_BODY_BYTES_MAX>,
) -> Result<(StatusCode, Json<StartedBatch>), Problem> {
    if header.into_inner().is_some() {
        let hint = "give each run its own field idempotencyKey";
        return Err(Problem::invalid("the header Idempotency-Key cannot apply to many runs").hint(hint));
    }
    let Batch { runs } = body.json()?;
    if runs.is_empty() || runs.len() > BATCH_STARTS_MAX {
        return Err(Problem::invalid(format!("runs must contain 1 to {BATCH_STARTS_MAX} starts, not {}", runs.len())));
    }
    check_name(&name)?;
    let (caller, row) = (audit.caller(), audit.shared_row());
    let workspace = caller.workspace;
    let reader = Reader::from_caller(&app, caller).await?;
    let now = app.engine.world().clock.now();
    let starts: Vec<_> = runs.into_iter().map(|asked| prepare(caller, &name, asked, now)).collect();
    // The common facts are read once.
    let mut versions: BTreeMap<_, Result<Arc<Version>, Problem>> = BTreeMap::new();
    for start in starts.iter().flatten() {
        if let Entry::Vacant(place) = versions.entry((start.version, start.allow_unserved)) {
            let Start { workspace, version, allow_unserved, .. } = *start;
            let alike = Start { workspace, version, allow_unserved, ..Start::new(&*name, json!({})) };
            place.insert(find(&app, &alike).await);
        }
    }
    let starts = starts.into_iter().map(|start| async {
        let start = start?;
        let version = versions[&(start.version, start.allow_unserved)].as_ref().map_err(Problem::clone)?;
        admit(&app, caller, &reader, version, &start.input)?;
        let (found, audit) = (Some(Arc::clone(version)), Some(Arc::clone(&row)));
        let detail = StartDetail::Beginning;
        let started = within_run_deadline(&app, app.engine.start_run(Start { found, audit, detail, ..start })).await?;
        // The caller of a start learns the status of its run, also without the permission to view runs.
        let status = match started.began {
            Some(began) => began.row.status,
            None => app.engine.runs().glance(workspace, started.run).await?.status,
        };
        Ok(StartedOne::new(started.run, started.created, status))
    });
    let runs: Vec<_> = future::join_all(starts).await.into_iter().map(StartedOne::from_result).collect();
    audit.record(runs.iter().any(StartedOne::is_created));
    let mut warning = None;
    for workflow in versions.values().flatten().map(|found| &found.workflow).filter(|workflow| workflow.needs_worker())
    {
        let elsewhere = &app.hub.elsewhere;
        let is_served = elsewhere.is_served(&app.engine, workspace, &name, workflow.version).await;
        // The started runs are reported, whether or not this read succeeds.
        if is_served.is_ok_and(|is_so| !is_so) {
            warning = Some(wire::warning(&name, workflow.version));
        }
    }
    let is_whole = runs.iter().all(StartedOne::is_started);
    Ok((if is_whole { StatusCode::OK } else { StatusCode::MULTI_STATUS }, Json(StartedBatch { runs, warning })))
}

/// The version that starts use.
async fn find(app: &AppState, start: &Start) -> Result<Arc<Version>, Problem> {
    match app.engine.library().find_to_start(start).await {
        Ok(version) if version.is_deleted && !may_be_code(app, start).await? => Err(missing(app, start).await),
        Err(engine::Error::WorkflowNotFound { .. }) => Err(missing(app, start).await),
        found => Ok(found?),
    }
}

/// Whether the workflow of a start is, or may be, written as code: then workers decide which versions exist, and a deleted
/// one can be started.
async fn may_be_code(app: &AppState, start: &Start) -> Result<bool, Problem> {
    Ok(match app.workflows.workflow(start.workspace, &start.workflow, None).await? {
        Some(active) => StyleName::parse(&active.style).is_some_and(|style| !style.has_definition()),
        None => start.allow_unserved,
    })
}

/// Why the workflow of a start was not found.
async fn missing(app: &AppState, start: &Start) -> Problem {
    workflows::missing_to_start(app, start.workspace, &start.workflow, start.version).await
}

fn check_name(name: &str) -> Result<(), Problem> {
    if workflow::is_name(name) {
        return Ok(());
    }
    let hint = "a name has 1 to 128 lowercase letters, digits, - and _, and begins with a letter or a digit";
    Err(Problem::invalid(format!("{name:?} is not a valid name of a workflow")).hint(hint))
}

/// Versions are counted from 1, by databases and workers.
fn check_version(version: Option<u32>) -> Result<(), Problem> {
    match version {
        Some(version) if !is_version(version) => {
            let hint = "remove it to start the active version";
            let detail = format!("version: {version} is not valid; versions are from 1 to {}", i32::MAX);
            Err(Problem::invalid(detail).with("path", "version").hint(hint))
        }
        Some(_) | None => Ok(()),
    }
}

/// The text of both paths to [`of_definition`].
pub(crate) fn of_definition_doc(summary: &'static str) -> Doc {
    doc("runs", summary)
        .about("`definitionId` is the name of a workflow. The scope of the idempotency key is the workspace.")
        .keyed()
        .query(show::WAIT)
        .takes::<OfDefinition>()
        .example(json!({"definitionId": "order", "input": {"amount": 20}, "idempotencyKey": "order-17"}))
        .answers::<Started>(201)
        .with_header("Location", "The path of the run.")
        .answers::<Started>(200)
        .with_header("Location", "The path of the run.")
        .refuses(404, NOT_FOUND)
}

/// Starts a run of the workflow in the body. The scope of its idempotency key is the workspace.
pub(crate) async fn of_definition(
    State(app): State<AppState>,
    audit: AuditDraft,
    query: Query,
    header: IdempotencyKey,
    body: Body<START_BODY_BYTES_MAX>,
) -> Answer {
    let OfDefinition { definition_id, input, idempotency_key, allow_unserved } = body.json()?;
    if definition_id.is_empty() {
        return Err(Problem::invalid("definitionId is empty").hint("set it to the name of a workflow"));
    }
    if allow_unserved {
        check_name(&definition_id)?;
    }
    if !input.json().trim_start().starts_with('{') {
        return Err(Problem::invalid("the input must be an object"));
    }
    let key = header.or(idempotency_key)?.map(|key| (String::new(), key));
    check_size(&input)?;
    let (workspace, by) = (audit.caller().workspace, Some(audit.caller().actor()));
    let start = Start { workspace, key, allow_unserved, by, ..Start::new(definition_id, input) };
    self::start(&app, &audit, start, &query).await
}

/// Rejects an input that is too large, as for a body. The engine checks everything else.
pub(crate) fn check_size(input: &Payload) -> Result<(), Problem> {
    if input.size() > limits::PAYLOAD_BYTES {
        return Err(Problem::too_large(format!("the input has more than {} bytes", limits::PAYLOAD_BYTES)));
    }
    Ok(())
}

/// Tags are few and short, because lists show them.
fn check_tags(tags: &BTreeMap<String, String>) -> Result<Payload, Problem> {
    if tags.len() > TAGS_MAX {
        return Err(Problem::invalid(format!("a run has at most {TAGS_MAX} tags, not {}", tags.len())));
    }
    for (name, value) in tags {
        let is_sized = |text: &str| text.chars().count() <= TAG_CHARS_MAX && !text.contains('\0');
        if name.is_empty() || !is_sized(name) || !is_sized(value) {
            let detail = format!(
                "tags[{name:?}]: the name of a tag must have 1 to {TAG_CHARS_MAX} characters, its value at most {TAG_CHARS_MAX}, without NUL"
            );
            return Err(Problem::invalid(detail));
        }
    }
    Ok(Payload::from(json!(tags)))
}

/// Starts a run. With `waitSeconds` the response is sent when the run has ended or is paused, or after that time.
async fn start(app: &AppState, audit: &AuditDraft, start: Start, query: &Query) -> Answer {
    let (caller, workspace) = (audit.caller(), start.workspace);
    let (seconds, _place) = app.wait_places.enter(workspace, show::wait_seconds(query));
    let detail = if seconds.is_zero() { StartDetail::Beginning } else { StartDetail::End };
    let found = find_admitted(app, caller, &start).await?;
    let row = Some(audit.row(StatusCode::CREATED));
    let start = Start { detail, audit: row, found: Some(found), ..start };
    let mut started = within_run_deadline(app, app.engine.start_run(start)).await?;
    audit.record(started.created);
    if !started.created {
        check_known(app, caller, started.run).await?;
    }
    let mut run = None;
    if let Some(began) = started.began.take() {
        run = Some(show::show_begun(app, *began).await);
    }
    // If the time has passed, or this node stops, the present state of the run is returned.
    if let Some(end) = started.end.take()
        && let Ok(Ok(halt)) = tokio::time::timeout(seconds, end.halt()).await
    {
        run = Some(show::show_halted(app, halt).await?);
    }
    let run = match run {
        Some(run) => run,
        None => show::show(app, show::row(app, workspace, started.run).await?).await?,
    };
    let warning = run.warning();
    let status = if started.created { StatusCode::CREATED } else { StatusCode::OK };
    let place = HeaderValue::from_str(&format!("/v1/runs/{}", started.run)).expect("an id is plain text");
    Ok((status, [(header::LOCATION, place)], Json(Started { run, created: started.created, warning })))
}

/// The version that a start uses, if the caller may start it.
async fn find_admitted(app: &AppState, caller: &Caller, start: &Start) -> Result<Arc<Version>, Problem> {
    start.check()?;
    let is_manager = caller.may(Permission::Manage);
    // A caller who may only act learns nothing about other workflows, and creates none.
    let found = match is_manager {
        true => find(app, start).await,
        false => find(app, &Start { allow_unserved: false, ..start.clone() }).await,
    };
    let version = match found {
        Err(problem) if !is_manager && problem.is_not_found() => {
            return Err(lacks_permission(caller, Permission::Manage));
        }
        found => found?,
    };
    if !version.workflow.style.decides_who_starts() {
        check_manager(caller)?;
        return Ok(version);
    }
    let reader = Reader::from_caller(app, caller).await?;
    admit(app, caller, &reader, &version, &start.input)?;
    Ok(version)
}

/// Rejects a caller who may not start a run of a version with this input.
///
/// A state machine with `start.require` decides itself, for every caller; any other workflow is started by callers who
/// may manage runs.
fn admit(app: &AppState, caller: &Caller, reader: &Reader, version: &Version, input: &Payload) -> Result<(), Problem> {
    let style = &version.workflow.style;
    if !style.decides_who_starts() {
        return check_manager(caller);
    }
    if style.may_start(&reader.actor, &reader.rights, input, machines::cx(app, &Meter::new())) {
        return Ok(());
    }
    let required = style.required_to_start();
    if required.is_empty() {
        return Err(lacks_permission(caller, Permission::Manage));
    }
    let detail =
        format!("you may not start {:?}: you have no role and no name that it requires", version.workflow.name);
    Err(Problem::new(StatusCode::FORBIDDEN, "PERMISSION_DENIED", detail).with("required", required))
}

fn check_manager(caller: &Caller) -> Result<(), Problem> {
    if caller.may(Permission::Manage) { Ok(()) } else { Err(lacks_permission(caller, Permission::Manage)) }
}

/// Refuses to show a run that another caller has started under the same idempotency key, if this one may not read it. A
/// caller who may manage runs gets the answer to a repeated start without the permission to view runs.
async fn check_known(app: &AppState, caller: &Caller, run: RunId) -> Result<(), Problem> {
    if caller.may(Permission::Manage) {
        return Ok(());
    }
    match machines::check_reader(app, caller, run).await {
        Err(problem) if problem.is_not_found() => {
            let detail = "another caller has started a run under this idempotency key";
            let hint = "choose another Idempotency-Key";
            Err(Problem::new(StatusCode::CONFLICT, "IDEMPOTENCY_KEY_REUSED", detail).hint(hint))
        }
        checked => checked,
    }
}
