//! Data sources and saved queries in a real database.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::sync::Arc;

use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_handlers::Sources;
use everstep_handlers::sources::{Query, Source};
use everstep_store::{ResourceStore, sqlite};
use everstep_vault::{DataSources, ResourceError, SavedResource};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

const HERE: WorkspaceId = WorkspaceId::DEFAULT;

struct Kept {
    sources: DataSources,
    store: Arc<dyn ResourceStore>,
    _folder: TempDir,
}

fn kept() -> Kept {
    let folder = tempfile::tempdir().unwrap();
    let store = sqlite::open(folder.path(), &Default::default()).unwrap().resources;
    Kept { sources: DataSources::new(Arc::clone(&store)), store, _folder: folder }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn database() -> Value {
    json!({"type": "postgres", "host": "db", "database": "shop", "user": "reader", "password": {"$secret": "shop"}})
}

fn orders() -> Value {
    json!({"source": "shop", "sql": "select * from orders where id = :id", "arguments": [{"name": "id"}]})
}

impl Kept {
    async fn source(&self, name: &str, body: &Value) -> Result<(SavedResource<Source>, bool), ResourceError> {
        self.sources.put_source(HERE, name, body, at(1)).await
    }

    async fn query(&self, name: &str, body: &Value) -> Result<(SavedResource<Query>, bool), ResourceError> {
        self.sources.put_query(HERE, name, body, at(1)).await
    }
}

/// The problems of a rejection, as `path: message`.
fn problems<T: std::fmt::Debug>(result: Result<T, ResourceError>) -> Vec<String> {
    match result {
        Err(ResourceError::Invalid(problems)) => {
            problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_saved_is_found_under_its_name() {
    let kept = kept();
    let (saved, is_new) = kept.source("shop", &database()).await.unwrap();
    assert!(is_new);
    assert_eq!((saved.created_at, saved.updated_at), (at(1), at(1)));
    let (again, is_new) = kept.sources.put_source(HERE, "shop", &database(), at(2)).await.unwrap();
    assert!(!is_new);
    assert_eq!((again.created_at, again.updated_at), (at(1), at(2)));
    kept.query("orders", &orders()).await.unwrap();
    kept.query("more-orders", &orders()).await.unwrap();
    assert_eq!(kept.sources.find_source(HERE, "shop").await.unwrap(), Some(again));
    let names = |list: Vec<SavedResource<Query>>| list.into_iter().map(|query| query.name).collect::<Vec<_>>();
    assert_eq!(names(kept.sources.list_queries(HERE, None, 10).await.unwrap()), ["more-orders", "orders"]);
    assert_eq!(names(kept.sources.list_queries(HERE, Some("more-orders"), 10).await.unwrap()), ["orders"]);
    assert_eq!(Sources::query(&kept.sources, HERE, "orders").await.unwrap().source, "shop");
    let elsewhere = WorkspaceId::from_uuid(Uuid::from_u128(7));
    assert!(kept.sources.find_source(elsewhere, "shop").await.unwrap().is_none());
    let failure = Sources::source(&kept.sources, elsewhere, "shop").await.unwrap_err();
    assert_eq!((failure.code.as_str(), failure.retryable), ("SOURCE_NOT_FOUND", false));
}

#[tokio::test]
async fn a_query_is_saved_only_if_it_fits_its_source() {
    let kept = kept();
    assert_eq!(problems(kept.query("orders", &orders()).await), ["/source: the data source \"shop\" does not exist"]);
    kept.source("shop", &database()).await.unwrap();
    let mut wrong = orders();
    wrong["sql"] = json!("delete from orders where id = :key");
    assert_eq!(
        problems(kept.query("orders", &wrong).await),
        [
            "/sql: the query is read-only, and its statement begins with \"delete\"",
            "/sql: the argument :key is not declared",
            "/arguments/0: the argument \"id\" is not used",
        ]
    );
    assert!(kept.sources.find_query(HERE, "orders").await.unwrap().is_none());
    for name in ["", "a/b", "-a", "a b", "é"] {
        assert_eq!(problems(kept.query(name, &orders()).await), [format!(": {name:?} is not a valid name")]);
    }
}

#[tokio::test]
async fn a_source_that_queries_ask_is_neither_deleted_nor_changed_under_them() {
    let kept = kept();
    kept.source("shop", &database()).await.unwrap();
    kept.query("orders", &orders()).await.unwrap();
    match kept.sources.delete_source(HERE, "shop").await {
        Err(ResourceError::InUse(names)) => assert_eq!(names, ["orders"]),
        other => panic!("{other:?}"),
    }
    let service = json!({"type": "http", "baseUrl": "https://api.example.com"});
    let found = problems(kept.source("shop", &service).await);
    assert!(found[0].starts_with(": the query \"orders\" would no longer fit"), "{found:?}");
    assert_eq!(kept.sources.find_source(HERE, "shop").await.unwrap().unwrap().body.kind(), "postgres");
    kept.sources.delete_query(HERE, "orders").await.unwrap();
    kept.sources.delete_source(HERE, "shop").await.unwrap();
    assert!(matches!(kept.sources.delete_source(HERE, "shop").await, Err(ResourceError::NotFound(_))));
    assert!(matches!(kept.sources.delete_query(HERE, "orders").await, Err(ResourceError::NotFound(_))));
}

#[tokio::test]
async fn a_change_is_seen_at_once_here_and_soon_elsewhere() {
    let kept = kept();
    let other = DataSources::new(Arc::clone(&kept.store));
    let user = |source: Source| serde_json::to_value(source).unwrap()["user"].clone();
    assert!(Sources::source(&other, HERE, "shop").await.is_err());
    kept.source("shop", &database()).await.unwrap();
    assert_eq!(user(Sources::source(&kept.sources, HERE, "shop").await.unwrap()), "reader");
    let mut changed = database();
    changed["user"] = json!("other");
    kept.source("shop", &changed).await.unwrap();
    assert_eq!(user(Sources::source(&kept.sources, HERE, "shop").await.unwrap()), "other");
    let begin = std::time::Instant::now();
    while Sources::source(&other, HERE, "shop").await.map(&user).ok() != Some(json!("other")) {
        assert!(begin.elapsed().as_secs() < 4, "another node sees it within three seconds");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    kept.sources.delete_source(HERE, "shop").await.unwrap();
    assert_eq!(Sources::source(&kept.sources, HERE, "shop").await.unwrap_err().code, "SOURCE_NOT_FOUND");
}

#[tokio::test]
async fn no_credential_is_kept_in_the_database() {
    let kept = kept();
    let mut literal = database();
    literal["password"] = json!("hunter2");
    assert_eq!(problems(kept.source("shop", &literal).await), ["/password: a credential must be a secret"]);
    assert!(kept.sources.list_sources(HERE, None, 10).await.unwrap().is_empty());
}
