//! Ends a server with the process that started it, however that process ends.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Waits until its standard input ends, which happens when no process holds its other end. Then stops the server at
/// once, waits until it has ended, and removes the folder.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r _
for pid in $(cat "$1"/bouncer-*/pid 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null)
if [ -n "$pid" ]; then
    kill -CONT "$pid" 2>/dev/null
    kill -QUIT "$pid" 2>/dev/null
    # One that is dead may wait for long to be noticed.
    while grep -qs "^State:[[:space:]]*[^ZX]" "/proc/$pid/status"; do sleep 0.05; done
fi
rm -rf "$1"
"#;

/// The server runs as long as this value exists. The kernel notifies the watcher of its end, even after a kill.
#[derive(Debug)]
pub(super) struct Guard {
    watcher: Child,
    /// Closed first.
    line: Option<ChildStdin>,
}

impl Guard {
    pub(super) fn watch(folder: &Path) -> Self {
        let mut watcher = Command::new("sh")
            .args(["-c", SCRIPT, "watcher"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Input from a terminal must not end it early.
            .process_group(0)
            .spawn()
            .unwrap();
        let line = watcher.stdin.take();
        Self { watcher, line }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.line.take());
        let _ = self.watcher.wait();
    }
}
