//! Databases of the previous release are opened with all their data, while the previous release continues to use them.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::RunId;
use everstep_core::journal::Kind;
use everstep_core::status::Status;
use everstep_store::{AccessStore, Deletion, Error, Item, NewFork, RunFilter, RunStore, WorkflowStore};
use everstep_testkit::contract::{fixtures::*, run};
use everstep_testkit::postgres::{Cluster, TestDatabase};

use super::{open, refused, session, wait_for_a_waiter};

macro_rules! migration {
    ($name:literal) => {
        include_str!(concat!("../../../everstep-store/migrations/postgres/", $name, ".sql"))
    };
}

/// The migrations of earlier releases.
const MIGRATIONS: [&str; 12] = [
    migration!("V1__initial"),
    migration!("V2__keys_and_settings"),
    migration!("V3__access_and_resources"),
    migration!("V4__machines"),
    migration!("V5__records"),
    migration!("V6__sign_ins"),
    migration!("V7__inbox"),
    migration!("V8__run_stats"),
    migration!("V9__topics"),
    migration!("V10__claims_by_workspace"),
    migration!("V11__files"),
    migration!("V12__dead_letters"),
];
/// The migrations of the first release with an upgrade.
const FIRST_UPGRADED: usize = 2;
const HISTORY: &str = "create table everstep_migrations (
    version integer not null primary key, name text not null, checksum text not null, applied_at text not null
)";
/// The week of the run, as the previous release creates it.
const WEEK: &str = "
    create table journal_2025_09_01 (like journal including all);
    alter table journal attach partition journal_2025_09_01
    for values from ('01990292-d000-0000-0000-000000000000') to ('0199269f-5400-0000-0000-000000000000');
";
/// Rows as the previous release wrote them.
const WRITTEN: &str = "
    insert into workflows (workspace, name, version, style, definition, digest, retention_days, created_at)
    values ('00000000-0000-0000-0000-000000000001', 'orders', 1, 'graph', '{}', 'digest', 7, 1);
    insert into workflow_heads (workspace, name, version)
    values ('00000000-0000-0000-0000-000000000001', 'orders', 1);
    insert into runs (
        id, owner, wake_at, ended_at, status, format, workspace, workflow, version, lane,
        idempotency_scope, idempotency_key, parent, retention_days, is_test, created_at,
        tags, error, input, output
    )
    values (
        '01991000-0000-7000-8000-000000000001', null, 5, null, 'running', 1, '00000000-0000-0000-0000-000000000001',
        'orders', 1, '', 'orders', '7', '01991000-0000-7000-8000-000000000002', 7, false, 1,
        '{\"team\":\"blue\"}', null, '{\"order\":7}', null
    );
    insert into journal (run_id, seq, writer, commit_id, at, kind, step, attempt, codec, payload)
    values ('01991000-0000-7000-8000-000000000001', 1, '01991000-0000-7000-8000-000000000003',
        '01991000-0000-7000-8000-000000000004', 1, 1, null, 0, 0, '{}');
";
const KEY: &str = "
    insert into api_keys (id, workspace, name, hash, permissions, created_at)
    values (gen_random_uuid(), '00000000-0000-0000-0000-000000000001', 'old', sha256('old'), 'workflow:read', 1)
    returning encode(hash, 'hex')
";

/// Creates a database as the first release with an upgrade left it.
async fn make_old(database: &TestDatabase<'_>) {
    make_with(database, FIRST_UPGRADED).await;
}

/// Creates a database as the release with so many migrations left it.
async fn make_with(database: &TestDatabase<'_>, versions: usize) {
    // The checksums are those of the files, which have not changed.
    let other = Cluster::shared().database();
    drop(open(&other).await);
    let history = format!(
        "select format('(%s, %L, %L, %L)', version, name, checksum, applied_at)
        from everstep_migrations where version <= {versions} order by version"
    );
    let history = other.sql(&history).join(", ");
    database.sql(HISTORY);
    for migration in &MIGRATIONS[..versions] {
        database.sql(migration);
    }
    database.sql(&format!("insert into everstep_migrations values {history}"));
    database.sql(WEEK);
}

#[test]
fn a_database_of_the_release_before_is_found_whole() {
    run(async {
        for versions in FIRST_UPGRADED..=MIGRATIONS.len() {
            check_found_whole(versions).await;
        }
    });
}

async fn check_found_whole(versions: usize) {
    let database = Cluster::shared().database();
    make_with(&database, versions).await;
    database.sql(WRITTEN);
    let hash = database.sql(KEY).remove(0);

    let store = open(&database).await;
    let keys = store.list_keys(HERE).await.unwrap();
    assert_eq!((keys.len(), keys[0].name.as_str(), keys[0].revoked_at), (1, "old", None));
    assert_eq!(store.find_key(&keys[0].hash).await.unwrap(), Some(keys[0].clone()));
    assert_eq!(keys[0].hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), hash);
    assert_eq!(store.workspaces().await.unwrap()[0].id, HERE);
    let run: RunId = "01991000-0000-7000-8000-000000000001".parse().unwrap();
    let parent = "01991000-0000-7000-8000-000000000002".parse().unwrap();
    let loaded = load(&store, run).await;
    assert_eq!((loaded.run.status, loaded.run.origin, loaded.run.seq), (Status::Running, None, 1));
    assert_eq!(loaded.entries[0].row.kind, Kind::RunStarted);
    assert_eq!(Tables::Postgres(database.url()).run_with_key(HERE, "orders", "7").await, Some(loaded.run.id));
    for filter in [
        RunFilter { parent: Some(parent), ..RunFilter::default() },
        RunFilter { input: vec![(vec!["order".to_owned()], "7".to_owned())], ..RunFilter::default() },
        RunFilter { tags: vec![("team".to_owned(), "blue".to_owned())], ..RunFilter::default() },
    ] {
        let page = store.list_runs(HERE, filter, None, 10).await.unwrap();
        assert_eq!(page.runs.iter().map(|run| run.id).collect::<Vec<_>>(), [run]);
    }
    assert_eq!(store.list_workflows(HERE, None, 10).await.unwrap()[0].active_version, 1);
    assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::InUse(1));
    // The run continues, and can be forked.
    let node = member(&store).await;
    assert_eq!(claim(&store, node, "", at(0), 10).await, [run]);
    apply(&store, node, &step(run, 2)).await;
    assert_eq!(store.fork_run(HERE, run, NewFork::new(new_run(), 1, at(0))).await.unwrap(), Some(1));
    // The publisher of the version is unknown, and records can be written.
    assert_eq!(store.workflow(HERE, "orders", None).await.unwrap().unwrap().publisher, None);
    assert_eq!(applied_op(&store, &set("k", 1)).await["change"], 1);
}

