//! A shell that executes the commands of the documents, one after the other, as a person types them.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{Folder, program};

/// Longer than any command may take: a build of the SDK, with its packages from the network.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) struct Shell {
    child: Child,
    stdin: ChildStdin,
    /// All that the shell and its commands have printed.
    printed: Arc<Mutex<String>>,
    /// The files from which the shell reads its commands, so that no command reads the next one as its input.
    scripts: Folder,
    count: usize,
}

/// A command that has ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) printed: String,
}

impl Shell {
    /// A shell in a folder, with the binary under test as `everstep`.
    pub(crate) fn start(folder: &Path, variables: &[(&str, &str)]) -> Self {
        let binary = Path::new(env!("CARGO_BIN_EXE_everstep")).parent().unwrap();
        let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
        let mut command: Command = program(Path::new("bash"));
        // One stream keeps the order of both outputs.
        command.args(["--norc", "-c", "exec 2>&1; exec bash --norc -s"]).process_group(0);
        command.current_dir(folder).env("PATH", path).envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let printed = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&printed);
        std::thread::spawn(move || {
            let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
            while let Ok(read) = stdout.read(&mut buffer)
                && read > 0
            {
                bytes.extend_from_slice(&buffer[..read]);
                // A character may come in two pieces.
                let complete = match std::str::from_utf8(&bytes) {
                    Ok(_) => bytes.len(),
                    Err(error) => error.valid_up_to(),
                };
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..complete]));
                bytes.drain(..complete);
            }
        });
        Self { child, stdin, printed, scripts: Folder::new(), count: 0 }
    }

    /// Executes a command and waits for its end.
    pub(crate) fn execute(&mut self, command: &str) -> Ended {
        let (begin, end) = self.send(command, "");
        self.wait(command, begin, &end)
    }

    /// Executes several commands until one fails, and returns what they printed on standard output.
    pub(crate) fn execute_all(&mut self, commands: &str) -> Ended {
        let (begin, end) = self.send(&format!("set -e\n{commands}\nset +e"), "2>/dev/null");
        self.wait(commands, begin, &end)
    }

    /// The output since a position.
    pub(crate) fn printed_since(&self, begin: usize) -> String {
        self.printed.lock().unwrap()[begin..].to_owned()
    }

    /// The position at which the next output begins.
    pub(crate) fn place(&self) -> usize {
        self.printed.lock().unwrap().len()
    }

    /// Sends a command, and another that prints its exit code after a word of its own.
    fn send(&mut self, command: &str, redirection: &str) -> (usize, String) {
        self.count += 1;
        let script = self.scripts.write(&format!("{}.sh", self.count), command);
        let (begin, end) = (self.place(), format!("@@end {}@@", self.count));
        writeln!(self.stdin, ". '{script}' </dev/null {redirection}\necho \"{end}$?@@\"").unwrap();
        (begin, end)
    }

    fn wait(&mut self, command: &str, begin: usize, end: &str) -> Ended {
        let began = Instant::now();
        loop {
            let all = self.printed_since(begin);
            if let Some((before, after)) = all.split_once(end)
                && let Some((code, _)) = after.split_once("@@")
            {
                return Ended { code: code.parse().unwrap(), printed: before.to_owned() };
            }
            assert!(self.child.try_wait().unwrap().is_none(), "a command of these failed:\n{command}\n{all}");
            assert!(began.elapsed() < COMMAND_TIMEOUT, "this command has not ended:\n{command}\n{all}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // Its jobs do not end with the shell; they are in its process group.
        let _ = Command::new("kill").args(["-9", "--", &format!("-{}", self.child.id())]).status();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("-- the shell printed --\n{}", self.printed.lock().unwrap());
        }
    }
}
