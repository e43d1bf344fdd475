//! Databases of earlier releases are opened with all their data.

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::journal::Kind;
use everstep_core::records::{Author, Op, OpAction, OpKey, SetRequest};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use rusqlite::Connection;
use uuid::Uuid;

use super::schema::migrate;
use super::{Database, Options, SqliteStore};
use crate::access::KeyRow;
use crate::filter::RunFilter;
use crate::item::NewFork;
use crate::migrations::{Migration, SQLITE};
use crate::ports::{AccessStore, RecordStore, RunStore, WorkflowStore};
use crate::workflows::Deletion;

/// Rows as the previous release wrote them.
const WRITTEN: &str = "
    insert into workflows (workspace, name, version, style, definition, digest, retention_days, created_at)
    values (x'00000000000000000000000000000001', 'orders', 1, 'graph', cast('{}' as blob), 'digest', 7, 1);
    insert into workflow_heads (workspace, name, version)
    values (x'00000000000000000000000000000001', 'orders', 1);
    insert into runs (
        id, owner, wake_at, ended_at, status, format, workspace, workflow, version, lane,
        idempotency_scope, idempotency_key, parent, retention_days, is_test, created_at,
        tags, error, input, output
    )
    values (
        x'01990000000070008000000000000001', null, 5, null, 'running', 1, x'00000000000000000000000000000001',
        'orders', 1, '', 'orders', '7', x'01990000000070008000000000000002', 7, 0, 1,
        '{\"team\":\"blue\"}', null, '{\"order\":7}', null
    );
    insert into journal (run_id, seq, writer, commit_id, at, kind, step, attempt, codec, payload)
    values (x'01990000000070008000000000000001', 1, x'01990000000070008000000000000003',
        x'01990000000070008000000000000004', 1, 1, null, 0, 0, cast('{}' as blob));
";
const KEY: &str = "
    insert into api_keys (id, workspace, name, hash, permissions, created_at)
    values (?1, x'00000000000000000000000000000001', 'old', ?2, 'workflow:read', 1)
";
const RUN: Uuid = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0001);
const PARENT: Uuid = Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0002);
const HERE: WorkspaceId = WorkspaceId::DEFAULT;

fn key(hash: u8) -> KeyRow {
    KeyRow {
        id: Uuid::from_u128(hash.into()),
        workspace: HERE,
        name: "old".to_owned(),
        hash: [hash; 32],
        permissions: vec!["workflow:read".to_owned()],
        role: None,
        rate_limit: None,
        created_at: Timestamp::from_micros(1),
        expires_at: None,
        revoked_at: None,
        maker: None,
    }
}

/// The first release with an upgrade, and each one since.
#[tokio::test]
async fn a_database_of_the_release_before_is_found_whole() {
    for versions in 2..SQLITE.len() {
        check_found_whole(&SQLITE[..versions]).await;
    }
}

async fn check_found_whole(migrations: &[Migration]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("everstep.db");
    let mut old = Connection::open(&path).unwrap();
    migrate(&mut old, migrations).unwrap();
    old.execute_batch(WRITTEN).unwrap();
    old.execute(KEY, (key(1).id.into_bytes(), [1_u8; 32])).unwrap();
    drop(old);

    let mut database = Database::open(&path).unwrap();
    let run = RunId::from_uuid(RUN);
    let loaded = database.load_run(run).unwrap().unwrap();
    assert_eq!((loaded.run.status, loaded.run.origin, loaded.run.seq), (Status::Running, None, 1));
    assert_eq!(loaded.run.input.json(), r#"{"order":7}"#);
    assert_eq!(loaded.entries[0].row.kind, Kind::RunStarted);
    assert_eq!(loaded.run.key, Some(("orders".to_owned(), "7".to_owned())));
    for filter in [
        RunFilter { parent: Some(RunId::from_uuid(PARENT)), ..RunFilter::default() },
        RunFilter { input: vec![(vec!["order".to_owned()], "7".to_owned())], ..RunFilter::default() },
        RunFilter { statuses: vec![Status::Running, Status::Failed], ..RunFilter::default() },
    ] {
        let page = database.list_runs(HERE, &filter, None, 10).unwrap();
        assert_eq!(page.runs.iter().map(|run| run.id).collect::<Vec<_>>(), [run]);
    }
    assert_eq!(database.list_workflows(HERE, None, 10).unwrap()[0].active_version, 1);
    assert_eq!(database.delete_workflow(HERE, "orders").unwrap(), Deletion::InUse(1));
    // The run continues, and can be forked.
    let node = NodeId::new(Timestamp::EPOCH, 1);
    database.join(node, std::time::Duration::from_secs(10), None).unwrap();
    assert_eq!(database.claim_runs(node, "", Timestamp::from_micros(5), 10, None).unwrap().runs, [run]);
    let fork = RunId::new(Timestamp::EPOCH, 2);
    assert_eq!(database.fork_run(HERE, run, &NewFork::new(fork, 1, Timestamp::EPOCH)).unwrap(), Some(1));
    database.recount().unwrap();
    assert_eq!(database.counts(HERE).unwrap()[0].n, 2);
    drop(database);

    let store = SqliteStore::open(folder.path(), &Options::default()).unwrap();
    assert_eq!(store.find_key(&[1; 32]).await.unwrap(), Some(key(1)));
    assert_eq!(store.workspaces().await.unwrap()[0].id, HERE);
    // The publisher of the version is unknown, and records can be written.
    assert_eq!(store.workflow(HERE, "orders", None).await.unwrap().unwrap().publisher, None);
    let op = Op {
        workspace: HERE,
        namespace: "n".to_owned(),
        key: OpKey::of_request(Timestamp::EPOCH, 1),
        digest: None,
        random: 1,
        author: Author::system(),
        action: OpAction::Set(SetRequest::new("k", serde_json::json!(1))),
    };
    let applied = store.apply(&[op], Timestamp::EPOCH, Timestamp::EPOCH).await.unwrap();
    assert!(applied.outcomes[0].is_ok(), "{applied:?}");
}

#[tokio::test]
async fn rows_in_the_form_of_the_release_before_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), &Options::default()).unwrap();
    let old = Connection::open(folder.path().join("everstep.db")).unwrap();
    old.execute_batch(WRITTEN).unwrap();
    old.execute(KEY, (key(2).id.into_bytes(), [2_u8; 32])).unwrap();
    assert_eq!(store.find_key(&[2; 32]).await.unwrap(), Some(key(2)));
    assert_eq!(store.load_run(RunId::from_uuid(RUN)).await.unwrap().unwrap().run.origin, None);
}
