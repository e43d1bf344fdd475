//! Takes dead letters and notices, and writes their ends.

use everstep_core::dead_letter::error_code;
use everstep_core::ids::NodeId;
use everstep_core::planted::{self, Bug};
use everstep_core::time::Timestamp;
use rusqlite::{OptionalExtension, named_params};

use super::rows::{LetterKey, collect};
use crate::access::first_id;
use crate::dead_letters::{
    DeadLetterClaim, DeadLetterOutcome, DeadLetterResult, LetterTarget, TakenLetters, attempts_json,
};
use crate::error::{Error, Result};
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;

impl Database {
    pub fn take_letters(&mut self, node: NodeId, claim: &DeadLetterClaim) -> Result<TakenLetters> {
        let id = node.uuid().into_bytes();
        let tx = self.begin()?;
        let member = tx
            .prepare_cached(query!("commit/1_member"))?
            .query_row(named_params! { ":node": id }, |_| Ok(()))
            .optional()?;
        if member.is_none() {
            return Err(Error::Fenced(node));
        }
        let mut taken = TakenLetters::default();
        {
            let mut statement = tx.prepare_cached(query!("dead_letters/take_letters/1_queued"))?;
            let is_wanted = |key: &LetterKey<'_>| {
                if planted::is_planted(Bug::RequeueForgotten) && key.taken_by.is_some_and(|taker| taker != node) {
                    return false;
                }
                let is_crowded = |target: &LetterTarget| target.contains(key.workspace, key.kind, key.target);
                !claim.held.contains(&key.id)
                    && !claim.crowded.contains(&key.workspace)
                    && !claim.crowded_targets.iter().any(is_crowded)
            };
            let found = statement.query(named_params! { ":node": id })?;
            taken.letters = collect(found, claim.letters_max, is_wanted)?;
            let mut statement = tx.prepare_cached(query!("dead_letters/take_letters/2_due"))?;
            let since = first_id(claim.notices_since).into_bytes();
            // A notice that this node holds is known by the list alone: no other node holds it at the same time.
            let is_wanted = |key: &LetterKey<'_>| !claim.held_notices.contains(&key.id);
            let found = statement.query(named_params! { ":node": id, ":since": since })?;
            taken.notices = collect(found, claim.notices_max, is_wanted)?;
        }
        for row in &mut taken.letters {
            tx.prepare_cached(query!("dead_letters/take_letters/3_take"))?.execute(named_params! {
                ":node": id,
                ":workspace": row.letter.workspace.uuid().into_bytes(),
                ":id": row.letter.id.uuid().into_bytes(),
            })?;
            row.taken_by = Some(node);
        }
        for row in &taken.notices {
            tx.prepare_cached(query!("dead_letters/take_letters/4_take_notice"))?.execute(named_params! {
                ":node": id,
                ":workspace": row.letter.workspace.uuid().into_bytes(),
                ":id": row.letter.id.uuid().into_bytes(),
            })?;
        }
        tx.commit()?;
        Ok(taken)
    }

    pub fn settle_letters(&mut self, node: NodeId, results: &[DeadLetterResult]) -> Result<()> {
        let tx = self.begin()?;
        for DeadLetterResult { workspace, id, at, outcome } in results {
            let (node, workspace) = (node.uuid().into_bytes(), workspace.uuid().into_bytes());
            let id = id.uuid().into_bytes();
            let notified_at = match outcome {
                DeadLetterOutcome::Performed(attempts) => {
                    tx.prepare_cached(query!("dead_letters/settle_letters/1_performed"))?.execute(named_params! {
                        ":status": DeadLetterOutcome::status(attempts).as_str(),
                        ":error": error_code(attempts),
                        ":attempts": attempts_json(attempts),
                        ":at": at.micros(),
                        ":workspace": workspace,
                        ":id": id,
                        ":node": node,
                    })?;
                    continue;
                }
                DeadLetterOutcome::Notified => Some(*at),
                DeadLetterOutcome::NotNotified => None,
            };
            tx.prepare_cached(query!("dead_letters/settle_letters/2_notices"))?.execute(named_params! {
                ":notified_at": notified_at.map(Timestamp::micros),
                ":workspace": workspace,
                ":id": id,
                ":node": node,
            })?;
        }
        tx.commit()?;
        Ok(())
    }
}
