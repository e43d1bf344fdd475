//! Encrypted connections to PostgreSQL.

use std::process::Command;

use everstep_testkit::postgres::{Cluster, Durability};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::Asker;

/// Creates a self-signed certificate, and its key.
fn certificate(folder: &TempDir, name: &str, more: &[&str]) {
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args(["-days", "2", "-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")]);
    let output = openssl.args(more).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn tls_is_used_as_the_source_configures() {
    let folder = tempfile::tempdir().unwrap();
    certificate(&folder, "root", &["-subj", "/CN=a root"]);
    certificate(&folder, "other", &["-subj", "/CN=another root"]);
    let signed = [
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
        "-CA",
        "root.pem",
        "-CAkey",
        "root.key",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ];
    certificate(&folder, "server", &signed);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let cluster = Cluster::start(Durability::Fast);
    let database = cluster.database();
    let ask = async |more: Value| {
        Asker::from_database(&database, &more)
            .sql("select ssl from pg_stat_ssl where pid = pg_backend_pid()", json!({}))
            .await
    };

    let plain = ask(json!({"sslMode": "prefer"})).await.unwrap();
    assert_eq!(plain["rows"], json!([{"ssl": false}]));
    let failure = ask(json!({"sslMode": "require"})).await.unwrap_err();
    assert!(failure.message.contains("does not support TLS") && !failure.retryable, "{failure}");

    cluster.stop();
    for (setting, name) in [("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key")] {
        let path = cluster.keep(name, read(name).as_bytes());
        cluster.configure(&format!("{setting} = '{}'", path.display()));
    }
    cluster.configure("ssl = on");
    cluster.start_again();
    for (more, is_secured) in [
        (json!({"sslMode": "disable"}), false),
        (json!({}), true),
        (json!({"sslMode": "require"}), true),
        (json!({"sslMode": "verify-ca", "rootCertificate": read("root.pem")}), true),
        (json!({"host": "localhost", "sslMode": "verify-full", "rootCertificate": read("root.pem")}), true),
    ] {
        let answer = ask(more.clone()).await.unwrap_or_else(|failure| panic!("{more}: {failure}"));
        assert_eq!(answer["rows"], json!([{"ssl": is_secured}]), "{more}");
    }
    for more in [
        json!({"sslMode": "verify-ca", "rootCertificate": read("other.pem")}),
        // The certificate names localhost.
        json!({"sslMode": "verify-full", "rootCertificate": read("root.pem")}),
        json!({"host": "localhost", "sslMode": "verify-full"}),
    ] {
        let failure = ask(more.clone()).await.unwrap_err();
        assert!(failure.message.contains("TLS") && !failure.retryable, "{more}: {failure}");
    }
}
