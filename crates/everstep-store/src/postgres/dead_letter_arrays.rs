//! The arrays of `commit/dead_letters.sql` and of `topics/fan_out_dead_letters.sql`.

use everstep_core::dead_letter::DeadLetter;
use everstep_core::ids::{EventId, RunId, StepKey, SubscriptionId};
use uuid::Uuid;

use crate::dead_letters::{attempts_json, secrets_json};
use crate::postgres::arrays::arrays;

arrays! {
    /// Dead letters, each with its gate: the run of its item, or the event of its slice.
    DeadLetters {
        gates: "letter_gates", Uuid;
        workspaces: "letter_workspaces", Uuid;
        ids: "letter_ids", Uuid;
        created_at: "letter_created_at", i64;
        runs: "letter_runs", Option<Uuid>;
        histories: "letter_histories", Option<Uuid>;
        events: "letter_events", Option<Uuid>;
        subscriptions: "letter_subscriptions", Option<Uuid>;
        sources: "letter_sources", &'a str;
        kinds: "letter_kinds", &'a str;
        workflows: "letter_workflows", Option<&'a str>;
        steps: "letter_steps", Option<&'a str>;
        deliveries: "letter_deliveries", &'a str;
        targets: "letter_targets", &'a str;
        errors: "letter_errors", &'a str;
        secrets: "letter_secrets", String;
        written: "letter_written", Option<&'a [u8]>;
        attempts: "letter_attempts", String;
        configs: "letter_configs", &'a [u8];
    }
}

impl<'a> DeadLetters<'a> {
    pub(super) fn push(&mut self, gate: Uuid, letter: &'a DeadLetter) {
        self.gates.push(gate);
        self.workspaces.push(letter.workspace.uuid());
        self.ids.push(letter.id.uuid());
        self.created_at.push(letter.created_at.micros());
        self.runs.push(letter.run.map(RunId::uuid));
        self.histories.push(letter.history);
        self.events.push(letter.event.map(EventId::uuid));
        self.subscriptions.push(letter.subscription.map(SubscriptionId::uuid));
        self.sources.push(letter.source.as_str());
        self.kinds.push(&letter.kind);
        self.workflows.push(letter.workflow.as_deref());
        self.steps.push(letter.step.as_ref().map(StepKey::as_str));
        self.deliveries.push(&letter.delivery);
        self.targets.push(&letter.target);
        self.errors.push(letter.error());
        self.secrets.push(secrets_json(letter));
        self.written.push(letter.written.as_ref().map(|written| written.json().as_bytes()));
        self.attempts.push(attempts_json(&letter.attempts));
        self.configs.push(letter.config.json().as_bytes());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}