#[test]
fn the_release_before_can_go_on_writing() {
    run(async {
        let database = Cluster::shared().database();
        make_old(&database).await;
        let store = open(&database).await;
        database.sql(WRITTEN);
        database.sql(KEY);
        let run = "01991000-0000-7000-8000-000000000001".parse().unwrap();
        assert_eq!(load(&store, run).await.run.origin, None);
        assert_eq!(store.list_keys(HERE).await.unwrap().len(), 1);
    });
}

#[test]
fn a_failed_migration_leaves_nothing_half_applied() {
    run(async {
        let database = Cluster::shared().database();
        make_old(&database).await;
        // V3 creates other tables before this one.
        database.sql("create table audit (id uuid)");
        let columns = "select table_name, column_name from information_schema.columns
            where table_schema = 'public' order by table_name, column_name";
        let history = "select version from everstep_migrations order by version";
        let before = database.sql(columns);

        let error = refused(&database.url()).await;
        assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
        assert!(error.to_string().contains("V3 (access_and_resources) fails: relation \"audit\""), "{error}");
        assert_eq!(database.sql(columns), before);
        assert_eq!(database.sql(history), ["1", "2"]);

        database.sql("drop table audit");
        open(&database).await;
        assert_eq!(database.sql(history)[..3], ["1", "2", "3"]);
    });
}

#[test]
fn an_upgrade_waits_for_readers_and_lets_writers_pass() {
    run(async {
        let database = Arc::new(Cluster::shared().database());
        make_old(&database).await;
        let reader = session(&database).await;
        reader.batch_execute("begin; select from runs").await.unwrap();
        let upgrade = {
            let database = Arc::clone(&database);
            tokio::spawn(async move { open(&database).await })
        };
        let writer = session(&database).await;
        wait_for_a_waiter(&writer).await;
        // The node of the previous release continues, although the migration needs to lock the table.
        writer.batch_execute(WRITTEN).await.unwrap();
        assert!(!upgrade.is_finished());
        reader.batch_execute("rollback").await.unwrap();
        let store = upgrade.await.unwrap();
        let run = "01991000-0000-7000-8000-000000000001".parse().unwrap();
        assert_eq!(load(&store, run).await.run.origin, None);
    });
}

#[test]
fn what_the_release_before_makes_active_again_is_not_swept() {
    run(async {
        let database = Cluster::shared().database();
        make_old(&database).await;
        database.sql(WRITTEN);
        let store = open(&database).await;
        let node = member(&store).await;
        let run: RunId = "01991000-0000-7000-8000-000000000001".parse().unwrap();
        claim(&store, node, "", at(0), 10).await;
        apply(&store, node, &end(run, 2, at(0))).await;
        assert_eq!(store.delete_workflow(HERE, "orders").await.unwrap(), Deletion::Deleted);
        // It knows no deletions: the newest version exists.
        database.sql("insert into workflow_heads select workspace, name, version from workflows");
        let later = store.join(new_node(), LEASE, None).await.unwrap().plus(Duration::from_secs(10 * 86_400));
        assert_eq!(store.sweep(later, 10).await.unwrap(), 1);
        assert!(store.workflow(HERE, "orders", None).await.unwrap().is_some());
    });
}

/// The statement with which nodes of the previous release claim runs of any lane, and with which this one claims those of
/// workers. A node passes the format that it knows.
const CLAIM: &str = include_str!("../../../everstep-store/queries/postgres/claim_runs/1_lane.sql");
/// The highest format that the previous release knows.
const PREVIOUS_FORMAT: u32 = 2;

#[test]
fn a_node_of_the_previous_release_claims_no_pending_run() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let node = member(&store).await;
        let begun = unowned_run(&store, node).await;
        let pending = new_run();
        let row = Item {
            format: PREVIOUS_FORMAT + 1,
            entries: Vec::new(),
            projection: Some(projection(Status::Pending, None, at(0))),
            ..start(pending, None)
        };
        apply(&store, node, &row).await;
        let statement = CLAIM
            .replace(":node", &format!("'{node}'::uuid"))
            .replace(":lane", "''")
            .replace(":now", &at(1_000).micros().to_string())
            .replace(":format", &PREVIOUS_FORMAT.to_string())
            .replace(":limit", "10");
        assert_eq!(database.sql(&statement), [format!("t|{{{begun}}}")]);
        assert_eq!(database.sql(&statement), ["t|"], "it finds the other one neither now nor later");
        assert_eq!(claim(&store, node, "", at(1_000), 10).await, [pending]);
    });
}
