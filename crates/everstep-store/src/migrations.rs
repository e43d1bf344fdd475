//! The migrations of every database, and which of them a database still needs.
//!
//! Migrations go forward and are frozen once released. A database records each applied migration, with the checksum of
//! its text. A database that records a migration which this build does not have, or has with another text, is not
//! opened.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

macro_rules! migrations {
    ($database:literal: $($version:literal $name:literal,)*) => {
        &[$(Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/migrations/", $database, "/V", $version, "__", $name, ".sql"
            )),
        }),*]
    };
}

/// The migrations of PostgreSQL, in their order.
pub(crate) const POSTGRES: &[Migration] = migrations! {
    "postgres":
    1 "initial",
    2 "keys_and_settings",
    3 "access_and_resources",
    4 "machines",
    5 "records",
    6 "sign_ins",
    7 "inbox",
    8 "run_stats",
    9 "topics",
    10 "claims_by_workspace",
    11 "files",
    12 "dead_letters",
    13 "search",
    14 "workflow_keys",
    15 "lists",
    16 "waits_index",
};

/// The migrations of SQLite, in their order.
pub(crate) const SQLITE: &[Migration] = migrations! {
    "sqlite":
    1 "initial",
    2 "keys_and_settings",
    3 "access_and_resources",
    4 "graves",
    5 "machines",
    6 "records",
    7 "sign_ins",
    8 "inbox",
    9 "run_stats",
    10 "topics",
    11 "claims_by_workspace",
    12 "files",
    13 "dead_letters",
    14 "search",
    15 "workflow_keys",
    16 "lists",
    17 "journal_rows",
    18 "waits_index",
};

/// The table of applied migrations, for both databases.
pub(crate) const CREATE_HISTORY: &str = "create table everstep_migrations (
    version integer not null primary key,
    name text not null,
    checksum text not null,
    applied_at text not null
)";

/// A numbered change of the schema.
pub(crate) struct Migration {
    /// Counted from 1, without gaps.
    pub(crate) version: i32,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

impl Migration {
    /// The SHA-256 of the text, in hexadecimal digits.
    pub(crate) fn checksum(&self) -> String {
        Sha256::digest(self.sql).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The error of a migration that the database rejects: its tables are not as the earlier migrations left them.
    pub(crate) fn rejected(&self, reason: &str) -> Error {
        Error::Corrupt(format!("the schema of the database cannot be upgraded: {self} fails: {reason}"))
    }
}

impl fmt::Display for Migration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "V{} ({})", self.version, self.name)
    }
}

/// A migration that a database records as applied.
pub(crate) struct Applied {
    pub(crate) version: i32,
    pub(crate) name: String,
    pub(crate) checksum: String,
}

/// The migrations that must still be applied. `applied` is in the order of the versions.
pub(crate) fn pending<'a>(known: &'a [Migration], applied: &[Applied]) -> Result<&'a [Migration]> {
    let newest = known.last().map_or(0, |migration| migration.version);
    if let Some(later) = applied.iter().find(|applied| applied.version > newest) {
        return Err(Error::Corrupt(format!(
            "the schema of the database is of a later release (V{}, and this release knows V{newest}); run that \
             release",
            later.version
        )));
    }
    for (migration, applied) in known.iter().zip(applied) {
        if migration.version != applied.version || migration.checksum() != applied.checksum {
            return Err(Error::Corrupt(format!(
                "the schema V{} ({}) of the database differs from that of this release; run the release that created \
                 it",
                applied.version, applied.name
            )));
        }
    }
    Ok(known.get(applied.len()..).unwrap_or_default())
}

/// The error of a database without our history, but with that of builds which recorded their migrations in another
/// table. Applying the first migration again would fail at its first table, with a message that explains nothing.
pub(crate) fn before_history() -> Error {
    Error::Unusable(
        "the database was created by a build of Everstep before the first release (it has a table \
         refinery_schema_history), which cannot be upgraded; use an empty database, or another data folder"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn applied(migrations: &[Migration]) -> Vec<Applied> {
        let applied = |migration: &Migration| Applied {
            version: migration.version,
            name: migration.name.to_owned(),
            checksum: migration.checksum(),
        };
        migrations.iter().map(applied).collect()
    }

    fn versions(pending: Result<&[Migration]>) -> Vec<i32> {
        pending.unwrap_or_else(|error| panic!("{error}")).iter().map(|migration| migration.version).collect()
    }

    fn refusal(applied: &[Applied]) -> String {
        match pending(SQLITE, applied) {
            Err(Error::Corrupt(reason)) => reason,
            Err(error) => panic!("{error:?}"),
            Ok(_) => panic!("the history was accepted"),
        }
    }

    #[test]
    fn every_file_is_listed_in_its_order() {
        for (folder, migrations) in [("postgres", POSTGRES), ("sqlite", SQLITE)] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(folder);
            let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
            let mut files: Vec<_> = files.collect();
            files.sort();
            let listed = |migration: &Migration| format!("V{}__{}.sql", migration.version, migration.name);
            let mut listed: Vec<_> = migrations.iter().map(listed).collect();
            listed.sort();
            assert_eq!(files, listed);
            let versions: Vec<_> = migrations.iter().map(|migration| migration.version).collect();
            assert_eq!(versions, (1..=migrations.len() as i32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn migrations_that_are_recorded_are_not_applied_again() {
        let newest = SQLITE.len() as i32;
        assert_eq!(versions(pending(SQLITE, &[])), (1..=newest).collect::<Vec<_>>());
        assert_eq!(versions(pending(SQLITE, &applied(&SQLITE[..2]))), (3..=newest).collect::<Vec<_>>());
        assert_eq!(versions(pending(SQLITE, &applied(SQLITE))), [0; 0]);
    }

    #[test]
    fn a_history_of_another_release_is_refused() {
        let newest = SQLITE.len() as i32;
        let reason = refusal(&applied(&[Migration { version: newest + 1, name: "future", sql: "" }]));
        let expected = format!("of a later release (V{}, and this release knows V{newest})", newest + 1);
        assert!(reason.contains(&expected), "{reason}");

        let mut changed = applied(&SQLITE[..3]);
        changed[1].checksum = "0".repeat(64);
        let reason = refusal(&changed);
        assert!(
            reason.contains("V2 (keys_and_settings) of the database differs from that of this release"),
            "{reason}"
        );

        let mut gap = applied(&SQLITE[..3]);
        gap.remove(1);
        let reason = refusal(&gap);
        assert!(
            reason.contains("V3 (access_and_resources) of the database differs from that of this release"),
            "{reason}"
        );
    }
}
