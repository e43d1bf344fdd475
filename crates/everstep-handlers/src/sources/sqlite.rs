//! SQLite files as data sources. A file is opened for each question, and only to be read.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everstep_core::failure::{Failure, code};
use everstep_core::ids::WorkspaceId;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, Value as Bound, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::QUERY_ERROR;
use super::query::{ArgumentType, Limits, Values};
use super::result::{Field, QueryResult};
use super::rows::{self, Rows};
use super::source::SqliteSource;
use super::statement::Statement;

/// The environment variable that names the folder.
pub(super) const FOLDER_VARIABLE: &str = "EVERSTEP_SQLITE_SOURCES_DIR";
/// Files that are read at once on one node: each takes a thread.
const READ_THREADS_MAX: usize = 4;
/// Bytes of one value: what a statement computes must not fill our memory. Nor must it hold a thread for long: `instr`
/// takes time with the square of it, and looks at no clock.
const VALUE_BYTES_MAX: i32 = 2 * 1024 * 1024;
/// Instructions between two checks of the deadline.
const INSTRUCTIONS_PER_CHECK: i32 = 1_000;
/// How long to wait for a file that a writer has locked.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// The SQLite files of this server.
pub(super) struct SqliteFiles {
    /// The folder that they are in; none if there is none.
    folder: Option<PathBuf>,
    threads: Arc<Semaphore>,
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
        Self { folder, threads: Arc::new(Semaphore::new(READ_THREADS_MAX)) }
    }

    /// Asks a file. Dropping the future interrupts the statement, and so does its timeout.
    pub(super) async fn ask(
        &self,
        workspace: WorkspaceId,
        source: &SqliteSource,
        query: FileQuery,
        timeout: Duration,
    ) -> Result<QueryResult, Failure> {
        self.work(workspace, source, timeout, move |connection| read(connection, &query)).await
    }

    /// Whether a file is a database. Answers with SQLite's version.
    pub(super) async fn test(
        &self,
        workspace: WorkspaceId,
        source: &SqliteSource,
        timeout: Duration,
    ) -> Result<String, Failure> {
        let look = |connection: &Connection| {
            // Reading the schema tells whether it is a database at all.
            let sql = "select sqlite_version(), (select count(*) from sqlite_master)";
            connection.query_row(sql, [], |row| row.get::<_, String>(0)).map_err(|error| failure(&error))
        };
        Ok(format!("SQLite {}", self.work(workspace, source, timeout, look).await?))
    }

    /// Where the files of a workspace are. What is in one is not there for the others, but for the default one,
    /// whose admins run the server.
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
            let message = format!("no answer within {} s: the statement was interrupted", timeout.as_secs_f64());
            Failure::transient(code::STEP_TIMEOUT, message)
        };
        let Some(folder) = self.folder_of(workspace) else {
            let message =
                format!("this server reads no SQLite files; {FOLDER_VARIABLE} names the folder that they are in");
            return Err(Failure::fatal(QUERY_ERROR, message));
        };
        let deadline = Instant::now() + timeout;
        let thread = tokio::time::timeout(timeout, Arc::clone(&self.threads).acquire_owned()).await;
        let thread = thread.map_err(|_| late())?.expect("nobody closes the semaphore");
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
            Ok(Err(_)) => Err(Failure::transient(QUERY_ERROR, "reading the file was broken off")),
            Err(_) => Err(late()),
        }
    }
}

/// Interrupts the statement when nobody waits for it any more.
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
            // For json_each() and its like.
            Value::Array(_) | Value::Object(_) => Bound::Text(value.to_string()),
        })
    });
    bound.collect()
}

/// Opens a file so that nothing but reading it is possible.
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

/// Where a file really is: within the folder, whatever links lead there.
fn find(folder: &Path, file: &str) -> Result<PathBuf, Failure> {
    let fatal = |message: String| Failure::fatal(QUERY_ERROR, message);
    let folder = folder.canonicalize().map_err(|error| {
        fatal(format!(
            "the folder of this workspace's SQLite files cannot be read: {error}; {FOLDER_VARIABLE} names it"
        ))
    })?;
    let path = folder.join(file).canonicalize();
    let path = path.map_err(|error| fatal(format!("the file {file:?} cannot be read: {error}")))?;
    if !path.starts_with(&folder) {
        return Err(fatal(format!("the file {file:?} leads out of the folder that {FOLDER_VARIABLE} names")));
    }
    if !path.is_file() {
        return Err(fatal(format!("{file:?} is not a file")));
    }
    Ok(path)
}

/// Reading is allowed, and nothing else.
fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Function { function_name } => {
            let is_barred =
                ["load_extension", "fts3_tokenizer"].iter().any(|name| name.eq_ignore_ascii_case(function_name));
            if is_barred { Authorization::Deny } else { Authorization::Allow }
        }
        // Full-text search asks for it on its own.
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
        // An infinite one has no form in JSON.
        ValueRef::Real(number) => out.push_str(&Value::from(number).to_string()),
        ValueRef::Text(bytes) => {
            let unreadable = |_| {
                let message = format!("the column {name:?} holds a text that is not UTF-8: select it with hex()");
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
            let message = "the statement does more than read: a SQLite file is only read, without PRAGMA and ATTACH";
            Failure::fatal(QUERY_ERROR, message)
        }
        _ => Failure::fatal(QUERY_ERROR, message),
    }
}
