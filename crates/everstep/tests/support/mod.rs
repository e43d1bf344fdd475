//! Starts the binary and checks its output. Each suite uses a part of this, including those of `everstep-lab`.

pub(crate) mod cluster;
pub(crate) mod http;
pub(crate) mod journal;
pub(crate) mod proxy;
pub(crate) mod reference;
pub(crate) mod server;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) use self::http::Client;
pub(crate) use self::server::Server;

/// The server's binary, without the settings of the environment in which the tests run.
pub(crate) fn everstep() -> Command {
    program(&everstep_path())
}

/// Cargo gives the tests of this crate the path of the binary. Tests of other crates find it where Cargo puts it: in
/// the folder above the one with the tests' own executable.
fn everstep_path() -> PathBuf {
    if let Some(path) = option_env!("CARGO_BIN_EXE_everstep") {
        return path.into();
    }
    let path = std::env::current_exe().unwrap().parent().unwrap().with_file_name("everstep");
    assert!(path.is_file(), "{} does not exist; build it with: cargo build --workspace --bin everstep", path.display());
    path
}

/// A program, without the settings of the environment in which the tests run.
pub(crate) fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    let settings = std::env::vars_os().map(|(name, _)| name);
    for name in settings.filter(|name| name.to_string_lossy().starts_with("EVERSTEP_") || *name == "RUST_LOG") {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

/// The result of a command.
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    /// The one JSON document on standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: stdout {:?}, stderr {}", self.stdout, self.stderr))
    }

    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn says(&self, text: &str) -> &Self {
        assert!(self.stderr.contains(text), "{text:?} is not in stderr: {}", self.stderr);
        self
    }
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

pub(crate) fn call(args: &[&str]) -> CommandOutput {
    everstep().args(args).output().unwrap().into()
}

pub(crate) fn call_with_stdin(args: &[&str], stdin: &[u8]) -> CommandOutput {
    let mut command = everstep();
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that rejects its input may end before it has read all of it.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap().into()
}

/// A folder of files that is removed with the test.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The path of a file in it, as text.
    pub(crate) fn at(&self, name: &str) -> String {
        self.path().join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path().join(name), content).unwrap();
        self.at(name)
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A file of the examples, as text.
pub(crate) fn example(name: &str) -> String {
    root().join("examples").join(name).to_str().unwrap().to_owned()
}

/// A graph whose nodes are in sequence.
pub(crate) fn chain(middle: &[Value]) -> Value {
    let end = json!({"id": "end", "type": "end"});
    chain_to(middle, end)
}

/// A graph whose nodes are in sequence, with a given end.
pub(crate) fn chain_to(middle: &[Value], end: Value) -> Value {
    let mut nodes = vec![json!({"id": "start", "type": "start"})];
    nodes.extend_from_slice(middle);
    nodes.push(end);
    let edges: Vec<_> =
        nodes.windows(2).map(|pair| json!({"source": pair[0]["id"], "target": pair[1]["id"]})).collect();
    json!({"nodes": nodes, "edges": edges})
}

/// Repeats a check until it returns a value.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "waited a minute for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
