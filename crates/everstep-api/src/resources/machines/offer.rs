//! The files of a request. They are reserved for the run before the request is sent, so that its item binds them.

use axum::http::StatusCode;
use everstep_core::actor::Actor;
use everstep_core::ids::{FileId, RunId, WorkspaceId};
use everstep_core::limits;
use everstep_core::machine::code;
use everstep_core::time::Timestamp;
use everstep_store::{FileFault, FileReservation, ReserveOutcome};
use serde_json::json;

use crate::http::problem::Problem;
use crate::server::AppState;

const FILE_NOT_FOUND: &str = "FILE_NOT_FOUND";

/// The ids of files, each of them once.
pub(super) fn read_ids(sent: &[String]) -> Result<Vec<FileId>, Problem> {
    if sent.len() > limits::ACT_FILES {
        return Err(faulty(&format!("a request has at most {} files", limits::ACT_FILES)));
    }
    let mut ids = Vec::with_capacity(sent.len());
    for text in sent {
        let id: FileId = text.parse().map_err(|_| refuse(text, FileFault::NotFound))?;
        if ids.contains(&id) {
            return Err(faulty(&format!("the file {id} is named twice")));
        }
        ids.push(id);
    }
    Ok(ids)
}

/// Reserves files for a run: all of them, or none. Returns when the first of them expires.
pub(super) async fn reserve(
    app: &AppState,
    workspace: WorkspaceId,
    by: &Actor,
    run: RunId,
    files: &[FileId],
) -> Result<Option<Timestamp>, Problem> {
    if files.is_empty() {
        return Ok(None);
    }
    // Files are not reserved for a run that does not exist.
    app.engine.runs().glance(workspace, run).await?;
    let world = app.engine.world();
    let (by, files, now) = (by.clone(), files.to_vec(), world.clock.now());
    match world.files.reserve_files(&FileReservation { workspace, run, by, files, now }).await? {
        ReserveOutcome::Reserved(until) => Ok(until),
        ReserveOutcome::Refused(file, fault) => Err(refuse(&file.to_string(), fault)),
    }
}

fn refuse(file: &str, fault: FileFault) -> Problem {
    let (code, detail, hint) = match fault {
        FileFault::NotFound => {
            (FILE_NOT_FOUND, format!("you have not uploaded a file {file}"), "upload it first: POST /v1/files?name=…")
        }
        FileFault::Taken => (
            code::FILE_TAKEN,
            format!("the file {file} belongs to another run"),
            "upload the file again: a file belongs to one run",
        ),
        FileFault::Expired => (
            code::FILE_EXPIRED,
            format!("the file {file} was uploaded more than {} hours ago", limits::UNBOUND_FILE_HOURS),
            "upload the file again",
        ),
    };
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail).hint(hint).with("file", file)
}

fn faulty(message: &str) -> Problem {
    let errors = json!([{"field": "files", "message": message}]);
    let detail = format!("files: {message}");
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code::VALIDATION_ERROR, detail).with("errors", errors)
}
