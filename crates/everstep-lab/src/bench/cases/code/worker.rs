//! A worker: a process of the TypeScript SDK that performs runs and reports its measurements.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::bench::cases::lines;
use crate::bench::cases::server::Server;
use crate::bench::report;
use crate::bench::usage::Process;

/// The maximum time until it prints a requested line.
const LINE_TIMEOUT: Duration = Duration::from_secs(30);

/// The transport between a worker and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    Socket,
    Http,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Socket => "socket",
            Self::Http => "http",
        })
    }
}

/// The parts of a worker.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Kit {
    pub(in crate::bench) node: PathBuf,
    pub(in crate::bench) program: PathBuf,
    pub(in crate::bench) sdk: PathBuf,
    /// The path of a profile of its processor time.
    pub(in crate::bench) profile: Option<PathBuf>,
}

impl Kit {
    /// The client, which is beside the worker.
    fn client(&self) -> PathBuf {
        self.program.with_file_name("client.mjs")
    }

    /// Checks that a worker can be started, or reports the missing part.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let Self { node, program, sdk, .. } = self;
        let version = Command::new(node).arg("--version").output();
        anyhow::ensure!(
            version.is_ok_and(|output| output.status.success()),
            "case code needs Node.js 20 or later, and {} does not run; install it, or name it with --node",
            node.display()
        );
        anyhow::ensure!(
            program.is_file(),
            "case code needs the worker of the repository, and {} does not exist; start in the repository, or name \
             it with --worker",
            program.display()
        );
        anyhow::ensure!(
            sdk.join("dist/src/index.js").is_file(),
            "case code needs the TypeScript SDK, which is not built in {0}; build it (cd {0} && npm ci && npm run \
             build), or name its folder with --sdk",
            sdk.display()
        );
        Ok(())
    }
}

/// A message of a worker.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum News {
    /// It is connected.
    Ready {
        node: String,
        sdk: String,
    },
    /// This number of further runs has ended, durably.
    Ended(u64),
    Times(Times),
}

/// Durations in milliseconds, since the last mark.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Times {
    /// From a turn received to its end acknowledged.
    pub(super) runs: Vec<f64>,
    /// From the call of a step to its result.
    pub(super) steps: Vec<f64>,
}

/// It ends with this value, or with this process, because its input ends then.
pub(super) struct Worker {
    child: Child,
    orders: Option<ChildStdin>,
    said: mpsc::UnboundedReceiver<String>,
    is_profiled: bool,
}

impl Worker {
    /// Starts a worker, which connects at once.
    pub(super) fn start(kit: &Kit, server: &Server, carrier: Carrier, capacity: usize) -> anyhow::Result<Self> {
        let arguments = ["--carrier", &carrier.to_string(), "--capacity", &capacity.to_string()];
        Self::start_program(kit, &kit.program, server, arguments)
    }

    /// Starts a client, which starts runs of the workflow `chain` at once, waits for each of them, and keeps a number of
    /// them in flight. It prints what a worker prints that counts.
    pub(super) fn start_client(kit: &Kit, server: &Server, in_flight: usize) -> anyhow::Result<Self> {
        Self::start_program(kit, &kit.client(), server, ["--in-flight", &in_flight.to_string()])
    }

    fn start_program<const N: usize>(
        kit: &Kit,
        program: &Path,
        server: &Server,
        arguments: [&str; N],
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(&kit.node);
        if let Some(folder) = &kit.profile {
            command.args(["--cpu-prof", "--cpu-prof-dir"]).arg(folder);
        }
        command.arg(program).arg("--sdk").arg(absolute(&kit.sdk)?);
        command.args(["--url", &format!("http://{}", server.address)]).args(arguments);
        command.env("EVERSTEP_API_KEY", &server.key);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        let orders = child.stdin.take();
        let said = lines::read_lines(child.stdout.take().context("the worker's output is piped")?);
        Ok(Self { child, orders, said, is_profiled: kit.profile.is_some() })
    }

