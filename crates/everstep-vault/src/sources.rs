//! Data sources and saved queries of workspaces.
//!
//! They are stored as plain JSON, because they contain no secrets: credentials are names of secrets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use everstep_core::failure::Failure;
use everstep_core::graph::Problem;
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_handlers::Sources;
use everstep_handlers::sources::{Query, SOURCE_NOT_FOUND, Source, is_name};
use everstep_store::{ResourceKind, ResourceRow, ResourceStore};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Cached sources and queries are reread after this time, so that other nodes see an update.
const CACHE_TTL: Duration = Duration::from_secs(3);
/// Sources and queries in the cache; when it is full, it is cleared.
const CACHED_RESOURCES_MAX: usize = 10_000;
/// A reserved name of sources.
const RESERVED_SOURCE_NAME: &str = "test";
/// The number of queries that are read together when all are checked.
const PAGE_SIZE: usize = 500;

/// Stores data sources and saved queries.
pub struct DataSources {
    store: Arc<dyn ResourceStore>,
    cache: Mutex<HashMap<(WorkspaceId, String, Kind), CachedResource>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Source,
    Query,
}

/// A cached body, and the time of its read.
#[derive(Clone)]
struct CachedResource {
    at: Instant,
    body: Option<Arc<[u8]>>,
}

/// A source or a query under its name.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedResource<T> {
    pub name: String,
    pub body: T,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Why a source or a query was not saved, found or deleted.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    #[error("{}", .0.first().map_or("it is invalid", |problem| &problem.message))]
    Invalid(Vec<Problem>),
    #[error("{0}")]
    NotFound(String),
    /// These queries use the source.
    #[error("the data source is used by {}; delete or change these queries first", .0.join(", "))]
    InUse(Vec<String>),
    #[error(transparent)]
    Store(#[from] everstep_store::Error),
}

impl DataSources {
    pub fn new(store: Arc<dyn ResourceStore>) -> Self {
        Self { store, cache: Mutex::default() }
    }

    /// Saves a source, if it is valid and the queries that use it still fit. Returns whether it is new.
    pub async fn put_source(
        &self,
        workspace: WorkspaceId,
        name: &str,
        body: &Value,
        now: Timestamp,
    ) -> Result<(SavedResource<Source>, bool), ResourceError> {
        check_name(name)?;
        if name == RESERVED_SOURCE_NAME {
            let hint = "the API uses this name in the route that tests sources";
            return Err(ResourceError::Invalid(vec![
                Problem::at("", "a data source cannot have the name \"test\"").hint(hint),
            ]));
        }
        let source = Source::read(body).map_err(ResourceError::Invalid)?;
        let mut problems = Vec::new();
        for query in self.queries_of(workspace, name).await? {
            let misfit = query.body.check_source(&source).into_iter().next();
            problems.extend(misfit.map(|problem| {
                let message = format!("the query {:?} would no longer fit: {}", query.name, problem.message);
                Problem::at("", message).hint("change the query first, or save the source under another name")
            }));
        }
        if !problems.is_empty() {
            return Err(ResourceError::Invalid(problems));
        }
        self.put(workspace, Kind::Source, name, source, now).await
    }

    /// Saves a query, if it is valid and fits its source. Returns whether it is new.
    pub async fn put_query(
        &self,
        workspace: WorkspaceId,
        name: &str,
        body: &Value,
        now: Timestamp,
    ) -> Result<(SavedResource<Query>, bool), ResourceError> {
        check_name(name)?;
        let query = Query::read(body).map_err(ResourceError::Invalid)?;
        let Some(source) = self.find_source(workspace, &query.source).await? else {
            let hint = format!("save it first: PUT /v1/data-sources/{}", query.source);
            let problem =
                Problem::at("/source", format!("the data source {:?} does not exist", query.source)).hint(hint);
            return Err(ResourceError::Invalid(vec![problem]));
        };
        let problems = query.check_source(&source.body);
        if !problems.is_empty() {
            return Err(ResourceError::Invalid(problems));
        }
        self.put(workspace, Kind::Query, name, query, now).await
    }

    pub async fn find_source(
        &self,
        workspace: WorkspaceId,
        name: &str,
    ) -> Result<Option<SavedResource<Source>>, ResourceError> {
        self.find(workspace, Kind::Source, name).await
    }

    pub async fn find_query(
        &self,
        workspace: WorkspaceId,
        name: &str,
    ) -> Result<Option<SavedResource<Query>>, ResourceError> {
        self.find(workspace, Kind::Query, name).await
    }

