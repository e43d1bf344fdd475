//! TLS: the requested mode is the mode in use.

use std::path::Path;
use std::process::Command;

use everstep_store::postgres::{Options, PostgresStore};
use everstep_testkit::contract::run;
use everstep_testkit::postgres::{Cluster, Durability, TestDatabase};
use tempfile::TempDir;

use super::refused;

/// Creates an authority and a certificate for `localhost` that it signs: `NAME.pem`, `NAME.key`.
fn certificates() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, more: &[&str]| {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        openssl.args(["-days", "2", "-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")]);
        let output = openssl.args(more).current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    make("authority", &["-subj", "/CN=authority"]);
    make("stranger", &["-subj", "/CN=stranger"]);
    let signed = ["-CA", "authority.pem", "-CAkey", "authority.key", "-subj", "/CN=server"];
    let names = ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"];
    make("server", &[signed.as_slice(), &names].concat());
    folder
}

/// A server with TLS, and its certificates.
fn secure(certificates: &Path) -> Cluster {
    let cluster = Cluster::start(Durability::Fast);
    for (setting, name) in [("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key")] {
        let file = cluster.keep(name, &std::fs::read(certificates.join(name)).unwrap());
        cluster.configure(&format!("{setting} = '{}'", file.display()));
    }
    cluster.configure("ssl = on");
    cluster.stop();
    cluster.start_again();
    cluster
}

/// Opens the database and returns whether the connection is encrypted.
async fn is_hidden(database: &TestDatabase<'_>, host: &str, parameters: &str) -> bool {
    let store = PostgresStore::open(&url(database, host, parameters), &Options::default()).await.unwrap();
    let connections = "select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid)
        where application_name = 'everstep' and datname = current_database()";
    let hidden = database.sql(connections);
    drop(store);
    // The next one must not find the files of this one.
    let gone = "select count(*) from pg_stat_activity where application_name = 'everstep'";
    while database.sql(gone) != ["0"] {
        tokio::task::yield_now().await;
    }
    hidden == ["t"]
}

fn url(database: &TestDatabase<'_>, host: &str, parameters: &str) -> String {
    format!("postgres://postgres@{host}:{}/{}?{parameters}", database.cluster().port(), database.name())
}

#[test]
fn tls_is_used_as_the_url_demands() {
    run(async {
        let folder = certificates();
        let cluster = secure(folder.path());
        let database = cluster.database();
        let trust =
            |mode: &str, name: &str| format!("sslmode={mode}&sslrootcert={}", folder.path().join(name).display());

        assert!(!is_hidden(&database, "localhost", "sslmode=disable").await);
        for parameters in ["sslmode=prefer", "sslmode=require"] {
            assert!(is_hidden(&database, "localhost", parameters).await, "{parameters}");
        }
        assert!(is_hidden(&database, "localhost", &trust("verify-full", "authority.pem")).await);
        assert!(is_hidden(&database, "localhost", &trust("verify-ca", "authority.pem")).await);

        // The certificate does not name this address; a mode that only checks the authority accepts it.
        assert!(is_hidden(&database, "127.0.0.1", &trust("verify-ca", "authority.pem")).await);
        let error = refused(&url(&database, "127.0.0.1", &trust("verify-full", "authority.pem"))).await;
        assert!(error.to_string().contains("sslmode and sslrootcert"), "{error}");
        for mode in ["require", "verify-ca", "verify-full"] {
            let error = refused(&url(&database, "localhost", &trust(mode, "stranger.pem"))).await;
            assert!(error.to_string().contains("certificate"), "{error}");
        }
    });
}

#[test]
fn a_server_without_tls_is_refused_when_it_is_asked_for() {
    run(async {
        let database = Cluster::shared().database();
        let error = refused(&url(&database, "127.0.0.1", "sslmode=require")).await;
        assert!(error.to_string().contains("server does not support TLS"), "{error}");
        assert!(error.to_string().contains("sslmode"), "{error}");
        assert!(!is_hidden(&database, "127.0.0.1", "sslmode=prefer").await);
    });
}
