//! The ends of requeues and notices, as the arrays of statements.

use everstep_core::dead_letter::error_code;
use everstep_core::ids::NodeId;
use everstep_core::time::Timestamp;
use uuid::Uuid;

use crate::dead_letters::{DeadLetterOutcome, DeadLetterResult, attempts_json};
use crate::error::Result;
use crate::postgres::arrays::arrays;
use crate::postgres::queries::{param, query};
use crate::postgres::store::PostgresStore;

arrays! {
    /// The ends of requeues.
    Performed {
        workspaces: "workspaces", Uuid;
        ids: "ids", Uuid;
        at: "at", i64;
        statuses: "statuses", &'a str;
        errors: "errors", &'a str;
        attempts: "attempts", String;
    }
}

arrays! {
    /// The ends of notices.
    Notices {
        workspaces: "workspaces", Uuid;
        ids: "ids", Uuid;
        notified_at: "notified_at", Option<i64>;
    }
}

impl PostgresStore {
    pub(super) async fn settle(&self, node: NodeId, results: &[DeadLetterResult]) -> Result<()> {
        let (mut performed, mut notices) = (Performed::default(), Notices::default());
        // In the order of their locks, so that two statements never deadlock.
        let mut results: Vec<_> = results.iter().collect();
        results.sort_by_key(|result| (result.workspace, result.id));
        for result in results {
            performed.push(result);
            notices.push(result);
        }
        let node = node.uuid();
        if !performed.ids.is_empty() {
            let params: Vec<_> = performed.params().chain([param("node", &node)]).collect();
            self.connections.execute(query!("dead_letters/settle_letters/1_performed"), &params).await?;
        }
        if !notices.ids.is_empty() {
            let params: Vec<_> = notices.params().chain([param("node", &node)]).collect();
            self.connections.execute(query!("dead_letters/settle_letters/2_notices"), &params).await?;
        }
        Ok(())
    }
}

impl<'a> Performed<'a> {
    fn push(&mut self, result: &'a DeadLetterResult) {
        let DeadLetterOutcome::Performed(attempts) = &result.outcome else { return };
        self.workspaces.push(result.workspace.uuid());
        self.ids.push(result.id.uuid());
        self.at.push(result.at.micros());
        self.statuses.push(DeadLetterOutcome::status(attempts).as_str());
        self.errors.push(error_code(attempts));
        self.attempts.push(attempts_json(attempts));
    }
}

impl Notices<'_> {
    fn push(&mut self, result: &DeadLetterResult) {
        let notified_at = match &result.outcome {
            DeadLetterOutcome::Performed(_) => return,
            DeadLetterOutcome::Notified => Some(result.at),
            DeadLetterOutcome::NotNotified => None,
        };
        self.workspaces.push(result.workspace.uuid());
        self.ids.push(result.id.uuid());
        self.notified_at.push(notified_at.map(Timestamp::micros));
    }
}
