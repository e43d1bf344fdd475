//! PgBouncer before a server: few connections to it, shared by many clients, each for one transaction at a time.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::cluster::Cluster;

/// Its paths on Debian and on other systems.
const PLACES: &[&str] = &["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"];
/// So few connections that clients must share them.
const SETTINGS: &str = "
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
listen_addr = 127.0.0.1
unix_socket_dir =
auth_type = trust
";

/// A pooler in transaction mode. It ends with this value, or with the process.
#[derive(Debug)]
pub struct Pooler<'a> {
    cluster: &'a Cluster,
    folder: PathBuf,
    port: u16,
    child: Child,
}

impl<'a> Pooler<'a> {
    /// Starts one with further settings, such as `ignore_startup_parameters = options`.
    pub(super) fn start(cluster: &'a Cluster, settings: &str) -> Self {
        let Some(program) = PLACES.iter().map(Path::new).find(|program| program.is_file()) else {
            panic!("these tests need PgBouncer 1.18 or later; install it: apt-get install pgbouncer");
        };
        let folder = tempfile::Builder::new().prefix("bouncer-").tempdir_in(cluster.folder()).unwrap().keep();
        cluster.binaries.own(&folder);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let users = cluster.keep_in(&folder, "users", b"\"postgres\" \"\"\n");
        let config = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\n{SETTINGS}\nlisten_port = {port}\n\
             auth_file = {}\nlogfile = {}\npidfile = {}\n{settings}\n",
            cluster.port(),
            users.display(),
            folder.join("log").display(),
            folder.join("pid").display(),
        );
        let config = cluster.keep_in(&folder, "config", config.as_bytes());
        let mut command = cluster.binaries.run(program);
        command.arg(config).current_dir(&folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut pooler = Self { cluster, folder, port, child: command.spawn().unwrap() };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let has_ended = pooler.child.try_wait().unwrap().is_some();
            assert!(!has_ended && began.elapsed() < Duration::from_secs(30), "PgBouncer: {}", pooler.log());
            std::thread::sleep(Duration::from_millis(10));
        }
        pooler
    }

    /// The URL of a database through the pooler.
    pub fn url(&self, database: &str) -> String {
        self.cluster.url_at(self.port, database)
    }

    /// Its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Pooler<'_> {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
