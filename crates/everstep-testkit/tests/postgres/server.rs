//! The tests' own server: it never outlives its process.

use std::process::Command;

use everstep_testkit::postgres::{Cluster, Durability};

#[test]
fn a_server_of_a_test_is_gone_with_it() {
    let cluster = Cluster::start(Durability::Fast);
    let folder = cluster.folder().to_owned();
    let database = cluster.database();
    assert_eq!(database.sql("select current_database()"), [database.name()]);
    assert_eq!(database.sql("show fsync"), ["off"]);
    drop(database);
    assert_eq!(cluster.sql("postgres", "select datname from pg_database where datname like 'test%'"), [""; 0]);
    let pid = cluster.sql("postgres", "select pg_postmaster_start_time() is not null")[0].clone();
    assert_eq!(pid, "t");
    drop(cluster);
    assert!(!folder.exists());
}

/// Runs this test in a separate process that is killed while its server runs.
#[test]
fn a_killed_process_leaves_no_server_behind() {
    const MARK: &str = "EVERSTEP_TEST_IS_TO_BE_KILLED";
    if let Some(file) = std::env::var_os(MARK) {
        let cluster = Cluster::start(Durability::Fast);
        std::fs::write(file, format!("{}\n", cluster.folder().display())).unwrap();
        loop {
            std::thread::park();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["postgres::server::a_killed_process_leaves_no_server_behind", "--exact", "--test-threads=1"])
        .env(MARK, &file)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let server = loop {
        match std::fs::read_to_string(&file) {
            Ok(text) if text.ends_with('\n') => break std::path::PathBuf::from(text.trim()),
            _ => assert!(child.try_wait().unwrap().is_none(), "it ended by itself"),
        }
        std::thread::yield_now();
    };
    assert!(server.join("data/postmaster.pid").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    while server.exists() {
        std::thread::yield_now();
    }
}
