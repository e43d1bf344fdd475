//! Opening: every obstacle is reported with its remedy.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everstep_store::postgres::{Options, PostgresStore};
use everstep_store::{Error, RunStore};
use everstep_testkit::contract::{fixtures::*, run};
use everstep_testkit::postgres::Cluster;

use super::{open, refused};

#[test]
fn an_unreachable_server_is_named() {
    run(async {
        // A port that was free a moment ago.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let error = refused(&format!("postgres://me:secret@127.0.0.1:{port}/orders")).await;
        assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
        let said = error.to_string();
        assert!(said.contains(&format!("PostgreSQL at 127.0.0.1:{port} cannot be reached")), "{said}");
        assert!(said.contains("Connection refused"), "{said}");
        assert!(
            said.contains("check that it is running, and that the database URL names the right host and port"),
            "{said}"
        );
        assert!(!said.contains("secret"), "{said}");
    });
}

#[test]
fn a_server_that_does_not_answer_is_not_waited_for() {
    run(async {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("postgres://me@{}/orders", silent.local_addr().unwrap());
        let options = Options { call_timeout: Duration::from_millis(200), ..Options::default() };
        let began = Instant::now();
        let Err(error) = PostgresStore::open(&url, &options).await else { panic!("silence was opened") };
        assert!(error.to_string().contains("sent no reply within 200ms"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn a_wrong_password_is_reported_without_it() {
    run(async {
        let database = Cluster::shared().database();
        let name = database.name();
        database.sql(&format!(
            "do $$ begin create role guarded login password 'right'; exception when others then end $$;
             alter database {name} owner to guarded"
        ));
        let url =
            |password: &str| format!("postgres://guarded:{password}@127.0.0.1:{}/{name}", database.cluster().port());
        let error = refused(&url("wr0ng")).await;
        assert!(matches!(error, Error::Unusable(_)), "{error:?}");
        let said = error.to_string();
        assert!(said.contains("check the password of user \"guarded\" in the database URL"), "{said}");
        assert!(!said.contains("wr0ng"), "{said}");
        PostgresStore::open(&url("right"), &Options::default()).await.unwrap();
    });
}

#[test]
fn a_missing_database_is_reported_with_the_command_that_creates_it() {
    run(async {
        let error = refused(&Cluster::shared().url("nowhere")).await;
        let said = error.to_string();
        assert!(said.contains("database \"nowhere\" does not exist"), "{said}");
        assert!(said.contains("createdb --owner \"postgres\" \"nowhere\""), "{said}");
    });
}

#[test]
fn a_read_only_database_is_refused() {
    run(async {
        let database = Cluster::shared().database();
        database.sql(&format!("alter database {} set default_transaction_read_only = on", database.name()));
        let error = refused(&database.url()).await;
        assert!(matches!(error, Error::Unusable(_)), "{error:?}");
        assert!(error.to_string().contains("is read-only"), "{error}");
        assert!(error.to_string().contains("name the primary in the database URL"), "{error}");
    });
}

#[test]
fn a_missing_right_is_reported_with_its_grant() {
    run(async {
        let database = Cluster::shared().database();
        let name = database.name();
        let role = format!("poor_{name}");
        database.sql(&format!("create role {role} login; revoke create on schema public from public"));
        let url = format!("postgres://{role}@127.0.0.1:{}/{name}", database.cluster().port());
        let error = refused(&url).await;
        assert!(matches!(error, Error::Unusable(_)), "{error:?}");
        let said = error.to_string();
        let (_, grant) = said.split_once("run: ").unwrap();
        assert_eq!(grant, format!("grant create on schema \"public\" to \"{role}\""));
        // The remedy in the message works.
        database.sql(grant);
        let store = PostgresStore::open(&url, &Options::default()).await.unwrap();
        let node = member(&store).await;
        owned_run(&store, node).await;
    });
}

#[test]
fn tables_of_another_user_are_reported_with_the_missing_grant() {
    run(async {
        let database = Cluster::shared().database();
        drop(open(&database).await);
        let name = database.name();
        let role = format!("guest_{name}");
        database.sql(&format!(
            "create role {role} login; grant create on schema public to {role};
             grant all on all tables in schema public to {role}; grant all on all sequences in schema public to {role}"
        ));
        let url = format!("postgres://{role}@127.0.0.1:{}/{name}", database.cluster().port());
        let error = refused(&url).await;
        assert!(matches!(error, Error::Unusable(_)), "{error:?}");
        let said = error.to_string();
        assert!(said.contains("belong to \"postgres\""), "{said}");
        let (_, grant) = said.split_once("run: ").unwrap();
        assert_eq!(grant, format!("grant \"postgres\" to \"{role}\""));
        // The remedy in the message works.
        database.sql(grant);
        let store = PostgresStore::open(&url, &Options::default()).await.unwrap();
        let node = member(&store).await;
        owned_run(&store, node).await;
    });
}

#[test]
fn nodes_that_start_at_once_all_open_the_database() {
    run(async {
        let database = Arc::new(Cluster::shared().database());
        let nodes: Vec<_> = (0..6)
            .map(|_| {
                let database = Arc::clone(&database);
                tokio::spawn(async move {
                    let store = open(&database).await;
                    member(&store).await
                })
            })
            .collect();
        for node in nodes {
            node.await.unwrap();
        }
        assert_eq!(open(&database).await.nodes().await.unwrap().len(), 6);
        let history = database.sql("select version, name from everstep_migrations order by version");
        assert_eq!(history[..3], ["1|initial", "2|keys_and_settings", "3|access_and_resources"]);
    });
}

#[test]
fn a_schema_of_a_later_release_is_refused() {
    run(async {
        let database = Cluster::shared().database();
        drop(open(&database).await);
        database.sql("insert into everstep_migrations values (9999, 'future', '1', '2030-01-01T00:00:00Z')");
        let error = refused(&database.url()).await;
        assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
        assert!(error.to_string().contains("V9999"), "{error}");
    });
}

#[test]
fn a_changed_migration_is_refused() {
    run(async {
        let database = Cluster::shared().database();
        drop(open(&database).await);
        database.sql("update everstep_migrations set checksum = '1' where version = 2");
        let error = refused(&database.url()).await;
        assert!(matches!(error, Error::Corrupt(_)), "{error:?}");
        assert!(
            error.to_string().contains("V2 (keys_and_settings) of the database differs from that of this release"),
            "{error}"
        );
    });
}

#[test]
fn a_database_of_a_build_before_the_history_is_refused() {
    run(async {
        let database = Cluster::shared().database();
        database.sql("create table refinery_schema_history (version integer primary key)");
        database.sql("create table journal (run uuid primary key)");
        let error = refused(&database.url()).await;
        assert!(matches!(error, Error::Unusable(_)), "{error:?}");
        assert!(error.to_string().contains("cannot be upgraded; use an empty database"), "{error}");
        let tables = database.sql("select tablename from pg_tables where schemaname = 'public' order by tablename");
        assert_eq!(tables, ["journal", "refinery_schema_history"]);
    });
}

#[test]
fn a_database_of_another_program_with_refinery_is_opened() {
    run(async {
        let database = Cluster::shared().database();
        database.sql("create table refinery_schema_history (version integer primary key)");
        open(&database).await;
    });
}

#[test]
fn what_was_written_is_there_when_it_is_opened_again() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let node = member(&store).await;
        let going_on = owned_run(&store, node).await;
        apply(&store, node, &step(going_on, 2)).await;
        let before = load(&store, going_on).await;
        drop(store);
        // Another node may own it, so nothing is released.
        let store = open(&database).await;
        assert!(store.is_shared());
        assert_eq!(load(&store, going_on).await, before);
        apply(&store, node, &step(going_on, 4)).await;
    });
}

#[test]
fn callers_one_after_the_other_share_a_connection() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        // At the same time they need a connection each.
        tokio::join!(value(&store, "k"), value(&store, "k"), value(&store, "k"));
        let before = database.sql("select clock_timestamp()").remove(0);
        for _ in 0..20 {
            assert_eq!(value(&store, "k").await, None);
        }
        let of_store = "from pg_stat_activity where application_name = 'everstep' and datname = current_database()";
        assert_eq!(database.sql(&format!("select count(*) {of_store} and query_start > '{before}'")), ["1"]);
        assert_ne!(database.sql(&format!("select count(*) {of_store}")), ["1"]);
    });
}