    pub(super) fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Waits until it is connected, and returns its versions.
    pub(super) async fn until_ready(&mut self) -> anyhow::Result<Made> {
        match self.news().await? {
            News::Ready { node, sdk } => Ok(Made { node, sdk }),
            other => anyhow::bail!("the worker is not ready: {other:?}"),
        }
    }

    /// Makes it report the ends of runs from now on.
    pub(super) fn count(&mut self) -> anyhow::Result<()> {
        self.order("count")
    }

    /// Waits until runs have ended, and returns the number of all that have.
    pub(super) async fn ended(&mut self) -> anyhow::Result<u64> {
        let News::Ended(mut ended) = self.news().await? else { anyhow::bail!("the worker does not count") };
        while let Ok(line) = self.said.try_recv() {
            let News::Ended(more) = read(&line)? else { anyhow::bail!("the worker does not count: {line}") };
            ended += more;
        }
        Ok(ended)
    }

    /// Drops all measured times.
    pub(super) async fn mark(&mut self) -> anyhow::Result<()> {
        self.times().await.map(drop)
    }

    /// The times since the last mark; they are dropped afterwards.
    pub(super) async fn times(&mut self) -> anyhow::Result<Times> {
        self.order("tell")?;
        loop {
            if let News::Times(times) = self.news().await? {
                return Ok(times);
            }
        }
    }

    fn order(&mut self, order: &str) -> anyhow::Result<()> {
        let orders = self.orders.as_mut().context("the worker accepts commands while it runs")?;
        writeln!(orders, "{order}").context("the worker has ended")
    }

    async fn news(&mut self) -> anyhow::Result<News> {
        let line = tokio::time::timeout(LINE_TIMEOUT, self.said.recv()).await.context("the worker prints nothing")?;
        read(&line.context("the worker has ended")?)
    }
}

/// The versions of a worker, and its transport.
#[derive(Clone, Debug)]
pub(super) struct Made {
    node: String,
    sdk: String,
}

impl Made {
    pub(super) fn tell(&self, part: &str, carrier: Carrier) {
        let Self { node, sdk } = self;
        report::tell(&format!("{part}: worker with {sdk} on Node.js {node}, by {carrier}"));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A profile is written only if the process ends by itself.
        drop(self.orders.take());
        if !self.is_profiled {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn read(line: &str) -> anyhow::Result<News> {
    serde_json::from_str(line).with_context(|| format!("the worker prints {line:?}"))
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    path.canonicalize().with_context(|| format!("finding {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kit(node: &str, program: &str, sdk: &str) -> Kit {
        Kit { node: node.into(), program: program.into(), sdk: sdk.into(), profile: None }
    }

    #[test]
    fn a_missing_part_of_a_worker_is_reported_with_its_remedy() {
        // Any program that exits with 0 can replace Node.js here.
        let error = |kit: Kit| kit.check().unwrap_err().to_string();
        assert!(error(kit("/nonexistent/node", "w.mjs", "sdk")).contains("name it with --node"));
        assert!(error(kit("true", "/nonexistent/w.mjs", "sdk")).contains("name it with --worker"));
        let unbuilt = error(kit("true", "/proc/self/status", "/nonexistent/sdk"));
        assert!(unbuilt.contains("cd /nonexistent/sdk && npm ci && npm run build"), "{unbuilt}");
    }

    #[test]
    fn news_of_a_worker_are_read() {
        assert!(matches!(read(r#"{"ended":3}"#), Ok(News::Ended(3))));
        assert!(matches!(read(r#"{"ready":{"node":"v20.1.0","sdk":"x 1"}}"#), Ok(News::Ready { .. })));
        let Ok(News::Times(times)) = read(r#"{"times":{"runs":[1.5],"steps":[0.1,0.2]}}"#) else { panic!() };
        assert_eq!((times.runs, times.steps), (vec![1.5], vec![0.1, 0.2]));
        assert!(read("hello").is_err());
    }
}
