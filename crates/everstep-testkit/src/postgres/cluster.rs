//! A server: its folder, its settings, and its processes.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use everstep_store::postgres::{self as store, Options};

use super::binaries::Binaries;
use super::database::TestDatabase;
use super::guard::Guard;
use super::pooler::Pooler;

/// The administrator of a test's server. Only `guarded` needs a password.
const ADMIN: &str = "postgres";
const SETTINGS: &str = "
listen_addresses = '127.0.0.1'
max_connections = 300
shared_buffers = 128MB
dynamic_shared_memory_type = mmap
timezone = 'UTC'
log_min_error_statement = panic
";
const RIGHTS: &str = "
local all all trust
host all guarded 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
";

/// The durability of a server's commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It waits for the disk, as in production.
    Synced,
    /// It does not wait for the disk. For tests of promises other than the survival of a power failure.
    Fast,
}

/// A PostgreSQL server of this process. It ends with this value, or with the process.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    port: u16,
    pub(super) binaries: Binaries,
    databases: AtomicU64,
    /// The database that [`Cluster::migrated_database`] copies.
    template: OnceLock<()>,
    _guard: Guard,
}

const TEMPLATE: &str = "everstep_template";

impl Cluster {
    /// The one server that most tests of a process share. No test stops it.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Cluster> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(Durability::Fast))
    }

    /// Starts a server for one test.
    pub fn start(durability: Durability) -> Self {
        Self::start_in(&std::env::temp_dir(), durability)
    }

    /// Starts a server whose files are in a new folder inside `place`: its disk is the one that the server writes to.
    pub fn start_in(place: &Path, durability: Durability) -> Self {
        let binaries = Binaries::find();
        let place = place.canonicalize().unwrap_or_else(|error| panic!("{}: {error}", place.display()));
        let folder = tempfile::Builder::new().prefix("everstep-pg-").tempdir_in(place).unwrap().keep();
        let guard = Guard::watch(&folder);
        binaries.own(&folder);
        let data = folder.join("data");
        let mut initdb = binaries.command("initdb");
        initdb.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--username", ADMIN, "-D"]);
        done(initdb.arg(&data).current_dir(&folder));
        fs::write(data.join("pg_hba.conf"), RIGHTS).unwrap();
        let databases = AtomicU64::new(0);
        let mut cluster = Self { folder, port: 0, binaries, databases, template: OnceLock::new(), _guard: guard };
        cluster.configure(SETTINGS);
        cluster.configure(&format!("unix_socket_directories = '{}'", cluster.folder.display()));
        cluster.configure(match durability {
            // After a crash it synchronises the whole file system at once, not file by file.
            Durability::Synced => "recovery_init_sync_method = syncfs",
            Durability::Fast => "fsync = off\nfull_page_writes = off",
        });
        // Another process may use a free port before the server does.
        for _ in 0..10 {
            cluster.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            cluster.configure(&format!("port = {}", cluster.port));
            if cluster.try_start().status.success() {
                return cluster;
            }
        }
        panic!("PostgreSQL does not start:\n{}", cluster.log());
    }

    /// A fresh database, dropped with the value that is returned.
    pub fn database(&self) -> TestDatabase<'_> {
        TestDatabase::create(self, self.next_name(), None)
    }

    /// Like [`Cluster::database`], with the schema of this build: the copy of a database whose migrations were applied
    /// once, because applying them takes longer than most tests.
    pub fn migrated_database(&self) -> TestDatabase<'_> {
        self.template.get_or_init(|| self.create_template());
        TestDatabase::create(self, self.next_name(), Some(TEMPLATE))
    }

    fn next_name(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed) + 1;
        format!("test_{number}")
    }

    fn create_template(&self) {
        self.sql("postgres", &format!("create database {TEMPLATE}"));
        let url = self.url(TEMPLATE);
        // On a thread of its own, because callers may be in a runtime.
        let open = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { drop(store::open(&url, &Options::default()).await.unwrap()) });
        };
        std::thread::spawn(open).join().unwrap();
        // A database with connections cannot be copied.
        let others = format!("select pg_terminate_backend(pid) from pg_stat_activity where datname = '{TEMPLATE}'");
        self.sql("postgres", &others);
    }

    /// The URL of a database of this server, for its administrator.
    pub fn url(&self, database: &str) -> String {
        self.url_at(self.port, database)
    }

    /// Like [`Cluster::url`], through a proxy that listens on another port of this machine.
    pub fn url_at(&self, port: u16, database: &str) -> String {
        format!("postgres://{ADMIN}@127.0.0.1:{port}/{database}")
    }

    /// Starts PgBouncer in transaction mode before the server, with further settings.
    pub fn pooler(&self, settings: &str) -> Pooler<'_> {
        Pooler::start(self, settings)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of its files, and of its socket.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Executes statements as the administrator. Returns the rows, with `|` between columns.
    pub fn sql(&self, database: &str, statements: &str) -> Vec<String> {
        let mut psql = self.binaries.command("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", ADMIN, "-d", database, "-c", statements]);
        psql.arg("-h").arg(&self.folder).arg("-p").arg(self.port.to_string());
        let output = done(psql.current_dir(&self.folder));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// Adds settings, which take effect at the next start.
    pub fn configure(&self, settings: &str) {
        let mut file = fs::OpenOptions::new().append(true).open(self.folder.join("data/postgresql.conf")).unwrap();
        writeln!(file, "{settings}").unwrap();
    }

    /// Writes a file that only the server may read into its folder. Returns its path.
    pub fn keep(&self, name: &str, content: &[u8]) -> PathBuf {
        self.keep_in(&self.folder, name, content)
    }

    pub(super) fn keep_in(&self, folder: &Path, name: &str, content: &[u8]) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;

        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        self.binaries.own(&path);
        path
    }

    /// Starts it again after it was stopped.
    pub fn start_again(&self) {
        let output = self.try_start();
        assert!(output.status.success(), "PostgreSQL does not start again:\n{}", self.log());
    }

    /// Stops it in order: statements in progress are cancelled, committed data is written.
    pub fn stop(&self) {
        done(self.pg_ctl("stop").args(["-m", "fast"]));
    }

    /// Stops it as a crash would, and starts it again: it recovers.
    pub fn restart_immediately(&self) {
        done(self.pg_ctl("stop").args(["-m", "immediate"]));
        self.start_again();
    }

    /// Kills all its processes at once.
    pub fn kill(&self) {
        let file = self.folder.join("data/postmaster.pid");
        let pid = fs::read_to_string(&file).unwrap();
        let pid = pid.lines().next().unwrap().to_owned();
        let mut processes = children(&pid);
        processes.push(pid);
        let mut kill = Command::new("kill");
        kill.arg("-KILL").args(&processes);
        // A process that has just ended by itself is gone as well.
        let _ = kill.stderr(Stdio::null()).status().unwrap();
        while processes.iter().any(|pid| is_running(pid)) {
            std::thread::yield_now();
        }
        // A zombie process would prevent the next start.
        for file in [file, self.folder.join(format!(".s.PGSQL.{}.lock", self.port))] {
            fs::remove_file(file).unwrap();
        }
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    fn try_start(&self) -> Output {
        let log = self.folder.join("log");
        self.pg_ctl("start").arg("-l").arg(log).stdout(Stdio::null()).stderr(Stdio::null()).output().unwrap()
    }

    fn pg_ctl(&self, verb: &str) -> Command {
        let mut command = self.binaries.command("pg_ctl");
        command.args([verb, "-w", "-D"]).arg(self.folder.join("data")).current_dir(&self.folder).stdin(Stdio::null());
        command
    }
}

fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// The child processes of a process.
fn children(pid: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    children.flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Whether a process is running: a zombie is not.
fn is_running(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}
