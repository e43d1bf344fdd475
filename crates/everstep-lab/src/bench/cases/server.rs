//! A server: the program `everstep`, in a separate process.

use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use everstep_api::auth::{ApiKey, Permission};
use everstep_core::ids::WorkspaceId;
use everstep_engine::{Clock as _, SystemClock};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::mpsc;

use super::lines;
use crate::bench::args::Site;
use crate::bench::connection::{self, Connection};
use crate::bench::ground;
use crate::bench::usage::Process;

/// Waits until its standard input ends, then kills the server. The kernel closes that pipe when the benchmark ends,
/// also when the benchmark is killed.
const WATCH: &str = "trap '' HUP INT TERM; read -r _; kill -KILL \"$1\" 2>/dev/null";

/// The maximum time until all runs have ended or wait in the database.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// The pause between two questions for the number of active runs.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// It is killed with this value, or with this process.
pub(super) struct Server {
    child: Child,
    watcher: Child,
    line: Option<ChildStdin>,
    pub(super) address: String,
    pub(super) key: String,
    /// Its output after the greeting.
    said: mpsc::UnboundedReceiver<String>,
    _folder: TempDir,
}

impl Server {
    /// Starts a server on a fresh database and waits until it listens. It has the default settings, except for the rate
    /// limit of an API key.
    pub(super) async fn start(place: &Site) -> anyhow::Result<Self> {
        Self::start_with(place, &[("EVERSTEP_RATE_LIMIT", "0".to_owned())]).await
    }

    /// Starts a server with some settings; all others have their defaults.
    pub(super) async fn start_with(place: &Site, settings: &[(&str, String)]) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("everstep-bench-").tempdir().context("making a folder")?;
        let mut command = Command::new(find_program()?);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("EVERSTEP_") {
                command.env_remove(name);
            }
        }
        command.args(["serve", "--listen", "127.0.0.1:0"]).arg("--data");
        command.envs(settings.iter().map(|(name, value)| (name, value)));
        let data = match place {
            Site::Sqlite(data) => data.clone(),
            Site::Postgres(_) => folder.path().to_owned(),
        };
        command.arg(&data);
        if let Site::Postgres(url) = place {
            command.args(["--database-url", url]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting a server")?;
        let mut watcher = watch(child.id())?;
        let line = watcher.stdin.take();
        let said = lines::read_lines(child.stderr.take().context("the server's output is piped")?);
        let (address, key) = (String::new(), String::new());
        let mut server = Self { child, watcher, line, address, key, said, _folder: folder };
        server.hear_greeting().await?;
        server.key = find_key(place, &data).await?;
        Ok(server)
    }

    /// Reads up to the last line of the greeting.
    async fn hear_greeting(&mut self) -> anyhow::Result<()> {
        let mut heard = String::new();
        while let Some(line) = self.said.recv().await {
            if let Some((_, address)) = line.split_once("listens on http://") {
                self.address = address.trim().to_owned();
            }
            if line.starts_with("  try ") || line.starts_with("  keys ") {
                ensure!(!self.address.is_empty(), "the server does not print its address");
                return Ok(());
            }
            heard.push_str(&line);
            heard.push('\n');
        }
        anyhow::bail!("the server ended before it listened:\n{heard}")
    }

    pub(super) fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Waits until no run is active: they have ended, or wait in the database.
    pub(super) async fn until_idle(&self) -> anyhow::Result<()> {
        let mut connection = Connection::open(&self.address).await?;
        let began = Instant::now();
        loop {
            let answer = connection.ask(&connection::get(&self.address, "/readyz")).await?;
            let ready: Value = serde_json::from_str(answer.body)?;
            let active = ready["activeRuns"].as_u64().with_context(|| format!("no count of active runs: {ready}"))?;
            if active == 0 {
                return Ok(());
            }
            ensure!(began.elapsed() < IDLE_TIMEOUT, "{active} runs are still active");
            tokio::time::sleep(IDLE_CHECK_INTERVAL).await;
        }
    }

    /// Its output since the greeting, without the log lines of what it does: empty, unless something is wrong.
    pub(super) fn complaints(&mut self) -> String {
        let lines = std::iter::from_fn(|| self.said.try_recv().ok());
        lines.filter(|line| !line.contains(" INFO ")).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        drop(self.line.take());
        let _ = self.watcher.wait();
    }
}

/// The program `everstep` beside this one: the same profile builds both into one folder.
pub(super) fn find_program() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("finding this program's file")?.with_file_name("everstep");
    ensure!(
        program.is_file(),
        "{} does not exist; build both programs with the same profile: \
         cargo build --release --locked -p everstep -p everstep-lab",
        program.display()
    );
    Ok(program)
}

fn watch(id: u32) -> anyhow::Result<Child> {
    let mut watcher = Command::new("sh");
    watcher.args(["-c", WATCH, "watcher", &id.to_string()]).stdin(Stdio::piped());
    watcher.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("starting a watcher")
}

/// An API key of the server. A server on PostgreSQL writes the first key of its database to its own data folder, so that
/// the folder of a second server on the same database has none: the database then gets another key.
async fn find_key(place: &Site, data: &Path) -> anyhow::Result<String> {
    let path = data.join("admin.key");
    if path.exists() {
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        return Ok(text.trim().to_owned());
    }
    let secret = ApiKey::generate();
    let row = secret.row(WorkspaceId::DEFAULT, "bench", &[Permission::Admin], SystemClock::default().wall());
    ground::visit(place, move |stores| async move { Ok(stores.access.add_key(&row).await?) }).await?;
    Ok(secret.reveal().to_owned())
}
