//! The location of PostgreSQL's programs, and the user that runs them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// PostgreSQL does not run as root; then this user, which its package creates, runs it.
const USER: &str = "postgres";

#[derive(Debug)]
pub(super) struct Binaries {
    folder: PathBuf,
    /// The ids of [`USER`], when we are root.
    user: Option<(u32, u32)>,
}

impl Binaries {
    /// Finds the newest installed version.
    pub(super) fn find() -> Self {
        let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().filter_map(|version| {
            let number: u32 = version.file_name().to_str()?.parse().ok()?;
            Some((number, version.path().join("bin")))
        });
        let newest = debian.filter(|(_, folder)| is_complete(folder)).max().map(|(_, folder)| folder);
        let on_path = || {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).find(|folder| is_complete(folder))
        };
        let Some(folder) = newest.or_else(on_path) else {
            panic!("these tests need PostgreSQL 15 or later; install it: apt-get install postgresql");
        };
        Self { folder, user: is_root().then(user) }
    }

    /// One of the programs, run by a permitted user.
    pub(super) fn command(&self, program: &str) -> Command {
        self.run(&self.folder.join(program))
    }

    /// Any program that does not run as root.
    pub(super) fn run(&self, program: &Path) -> Command {
        if self.user.is_none() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={USER}"))
            .arg(format!("--regid={USER}"))
            .args(["--init-groups", "--"])
            .arg(program);
        command
    }

    /// Makes the user of the server the owner of a file or folder.
    pub(super) fn own(&self, path: &Path) {
        if let Some((user, group)) = self.user {
            std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap();
        }
    }
}

fn is_complete(folder: &Path) -> bool {
    ["initdb", "pg_ctl", "postgres", "psql"].iter().all(|program| folder.join(program).is_file())
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn user() -> (u32, u32) {
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == USER);
    let Some(fields) = fields else {
        panic!(
            "PostgreSQL does not run as root, and the user {USER:?} does not exist: apt-get install postgresql \
             creates it"
        );
    };
    (fields[2].parse().unwrap(), fields[3].parse().unwrap())
}
