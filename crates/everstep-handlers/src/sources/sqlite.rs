//! SQLite files as data sources. A file is opened for each query, read-only.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everstep_core::failure::{Failure, code};
use everstep_core::fair_share::ShareBounds;
use everstep_core::ids::WorkspaceId;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, Value as Bound, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};
use serde_json::Value;

use super::QUERY_ERROR;
use super::query::{ArgumentType, Limits, Values};
use super::result::{Field, QueryResult};
use super::rows::{self, Rows};
use super::source::SqliteSource;
use super::statement::Statement;
use crate::places::Places;

/// The environment variable that names the folder.
pub(super) const FOLDER_VARIABLE: &str = "EVERSTEP_SQLITE_SOURCES_DIR";
/// The number of files that are read at the same time on one node: each uses a thread.
const READ_THREADS_MAX: u64 = 4;
/// The number of these threads that one workspace may use. A thread counts until its statement has ended, also if the
/// statement exceeds its time limit.
const WORKSPACE_THREADS_MAX: u64 = 2;
/// The maximum size of one value, read or computed. A computed value must not fill our memory, nor block a thread for
/// long: the time of `instr` grows with the square of the size, and it does not check the deadline.
const VALUE_BYTES_MAX: i32 = 256 * 1024;
/// Instructions between two checks of the deadline.
const INSTRUCTIONS_PER_CHECK: i32 = 1_000;
/// The time to wait for a file that a writer has locked.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// The SQLite files of this server.
pub(super) struct SqliteFiles {
    /// The folder of the files; none if it is not configured.
    folder: Option<PathBuf>,
    /// The threads, which workspaces share.
    threads: Places,
}

/// A query of a SQLite file, with its values.
pub(super) struct FileQuery {
    pub(super) statement: Statement,
    /// The arguments, in the order of their numbers.
    pub(super) bound: Vec<Bound>,
    pub(super) limits: Limits,
    pub(super) max_rows: Option<u32>,
}

impl SqliteFiles {
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        if let Some(folder) = &folder
            && let Some(fault) = folder_fault(folder)
        {
            let folder = folder.display();
            tracing::warn!(
                %folder,
                fault,
                "the folder in {FOLDER_VARIABLE} cannot be read: queries of SQLite files fail until it exists"
            );
        }
        let bounds = ShareBounds { workspace_max: WORKSPACE_THREADS_MAX, ..ShareBounds::new(READ_THREADS_MAX) };
        Self { folder, threads: Places::new(bounds) }
    }

    /// Queries a file. Dropping the future interrupts the statement, and so does its timeout.
    pub(super) async fn ask(
        &self,
        workspace: WorkspaceId,
        source: &SqliteSource,
        query: FileQuery,
        timeout: Duration,
    ) -> Result<QueryResult, Failure> {
        self.work(workspace, source, timeout, move |connection| read(connection, &query)).await
    }

    /// Whether a file is a database. Returns SQLite's version.
    pub(super) async fn test(
        &self,
        workspace: WorkspaceId,
        source: &SqliteSource,
        timeout: Duration,
    ) -> Result<String, Failure> {
        let look = |connection: &Connection| {
            // Reading the schema shows whether it is a database at all.
            let sql = "select sqlite_version(), (select count(*) from sqlite_master)";
            connection.query_row(sql, [], |row| row.get::<_, String>(0)).map_err(|error| failure(&error))
        };
        Ok(format!("SQLite {}", self.work(workspace, source, timeout, look).await?))
    }

    /// The folder with the files of a workspace. Other workspaces cannot read it; the folder of the default workspace,
    /// whose administrators run the server, is the configured folder itself.
    fn folder_of(&self, workspace: WorkspaceId) -> Option<PathBuf> {
        let folder = self.folder.as_ref()?;
        let is_default = workspace == WorkspaceId::DEFAULT;
        Some(if is_default { folder.clone() } else { folder.join(workspace.uuid().to_string()) })
    }

    async fn work<T: Send + 'static>(
        &self,
        workspace: WorkspaceId,
        source: &SqliteSource,
        timeout: Duration,
        work: impl FnOnce(&Connection) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let late = || {
            let message = format!("no response within {} s: the statement was interrupted", timeout.as_secs_f64());
            Failure::transient(code::STEP_TIMEOUT, message)
        };
        let Some(folder) = self.folder_of(workspace) else {
            let message = format!("this server reads no SQLite files; set {FOLDER_VARIABLE} to their folder");
            return Err(Failure::fatal(QUERY_ERROR, message));
        };
        let deadline = Instant::now() + timeout;
        let thread = tokio::time::timeout(timeout, self.threads.acquire(workspace, (), 1)).await.map_err(|_| late())?;
        let stop = Stop::default();
        let flag = Arc::clone(&stop.0);
        let file = source.file.clone();
        let task = tokio::task::spawn_blocking(move || {
            let _thread = thread;
            let connection = open(&folder, &file, deadline, flag)?;
            work(&connection)
        });
        match tokio::time::timeout_at((deadline + Duration::from_millis(200)).into(), task).await {
            Ok(Ok(Err(failure))) if failure.code == code::STEP_TIMEOUT => Err(late()),
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Failure::transient(QUERY_ERROR, "the read of the file was interrupted")),
            Err(_) => Err(late()),
        }
    }
}

