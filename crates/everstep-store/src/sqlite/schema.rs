//! The schema: migrations, applied when a file is opened.

use rusqlite::{Connection, Row, TransactionBehavior, named_params};

use super::queries::query;
use crate::error::{Error, Result};
use crate::migrations::{Applied, CREATE_HISTORY, Migration, before_history, pending};

/// Applies the migrations that the database does not record yet, all or nothing.
pub(super) fn migrate(connection: &mut Connection, migrations: &[Migration]) -> Result<()> {
    // The transaction writes from its beginning. Of two connections that open a file at the same time, the second one
    // waits here and then reads the history of the first one.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (has_history, is_before_history) =
        transaction.query_row(query!("schema/1_tables"), (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    match (has_history, is_before_history) {
        (true, _) => {}
        (false, true) => return Err(before_history()),
        (false, false) => transaction.execute_batch(CREATE_HISTORY)?,
    }
    let applied = transaction
        .prepare(query!("schema/2_applied"))?
        .query_map((), from_row)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    for migration in pending(migrations, &applied)? {
        transaction.execute_batch(migration.sql).map_err(|error| rejected(migration, error))?;
        transaction.prepare(query!("schema/3_record"))?.execute(named_params! {
            ":version": migration.version,
            ":name": migration.name,
            ":checksum": migration.checksum(),
        })?;
        tracing::debug!(%migration, "applied a migration");
    }
    Ok(transaction.commit()?)
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Applied> {
    Ok(Applied { version: row.get(0)?, name: row.get(1)?, checksum: row.get(2)? })
}

fn rejected(migration: &Migration, error: rusqlite::Error) -> Error {
    let reason = error.to_string();
    match Error::from(error) {
        full @ Error::Full(_) => full,
        _ => migration.rejected(&reason),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Barrier;
    use std::time::Duration;

    use super::*;
    use crate::migrations::SQLITE;
    use crate::sqlite::Database;

    fn connect(path: &Path) -> Connection {
        let connection = Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        connection
    }

    fn history(connection: &Connection) -> Vec<String> {
        let mut statement =
            connection.prepare("select version || ' ' || name from everstep_migrations order by version").unwrap();
        statement.query_map((), |row| row.get(0)).unwrap().map(rusqlite::Result::unwrap).collect()
    }

    fn has_table(connection: &Connection, name: &str) -> bool {
        connection.table_exists(None, name).unwrap()
    }

    fn reason(result: Result<()>) -> String {
        match result {
            Err(Error::Corrupt(reason)) => reason,
            Err(error) => panic!("{error:?}"),
            Ok(()) => panic!("the database was migrated"),
        }
    }

    #[test]
    fn connections_that_migrate_at_once_migrate_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("everstep.db");
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut connection = connect(&path);
                    start.wait();
                    migrate(&mut connection, SQLITE).unwrap();
                });
            }
        });
        let expected: Vec<_> =
            SQLITE.iter().map(|migration| format!("{} {}", migration.version, migration.name)).collect();
        assert_eq!(history(&connect(&path)), expected);
    }

    #[test]
    fn a_failed_migration_leaves_nothing_half_applied() {
        let good = Migration { version: 1, name: "good", sql: "create table good (id integer)" };
        let next = Migration { version: 2, name: "next", sql: "create table next (id integer)" };
        let broken = Migration {
            version: 3,
            name: "broken",
            sql: "create table half (id integer); insert into good values (1); insert into missing values (1)",
        };
        let mut connection = Connection::open_in_memory().unwrap();
        let mut migrations = [good, next, broken];
        migrate(&mut connection, &migrations[..1]).unwrap();

        let reason = reason(migrate(&mut connection, &migrations));
        assert!(reason.contains("V3 (broken) fails: no such table: missing"), "{reason}");
        assert_eq!(history(&connection), ["1 good"]);
        assert!(!has_table(&connection, "next") && !has_table(&connection, "half"));
        let rows: i64 = connection.query_row("select count(*) from good", (), |row| row.get(0)).unwrap();
        assert_eq!(rows, 0);

        // After the repair, the upgrade continues from the last applied migration.
        migrations[2].sql = "create table half (id integer)";
        migrate(&mut connection, &migrations).unwrap();
        assert_eq!(history(&connection), ["1 good", "2 next", "3 broken"]);
    }

    #[test]
    fn a_changed_migration_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &SQLITE[..3]).unwrap();
        connection.execute_batch("update everstep_migrations set checksum = '1' where version = 2").unwrap();
        let reason = reason(migrate(&mut connection, SQLITE));
        assert!(
            reason.contains("V2 (keys_and_settings) of the database differs from that of this release"),
            "{reason}"
        );
        assert!(!has_table(&connection, "graves"));
    }

    #[test]
    fn a_database_of_a_build_before_the_history_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("everstep.db");
        connect(&path).execute_batch("create table refinery_schema_history (version integer primary key)").unwrap();
        let Err(Error::Unusable(reason)) = Database::open(&path) else { panic!("the database was opened") };
        assert!(reason.contains("cannot be upgraded; use an empty database"), "{reason}");
        assert!(!has_table(&connect(&path), "everstep_migrations"));
    }
}
