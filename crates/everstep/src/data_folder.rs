//! The data folder of the settings: its creation, and the commands that need one with a database.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use anyhow::{anyhow, bail};

use crate::config::Config;

/// The SQLite database in a data folder.
const DATABASE_FILE: &str = "everstep.db";

/// Creates the folder, readable only by its owner, unless it exists.
pub(crate) fn create(data: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(data)
}

/// Why the folder was not created, and the remedy.
pub(crate) fn describe_error(data: &Path, error: &io::Error) -> anyhow::Error {
    let shown = data.display();
    if data.is_file() {
        return anyhow!("the data folder {shown} is a file; choose another folder with --data");
    }
    anyhow!("the data folder {shown} cannot be created: {error}; choose another folder with --data")
}

/// Rejects a data folder without a database. A command that only reads or deletes would otherwise create an empty
/// database in a mistyped folder, and report that it contains nothing.
pub(crate) fn require_database(config: &Config) -> anyhow::Result<()> {
    if !lacks_database(config) {
        return Ok(());
    }
    let data = &config.server.data;
    let problem = if data.exists() { "contains no database" } else { "does not exist" };
    bail!("the data folder {} {problem}; choose it with --data, or a database with --database-url", data.display())
}

/// Whether opening the database creates it. The error of a folder that cannot be read is reported when it is opened.
pub(crate) fn lacks_database(config: &Config) -> bool {
    let file = config.server.data.join(DATABASE_FILE);
    !config.database.is_shared() && matches!(file.try_exists(), Ok(false))
}
