//! Writes a dead letter in the transaction of the item or the slice that it belongs to.

use everstep_core::dead_letter::DeadLetter;
use everstep_core::ids::{EventId, RunId, StepKey, SubscriptionId};
use rusqlite::{Connection, named_params};
use uuid::Uuid;

use crate::dead_letters::{attempts_json, secrets_json};
use crate::sqlite::queries::query;

/// Inserts a dead letter, unless it exists.
pub(in crate::sqlite) fn insert(tx: &Connection, letter: &DeadLetter) -> rusqlite::Result<()> {
    tx.prepare_cached(query!("dead_letters/insert"))?.execute(named_params! {
        ":workspace": letter.workspace.uuid().into_bytes(),
        ":id": letter.id.uuid().into_bytes(),
        ":created_at": letter.created_at.micros(),
        ":run": letter.run.map(RunId::uuid).map(Uuid::into_bytes),
        ":history": letter.history.map(Uuid::into_bytes),
        ":event": letter.event.map(EventId::uuid).map(Uuid::into_bytes),
        ":subscription": letter.subscription.map(SubscriptionId::uuid).map(Uuid::into_bytes),
        ":source": letter.source.as_str(),
        ":kind": letter.kind,
        ":workflow": letter.workflow,
        ":step": letter.step.as_ref().map(StepKey::as_str),
        ":delivery": letter.delivery,
        ":target": letter.target,
        ":error": letter.error(),
        ":secrets": secrets_json(letter),
        ":attempts": attempts_json(&letter.attempts),
        ":written": letter.written.as_ref().map(|written| written.json().as_bytes()),
        ":config": letter.config.json().as_bytes(),
    })?;
    Ok(())
}
