//! `POST /v1/files`: stores the body of a request as a file, chunk by chunk. The body is never in memory as a whole.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use everstep_core::files::{check_file_name, media_type_of};
use everstep_core::ids::FileId;
use everstep_core::limits;
use everstep_store::{FinishedFile, NewFile, UploadOutcome};
use sha2::{Digest, Sha256};

use super::form::{self, FormFile};
use super::wire::UploadedFile;
use crate::auth::Caller;
use crate::http::body::StreamedBody;
use crate::http::headers;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::id::new_id;
use crate::server::AppState;

/// Bytes of a form around its file.
const FORM_BYTES_MAX: u64 = 32 * 1024;
/// How long a file can be reserved after its upload.
const UNBOUND_DURATION_MAX: Duration = Duration::from_secs(limits::UNBOUND_FILE_HOURS * 3_600);
/// When an upload expires; it is deleted an hour later. A server that has crashed leaves it so long. The largest file at
/// the minimum rate takes less.
const UPLOAD_DURATION_MAX: Duration = Duration::from_secs(15 * 60);

pub(super) const PARAMETERS: &[Parameter] = &[Parameter::text(
    "name",
    "The name of the file: 1 to 255 bytes, without a path and without control characters. Without a name, or with \
     an invalid one, the upload is rejected with 422.",
)];

pub(super) async fn post(
    State(app): State<AppState>,
    caller: Caller,
    query: Query,
    headers: HeaderMap,
    body: StreamedBody,
) -> Result<(StatusCode, Json<UploadedFile>), Problem> {
    let content_type = headers::once(&headers, header::CONTENT_TYPE.as_str())?.unwrap_or_default();
    let boundary = form::boundary(content_type);
    let announced = body.announced();
    // The parts of a form around its file are small.
    let around = if boundary.is_some() { FORM_BYTES_MAX } else { 0 };
    if announced.is_some_and(|bytes| bytes > app.uploads.bytes_max() + around) {
        return Err(too_large(&app));
    }
    let _place = app.uploads.begin(caller.workspace)?;
    let named = query.text("name").map(str::to_owned);
    let (source, name, media_type) = match boundary {
        None => (Source::Body(body), named, media_type_of(Some(content_type))),
        Some(boundary) => {
            let mut form = FormFile::begin(body, boundary).await?;
            let media_type = media_type_of(form.media_type.as_deref());
            let name = named.or_else(|| form.name.take());
            (Source::Form(form), name, media_type)
        }
    };
    let name = name.unwrap_or_default();
    check_file_name(&name).map_err(|message| invalid(message).hint("name it in the query: ?name=invoice.pdf"))?;
    let now = app.engine.world().clock.now();
    let file = NewFile {
        id: FileId::from_uuid(new_id(now)),
        workspace: caller.workspace,
        name,
        media_type,
        announced: announced.unwrap_or_default(),
        by: caller.actor(),
        created_at: now,
        expires_at: now.plus(UPLOAD_DURATION_MAX),
    };
    let store = &app.engine.world().files;
    check_outcome(store.begin_file(&file, limits::UNBOUND_FILE_BYTES).await?)?;
    match store_bytes(&app, &file, source).await {
        Ok(finished) => Ok((StatusCode::CREATED, Json(UploadedFile::new(file.name, file.media_type, &finished)))),
        Err(problem) => {
            if let Err(error) = store.delete_file(file.id).await {
                tracing::warn!(file = %file.id, %error, "an interrupted upload is deleted later");
            }
            Err(problem)
        }
    }
}

/// The bytes of a file.
enum Source {
    /// The body is the file.
    Body(StreamedBody),
    Form(FormFile),
}

impl Source {
    async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        match self {
            Self::Body(body) => body.next_part(limits::FILE_CHUNK_BYTES).await,
            Self::Form(form) => form.next_part(limits::FILE_CHUNK_BYTES).await,
        }
    }
}

/// Stores the bytes of a file, and finishes it.
async fn store_bytes(app: &AppState, file: &NewFile, mut source: Source) -> Result<FinishedFile, Problem> {
    let store = &app.engine.world().files;
    let (mut hash, mut size) = (Sha256::new(), 0);
    let mut chunk = 0;
    while let Some(bytes) = source.next_chunk().await? {
        size += bytes.len() as u64;
        if size > app.uploads.bytes_max() {
            return Err(too_large(app));
        }
        hash.update(&bytes);
        if !store.add_chunk(file.id, chunk, bytes).await? {
            return Err(Problem::unavailable("the upload has taken too long, and was deleted; send the file again"));
        }
        chunk += 1;
    }
    if size == 0 {
        return Err(invalid("the file is empty").hint("send the bytes of the file as the body"));
    }
    let finished = FinishedFile {
        id: file.id,
        workspace: file.workspace,
        by: file.by.clone(),
        size,
        sha256: hash.finalize().into(),
        expires_at: app.engine.world().clock.now().plus(UNBOUND_DURATION_MAX),
    };
    check_outcome(store.finish_file(&finished, limits::UNBOUND_FILE_BYTES).await?)?;
    Ok(finished)
}

fn check_outcome(outcome: UploadOutcome) -> Result<(), Problem> {
    match outcome {
        UploadOutcome::Stored => Ok(()),
        UploadOutcome::QuotaReached(used) => {
            let quota = limits::UNBOUND_FILE_BYTES;
            let detail =
                format!("you have {used} bytes of files that no run has; with this file they would exceed {quota}");
            let hint = "use the files in transitions; unused ones are deleted after 24 hours";
            Err(Problem::new(StatusCode::CONFLICT, "QUOTA_REACHED", detail).hint(hint).with("quota", quota))
        }
        UploadOutcome::Missing => Err(Problem::unavailable("the upload has taken too long, and was deleted")),
    }
}

fn too_large(app: &AppState) -> Problem {
    let detail = format!("the file has more than {} bytes", app.uploads.bytes_max());
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", detail)
        .hint("send a smaller file, or raise EVERSTEP_FILE_MAX_BYTES on the server")
}

fn invalid(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", detail)
}
