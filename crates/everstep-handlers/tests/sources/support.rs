//! A workspace with secrets, and a client of its sources.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::failure::Failure;
use everstep_core::ids::WorkspaceId;
use everstep_handlers::Secrets;
use everstep_handlers::sources::{Drivers, Query, QueryRequest, Source, SourceTest};
use everstep_net::{Client, Guard};
use everstep_testkit::postgres::TestDatabase;
use serde_json::{Value, json};
use zeroize::Zeroizing;

pub(crate) struct Kept(pub(crate) BTreeMap<String, String>);

#[async_trait]
impl Secrets for Kept {
    async fn reveal(&self, _: WorkspaceId, name: &str) -> Result<Zeroizing<String>, Failure> {
        let missing = || Failure::fatal("SECRET_NOT_FOUND", format!("the secret {name:?} does not exist"));
        self.0.get(name).cloned().map(Zeroizing::new).ok_or_else(missing)
    }
}

/// Drivers that may reach every address.
pub(crate) fn drivers(secrets: &[(&str, &str)], folder: Option<PathBuf>) -> Drivers {
    drivers_with(Guard::open(), secrets, folder)
}

pub(crate) fn drivers_with(guard: Guard, secrets: &[(&str, &str)], folder: Option<PathBuf>) -> Drivers {
    let secrets = secrets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Drivers::new(Client::new(guard), Arc::new(Kept(secrets.collect())), folder)
}

/// A source, parsed as for saving.
pub(crate) fn source(body: &Value) -> Source {
    Source::read(body).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// A query, parsed as for saving.
pub(crate) fn query(body: &Value) -> Query {
    Query::read(body).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// A source with a client.
pub(crate) struct Asker {
    pub(crate) drivers: Drivers,
    pub(crate) source: Source,
}

impl Asker {
    /// A database as its administrator sees it.
    pub(crate) fn from_database(database: &TestDatabase<'_>, more: &Value) -> Self {
        let mut body = json!({"type": "postgres", "host": "127.0.0.1", "port": database.cluster().port(),
            "database": database.name(), "user": "postgres"});
        for (name, value) in more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        Self { drivers: drivers(&[], None), source: source(&body) }
    }

    pub(crate) async fn ask(&self, query: &Query, args: &Value) -> Result<Value, Failure> {
        self.ask_for(query, args, Duration::from_secs(20)).await
    }

    pub(crate) async fn ask_for(&self, query: &Query, args: &Value, timeout: Duration) -> Result<Value, Failure> {
        let workspace = WorkspaceId::DEFAULT;
        let ask = QueryRequest { workspace, source: &self.source, query, args, max_rows: None, timeout };
        self.drivers.ask(ask).await.map(|answer| answer.payload().value().clone())
    }

    /// Runs a query without arguments, for a workspace.
    pub(crate) async fn ask_in(
        &self,
        workspace: WorkspaceId,
        query: &Query,
        timeout: Duration,
    ) -> Result<Value, Failure> {
        let args = json!({});
        let ask = QueryRequest { workspace, source: &self.source, query, args: &args, max_rows: None, timeout };
        self.drivers.ask(ask).await.map(|answer| answer.payload().value().clone())
    }

    /// Runs a query that has arguments of any type.
    pub(crate) async fn sql(&self, sql: &str, args: Value) -> Result<Value, Failure> {
        let names = args.as_object().into_iter().flatten().map(|(name, _)| json!({"name": name, "required": false}));
        let body = json!({"source": "it", "sql": sql, "arguments": names.collect::<Vec<_>>()});
        self.ask(&query(&body), &args).await
    }

    /// The first column of the only row.
    pub(crate) async fn value(&self, sql: &str, args: Value) -> Value {
        let answer = self.sql(sql, args).await.unwrap_or_else(|failure| panic!("{sql}: {failure}"));
        let row = answer["rows"][0].as_object().unwrap_or_else(|| panic!("{sql}: {answer}"));
        row.values().next().unwrap().clone()
    }

    pub(crate) async fn failure(&self, sql: &str, args: Value) -> Failure {
        match self.sql(sql, args).await {
            Ok(answer) => panic!("{sql}: {answer}"),
            Err(failure) => failure,
        }
    }

    pub(crate) async fn test(&self) -> SourceTest {
        self.drivers.test(WorkspaceId::DEFAULT, &self.source).await
    }
}