    /// At most `limit` sources by name, after a name.
    pub async fn list_sources(
        &self,
        workspace: WorkspaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SavedResource<Source>>, ResourceError> {
        self.list(workspace, Kind::Source, after, limit).await
    }

    /// At most `limit` queries by name, after a name.
    pub async fn list_queries(
        &self,
        workspace: WorkspaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SavedResource<Query>>, ResourceError> {
        self.list(workspace, Kind::Query, after, limit).await
    }

    /// Deletes a source that no query uses.
    pub async fn delete_source(&self, workspace: WorkspaceId, name: &str) -> Result<(), ResourceError> {
        let names: Vec<String> = self.queries_of(workspace, name).await?.into_iter().map(|query| query.name).collect();
        if names.is_empty() {
            self.delete(workspace, Kind::Source, name).await
        } else {
            Err(ResourceError::InUse(names))
        }
    }

    pub async fn delete_query(&self, workspace: WorkspaceId, name: &str) -> Result<(), ResourceError> {
        self.delete(workspace, Kind::Query, name).await
    }

    /// The queries that use a source.
    async fn queries_of(
        &self,
        workspace: WorkspaceId,
        source: &str,
    ) -> Result<Vec<SavedResource<Query>>, ResourceError> {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page: Vec<SavedResource<Query>> =
                self.list(workspace, Kind::Query, after.as_deref(), PAGE_SIZE).await?;
            let is_last = page.len() < PAGE_SIZE;
            after = page.last().map(|query| query.name.clone());
            found.extend(page.into_iter().filter(|query| query.body.source == source));
            if is_last {
                return Ok(found);
            }
        }
    }

    async fn put<T: Serialize>(
        &self,
        workspace: WorkspaceId,
        kind: Kind,
        name: &str,
        value: T,
        now: Timestamp,
    ) -> Result<(SavedResource<T>, bool), ResourceError> {
        let row = ResourceRow {
            workspace,
            kind: kind.resource_kind(),
            name: name.to_owned(),
            body: serde_json::to_vec(&value).expect("a value that was read from JSON can be written as JSON"),
            created_at: now,
            updated_at: now,
        };
        let is_new = self.store.put_resource(&row).await?;
        self.forget(workspace, kind, name);
        let kept = if is_new { None } else { self.store.resource(workspace, row.kind, name).await? };
        let created_at = kept.map_or(now, |row| row.created_at);
        Ok((SavedResource { name: row.name, body: value, created_at, updated_at: now }, is_new))
    }

    async fn find<T: DeserializeOwned>(
        &self,
        workspace: WorkspaceId,
        kind: Kind,
        name: &str,
    ) -> Result<Option<SavedResource<T>>, ResourceError> {
        let row = self.store.resource(workspace, kind.resource_kind(), name).await?;
        row.map(open).transpose()
    }

    async fn list<T: DeserializeOwned>(
        &self,
        workspace: WorkspaceId,
        kind: Kind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SavedResource<T>>, ResourceError> {
        let rows = self.store.resources(workspace, kind.resource_kind(), after, limit).await?;
        rows.into_iter().map(open).collect()
    }

    async fn delete(&self, workspace: WorkspaceId, kind: Kind, name: &str) -> Result<(), ResourceError> {
        let was_there = self.store.delete_resource(workspace, kind.resource_kind(), name).await?;
        self.forget(workspace, kind, name);
        if was_there { Ok(()) } else { Err(ResourceError::NotFound(kind.missing(name))) }
    }

    fn forget(&self, workspace: WorkspaceId, kind: Kind, name: &str) {
        self.cache.lock().expect("no holder of the lock panics").remove(&(workspace, name.to_owned(), kind));
    }

    /// The body of a source or a query, from the cache while it is fresh.
    async fn find_cached<T: DeserializeOwned>(
        &self,
        workspace: WorkspaceId,
        kind: Kind,
        name: &str,
    ) -> Result<T, Failure> {
        if !is_name(name) {
            return Err(Failure::fatal(SOURCE_NOT_FOUND, kind.missing(name)));
        }
        let key = (workspace, name.to_owned(), kind);
        let cached = self.cache.lock().expect("no holder of the lock panics").get(&key).cloned();
        let cached = match cached.filter(|cached| cached.at.elapsed() < CACHE_TTL) {
            Some(cached) => cached,
            None => {
                let at = Instant::now();
                let row = self.store.resource(workspace, kind.resource_kind(), name).await.map_err(|error| {
                    tracing::warn!(%error, "a data source could not be read");
                    Failure::transient("UNAVAILABLE", "the database is unavailable")
                })?;
                let cached = CachedResource { at, body: row.map(|row| row.body.into()) };
                let mut all = self.cache.lock().expect("no holder of the lock panics");
                if all.len() >= CACHED_RESOURCES_MAX {
                    all.clear();
                }
                all.insert(key, cached.clone());
                cached
            }
        };
        let body = cached.body.ok_or_else(|| Failure::fatal(SOURCE_NOT_FOUND, kind.missing(name)))?;
        serde_json::from_slice(&body)
            .map_err(|error| Failure::fatal(SOURCE_NOT_FOUND, format!("this server cannot read {name:?}: {error}")))
    }
}

#[async_trait]
impl Sources for DataSources {
    async fn query(&self, workspace: WorkspaceId, id: &str) -> Result<Query, Failure> {
        self.find_cached(workspace, Kind::Query, id).await
    }

    async fn source(&self, workspace: WorkspaceId, name: &str) -> Result<Source, Failure> {
        self.find_cached(workspace, Kind::Source, name).await
    }
}

impl Kind {
    fn resource_kind(self) -> ResourceKind {
        match self {
            Self::Source => ResourceKind::Source,
            Self::Query => ResourceKind::Query,
        }
    }

    fn missing(self, name: &str) -> String {
        match self {
            Self::Source => format!("the data source {name:?} does not exist"),
            Self::Query => format!("the saved query {name:?} does not exist"),
        }
    }
}

fn check_name(name: &str) -> Result<(), ResourceError> {
    if is_name(name) {
        return Ok(());
    }
    let hint = "1 to 128 letters, digits, `_`, `.` or `-`, beginning with a letter or digit";
    Err(ResourceError::Invalid(vec![Problem::at("", format!("{name:?} is not a valid name")).hint(hint)]))
}

fn open<T: DeserializeOwned>(row: ResourceRow) -> Result<SavedResource<T>, ResourceError> {
    let unreadable = |error| everstep_store::Error::Corrupt(format!("{:?}: {error}", row.name));
    let body = serde_json::from_slice(&row.body).map_err(unreadable)?;
    Ok(SavedResource { name: row.name, body, created_at: row.created_at, updated_at: row.updated_at })
}