/// Why a folder with files cannot be read. It may be created later: each query opens its file again.
fn folder_fault(folder: &Path) -> Option<String> {
    match std::fs::metadata(folder) {
        Ok(found) => (!found.is_dir()).then(|| "it is not a folder".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

/// Interrupts the statement when its caller no longer waits.
#[derive(Default)]
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The arguments of a statement, in the order of their numbers.
pub(super) fn bind(names: &[String], values: &Values<'_>) -> Result<Vec<Bound>, Failure> {
    let bound = names.iter().map(|name| {
        let Some((declared, value)) = values.get(name.as_str()) else {
            return Err(Failure::fatal(code::INVALID_CONFIG, format!("the argument {name:?} is not declared")));
        };
        Ok(match value {
            Value::Null => Bound::Null,
            value if *declared == ArgumentType::Json => Bound::Text(value.to_string()),
            Value::Bool(flag) => Bound::Integer((*flag).into()),
            Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(number), _) => Bound::Integer(number),
                (None, Some(number)) => Bound::Real(number),
                (None, None) => Bound::Null,
            },
            Value::String(text) => Bound::Text(text.clone()),
            // For json_each() and similar functions.
            Value::Array(_) | Value::Object(_) => Bound::Text(value.to_string()),
        })
    });
    bound.collect()
}

/// Opens a file so that only reads are possible.
fn open(folder: &Path, file: &str, deadline: Instant, stop: Arc<AtomicBool>) -> Result<Connection, Failure> {
    let path = find(folder, file)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let guarded = || {
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT.min(deadline.saturating_duration_since(Instant::now())))?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
        let is_over = move || stop.load(Ordering::Relaxed) || Instant::now() >= deadline;
        connection.progress_handler(INSTRUCTIONS_PER_CHECK, Some(is_over))?;
        connection.authorizer(Some(authorize))?;
        Ok(connection)
    };
    guarded().map_err(|error| failure(&error))
}

/// The real path of a file: within the folder, after all links are resolved.
fn find(folder: &Path, file: &str) -> Result<PathBuf, Failure> {
    let fatal = |message: String| Failure::fatal(QUERY_ERROR, message);
    let folder = folder.canonicalize().map_err(|error| {
        fatal(format!("the folder of this workspace's SQLite files cannot be read: {error}; check {FOLDER_VARIABLE}"))
    })?;
    let path = folder.join(file).canonicalize();
    let path = path.map_err(|error| fatal(format!("the file {file:?} cannot be read: {error}")))?;
    if !path.starts_with(&folder) {
        return Err(fatal(format!("the file {file:?} is outside the folder in {FOLDER_VARIABLE}")));
    }
    if !path.is_file() {
        return Err(fatal(format!("{file:?} is not a file")));
    }
    Ok(path)
}

/// Permits only reads.
fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Function { function_name } => {
            let is_barred =
                ["load_extension", "fts3_tokenizer"].iter().any(|name| name.eq_ignore_ascii_case(function_name));
            if is_barred { Authorization::Deny } else { Authorization::Allow }
        }
        // Full-text search needs it.
        AuthAction::Pragma { pragma_name: "data_version", pragma_value: None } => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

fn read(connection: &Connection, query: &FileQuery) -> Result<QueryResult, Failure> {
    let to_failure = |error: rusqlite::Error| failure(&error);
    let mut statement = connection.prepare(&query.statement.text).map_err(to_failure)?;
    let fields: Vec<Field> = statement
        .columns()
        .map(|column| Field {
            name: column.name().to_owned(),
            kind: column.decl_type().map_or_else(|| "any".to_owned(), str::to_lowercase),
        })
        .collect();
    rows::check_names(&fields)?;
    for (number, value) in (1..).zip(&query.bound) {
        statement.raw_bind_parameter(number, ToSqlOutput::Borrowed(value.into())).map_err(to_failure)?;
    }
    let mut gathered = Rows::new(query.limits, query.max_rows, fields.clone());
    let mut found = statement.raw_query();
    while let Some(row) = found.next().map_err(to_failure)? {
        let wants_more = gathered.push(|out| {
            rows::write_row(out, &fields, |out, place| {
                let value = row.get_ref(place).map_err(|error| failure(&error))?;
                write(out, value, &fields[place].name)
            })
        })?;
        if !wants_more {
            break;
        }
    }
    Ok(gathered.finish(None))
}

fn write(out: &mut String, value: ValueRef<'_>, name: &str) -> Result<(), Failure> {
    match value {
        ValueRef::Null => out.push_str("null"),
        ValueRef::Integer(number) => out.push_str(&number.to_string()),
        // JSON cannot represent an infinite number.
        ValueRef::Real(number) => out.push_str(&Value::from(number).to_string()),
        ValueRef::Text(bytes) => {
            let unreadable = |_| {
                let message = format!("the column {name:?} contains a text that is not UTF-8: select it with hex()");
                Failure::fatal(QUERY_ERROR, message)
            };
            rows::write_text(out, std::str::from_utf8(bytes).map_err(unreadable)?);
        }
        ValueRef::Blob(bytes) => rows::write_text(out, &STANDARD.encode(bytes)),
    }
    Ok(())
}

fn failure(error: &rusqlite::Error) -> Failure {
    let message = format!("SQLite: {error}");
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => Failure::transient(code::STEP_TIMEOUT, message),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Failure::transient(QUERY_ERROR, message),
        Some(ErrorCode::AuthorizationForStatementDenied) => {
            let message = "the statement does more than read: a SQLite file is read-only, without PRAGMA and ATTACH";
            Failure::fatal(QUERY_ERROR, message)
        }
        Some(ErrorCode::TooBig) => {
            let message = format!("{message}: a value has at most {} KiB", VALUE_BYTES_MAX / 1024);
            Failure::fatal(QUERY_ERROR, message)
        }
        _ => Failure::fatal(QUERY_ERROR, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_read_has_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(folder_fault(folder.path()), None);
        assert!(folder_fault(&folder.path().join("missing")).is_some());
        let file = folder.path().join("shop.db");
        std::fs::write(&file, "").unwrap();
        assert_eq!(folder_fault(&file).as_deref(), Some("it is not a folder"));
    }
}
