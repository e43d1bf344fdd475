//! `GET /v1/files/{id}`: sends a file, or a part of it, chunk by chunk.
//!
//! 1. A caller who may read a run may read its files. A file that is not bound is read by the person who uploaded it.
//! 2. Everything else does not exist: files of other workspaces, expired ones, and those of a deleted run.
//! 3. A browser shows a file only if its media type is harmless and its first bytes agree; any other file is saved. A
//!    file never runs scripts: its content security policy forbids everything, in a sandbox.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use everstep_core::files::{SNIFFED_BYTES, is_shown_inline};
use everstep_core::ids::FileId;
use everstep_core::limits;
use everstep_engine::Error;
use everstep_store::{FileRow, FileStore};
use futures_util::{Stream, stream};

use super::disposition::{Treatment, disposition};
use super::range::{Part, read_range};
use super::wire::hex;
use crate::auth::Caller;
use crate::http::headers::{IfNoneMatch, once};
use crate::http::problem::Problem;
use crate::resources::machines::check_reader;
use crate::server::AppState;

const CHUNK_BYTES: u64 = limits::FILE_CHUNK_BYTES as u64;
/// The file is data, whatever it contains.
const POLICY: &str = "sandbox; default-src 'none'";

pub(super) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    known: IfNoneMatch,
) -> Result<Response, Problem> {
    let row = find(&app, &caller, &id).await?;
    let tag = format!("\"{}\"", hex(&row.sha256));
    let common = [
        (header::ETAG, plain(&tag)),
        // Each request is checked again.
        (header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache")),
        (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
    ];
    if known.has_tag(&tag) {
        return Ok((StatusCode::NOT_MODIFIED, common).into_response());
    }
    // A client that continues a download wants the rest of the same file.
    let is_same = once(&headers, header::IF_RANGE.as_str())?.is_none_or(|sent| sent == tag);
    let range = once(&headers, header::RANGE.as_str())?.filter(|_| is_same);
    let (status, sent) = match read_range(range, row.size) {
        Part::Whole => (StatusCode::OK, 0..row.size),
        Part::Bytes(sent) => (StatusCode::PARTIAL_CONTENT, sent),
        Part::Outside => {
            let detail = format!("the file has {} bytes, none of them in the range", row.size);
            let problem = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "VALIDATION_ERROR", detail);
            let outside = [(header::CONTENT_RANGE, plain(&format!("bytes */{}", row.size)))];
            return Ok((outside, problem).into_response());
        }
    };
    let store = Arc::clone(&app.engine.world().files);
    let treatment = treatment(&*store, &row).await?;
    let mut own: Vec<(HeaderName, HeaderValue)> = vec![
        (header::CONTENT_TYPE, content_type(&row)),
        (header::CONTENT_LENGTH, (sent.end - sent.start).into()),
        (header::CONTENT_DISPOSITION, disposition(treatment, &row.name)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    ];
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {}-{}/{}", sent.start, sent.end - 1, row.size);
        own.push((header::CONTENT_RANGE, plain(&range)));
    }
    let mut response = (status, common, Body::from_stream(read_bytes(store, row.id, sent))).into_response();
    response.headers_mut().extend(own);
    Ok(response)
}

/// A file that the caller may read.
async fn find(app: &AppState, caller: &Caller, id: &str) -> Result<FileRow, Problem> {
    let missing = || Problem::not_found(format!("file {id:?} was not found"));
    let world = app.engine.world();
    let file: FileId = id.parse().map_err(|_| missing())?;
    let row = world.files.file(caller.workspace, file).await?.ok_or_else(missing)?;
    let Some(run) = row.run.filter(|_| row.seq.is_some()) else {
        let is_readable = row.by == caller.actor() && row.expires_at > world.clock.now();
        return if is_readable { Ok(row) } else { Err(missing()) };
    };
    match app.engine.runs().glance(caller.workspace, run).await {
        Ok(_) => {}
        Err(Error::RunNotFound(_)) => return Err(missing()),
        Err(error) => return Err(error.into()),
    }
    let read = check_reader(app, caller, run).await;
    read.map_err(|problem| if problem.is_not_found() { missing() } else { problem })?;
    Ok(row)
}

/// Whether a browser may show a file.
async fn treatment(store: &dyn FileStore, row: &FileRow) -> Result<Treatment, Problem> {
    // Most other files are not read for it.
    if !is_shown_inline_ever(&row.media_type) {
        return Ok(Treatment::Attachment);
    }
    let first = store.chunk(row.id, 0).await?.unwrap_or_default();
    let first = &first[..first.len().min(SNIFFED_BYTES)];
    Ok(if is_shown_inline(&row.media_type, first) { Treatment::Inline } else { Treatment::Attachment })
}

fn is_shown_inline_ever(media_type: &str) -> bool {
    media_type.starts_with("image/") || matches!(media_type, "application/pdf" | "text/plain")
}

fn content_type(row: &FileRow) -> HeaderValue {
    match row.media_type.as_str() {
        "text/plain" => HeaderValue::from_static("text/plain; charset=utf-8"),
        media_type => plain(media_type),
    }
}

fn plain(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("the text has only plain letters")
}

/// The bytes of a part of a file. One chunk of them is in memory.
fn read_bytes(
    store: Arc<dyn FileStore>,
    file: FileId,
    sent: Range<u64>,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let end = sent.end;
    stream::try_unfold(sent.start, move |at| {
        let store = Arc::clone(&store);
        async move {
            if at >= end {
                return Ok(None);
            }
            let number = u32::try_from(at / CHUNK_BYTES).map_err(io::Error::other)?;
            let chunk = store.chunk(file, number).await.map_err(io::Error::other)?;
            let deleted = || io::Error::other("the file was deleted");
            let chunk = Bytes::from(chunk.ok_or_else(deleted)?);
            let from = usize::try_from(at % CHUNK_BYTES).map_err(io::Error::other)?;
            let wanted = usize::try_from(end - at).unwrap_or(usize::MAX);
            let to = chunk.len().min(from.saturating_add(wanted));
            if from >= to {
                return Err(deleted());
            }
            let bytes = chunk.slice(from..to);
            let next = at + bytes.len() as u64;
            Ok(Some((bytes, next)))
        }
    })
}
