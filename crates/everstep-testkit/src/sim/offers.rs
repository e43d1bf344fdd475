//! Files that persons offer to runs of machines, also one file to two runs; and what must hold of them: a file is bound
//! once, and with its entry.

use std::collections::BTreeMap;
use std::time::Duration;

use everstep_core::actor::Actor;
use everstep_core::files;
use everstep_core::ids::{FileId, RunId, WorkspaceId};
use everstep_core::journal::Entry;
use everstep_core::machine::Act;
use everstep_core::time::Timestamp;
use everstep_engine::{Engine, Error};
use everstep_store::sqlite::Database;
use everstep_store::{FileReservation, FinishedFile, NewFile, ReserveOutcome};

use super::people::People;
use super::store::SimStore;

/// The time in which a file can be bound.
const FILE_TIME: Duration = Duration::from_secs(24 * 60 * 60);
const QUOTA: u64 = 1 << 30;
/// A person offers one of the last files.
const RECENT_FILES: usize = 3;

impl People {
    /// A file of a person: one of the last, which may be offered to another run too, or a new one.
    pub(super) fn pick_file(&self, person: &str) -> Option<FileId> {
        let executor = &self.client.executor;
        let recent: Vec<FileId> = {
            let ledger = self.client.judge.store.ledger();
            let of_person = ledger.uploads.iter().rev().filter(|(by, _)| by == person);
            of_person.take(RECENT_FILES).map(|(_, file)| *file).collect()
        };
        if !recent.is_empty() && executor.chance(60) {
            return Some(executor.with_random(|random| *random.pick(&recent)));
        }
        let (now, random) = (executor.now(), executor.with_random(super::random::SeededRng::number));
        let file = FileId::new(now, u128::from(random));
        self.client.judge.store.direct(|db| upload(db, file, person, now)).ok()?;
        self.client.judge.store.ledger().uploads.push((person.to_owned(), file));
        Some(file)
    }
}

fn upload(db: &mut Database, id: FileId, person: &str, now: Timestamp) -> everstep_store::Result<()> {
    let (workspace, by, expires_at) = (WorkspaceId::DEFAULT, Actor::person(person), now.plus(FILE_TIME));
    let (name, media_type) = ("note.txt".to_owned(), "text/plain".to_owned());
    let new = NewFile { id, workspace, name, media_type, announced: 1, by: by.clone(), created_at: now, expires_at };
    db.begin_file(&new, QUOTA)?;
    db.add_chunk(id, 0, b"x")?;
    db.finish_file(&FinishedFile { id, workspace, by, size: 1, sha256: [0; 32], expires_at }, QUOTA)?;
    Ok(())
}

/// Reserves the files of a request for its run, as the API does before it sends the request.
pub(super) async fn reserve(engine: &Engine, run: RunId, act: &mut Act) -> Result<(), Error> {
    if act.files.is_empty() {
        return Ok(());
    }
    let world = engine.world();
    let (by, files, now) = (act.by.clone(), act.files.clone(), world.clock.now());
    let reservation = FileReservation { workspace: WorkspaceId::DEFAULT, run, by, files, now };
    match world.files.reserve_files(&reservation).await {
        Ok(ReserveOutcome::Reserved(until)) => act.files_until = until,
        Ok(ReserveOutcome::Refused(file, fault)) => return Err(Error::Refused(format!("{file}: {fault:?}"))),
        Err(error) => return Err(Error::Unavailable(error.to_string())),
    }
    Ok(())
}

/// The files that entries have bound, with their runs.
#[derive(Default)]
pub(super) struct BoundFiles(BTreeMap<FileId, (RunId, u64)>);

impl BoundFiles {
    /// Adds the files of a journal. The entries up to `copied` are those of another run.
    pub(super) fn add(&mut self, run: RunId, journal: &[Entry], copied: u64) -> Result<(), String> {
        for binding in files::bound_by(journal).into_iter().filter(|binding| binding.seq > copied) {
            if let Some((other, seq)) = self.0.insert(binding.file, (run, binding.seq)) {
                let (file, own) = (binding.file, binding.seq);
                return Err(format!("{file} is bound by entry {seq} of {other} and by entry {own} of {run}"));
            }
        }
        Ok(())
    }

    /// Compares them with the rows of the files.
    pub(super) fn check(&self, store: &SimStore) -> Result<(), String> {
        let sql = "select id, run_id, seq from files where seq is not null";
        let read = |db: &mut Database| {
            let mut statement = db.connection().prepare(sql)?;
            let rows = statement.query_map([], |row| {
                let seq: i64 = row.get(2)?;
                Ok((uuid::Uuid::from_bytes(row.get(0)?), uuid::Uuid::from_bytes(row.get(1)?), seq.cast_unsigned()))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        let rows = store.direct(read).map_err(|error| error.to_string())?;
        let stored: BTreeMap<_, _> =
            rows.into_iter().map(|(file, run, seq)| (FileId::from_uuid(file), (RunId::from_uuid(run), seq))).collect();
        if stored == self.0 {
            return Ok(());
        }
        Err(format!("the files are bound as {stored:?}, and the journals name {:?}", self.0))
    }
}
