//! The arrays of `commit/all.sql`: a group of columns for each kind of row that an item may write.

use everstep_core::files::FileBinding;
use everstep_core::ids::{NodeId, RunId, StepKey};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::topics::{TopicEvent, Trigger};
use uuid::Uuid;

use crate::access::AuditRow;
use crate::error::Result;
use crate::item::{InboxId, InboxInput, Item, NewRun, PendingStart, Projection, Wait};
use crate::numbers;
use crate::pack::Packed;
use crate::postgres::arrays::arrays;

arrays! {
    /// The rows of new runs.
    Starts {
        states: "new_states", Option<&'a str>;
        version_nos: "new_version_nos", Option<i32>;
        triggers: "new_triggers", Option<String>;
        starts: "new_starts", Option<String>;
        ids: "new_ids", Uuid;
        owners: "new_owners", Option<Uuid>;
        wake_at: "new_wake_at", i64;
        ended_at: "new_ended_at", Option<i64>;
        statuses: "new_statuses", &'a str;
        formats: "new_formats", i32;
        workspaces: "new_workspaces", Uuid;
        workflows: "new_workflows", &'a str;
        versions: "new_versions", i32;
        lanes: "new_lanes", &'a str;
        scopes: "new_scopes", Option<&'a str>;
        keys: "new_keys", Option<&'a str>;
        parents: "new_parents", Option<Uuid>;
        retention_days: "new_retention_days", i64;
        is_test: "new_is_test", bool;
        created_at: "new_created_at", i64;
        tags: "new_tags", &'a str;
        errors: "new_errors", Option<String>;
        inputs: "new_inputs", &'a str;
        outputs: "new_outputs", Option<&'a [u8]>;
    }
}

impl<'a> Starts<'a> {
    pub(super) fn push(&mut self, item: &'a Item, run: &'a NewRun) -> Result<()> {
        let projection = item.projection.as_ref();
        let key = run.key.as_ref();
        let (state, version_no) = projection.map_or(Ok((None, None)), place)?;
        self.states.push(state);
        self.version_nos.push(version_no);
        self.triggers.push(run.trigger.as_ref().map(Trigger::to_json));
        self.starts.push(run.start.as_ref().map(PendingStart::to_json));
        self.ids.push(item.run.uuid());
        self.owners.push(projection.and_then(|projection| projection.owner).map(NodeId::uuid));
        self.wake_at.push(projection.map_or(run.created_at, |projection| projection.wake_at).micros());
        self.ended_at.push(projection.and_then(|projection| projection.ended_at).map(Timestamp::micros));
        self.statuses.push(projection.map_or(Status::Pending, |projection| projection.status).as_str());
        self.formats.push(numbers::checked_integer(item.format)?);
        self.workspaces.push(item.workspace.uuid());
        self.workflows.push(&run.workflow);
        self.versions.push(numbers::checked_integer(run.version)?);
        self.lanes.push(&run.lane);
        self.scopes.push(key.map(|(scope, _)| scope.as_str()));
        self.keys.push(key.map(|(_, key)| key.as_str()));
        self.parents.push(run.parent.map(RunId::uuid));
        self.retention_days.push(run.retention_days.into());
        self.is_test.push(run.is_test);
        self.created_at.push(run.created_at.micros());
        self.tags.push(run.tags.json());
        self.errors.push(projection.and_then(error_json));
        self.inputs.push(run.input.json());
        self.outputs.push(projection.and_then(output));
        Ok(())
    }
}

arrays! {
    /// First entries, which are gates.
    Heads {
        runs: "head_runs", Uuid;
        is_unowned: "head_is_unowned", bool;
        seqs: "head_seqs", i64;
        commits: "head_commits", Uuid;
        at: "head_at", i64;
        kinds: "head_kinds", i16;
        steps: "head_steps", Option<&'a str>;
        attempts: "head_attempts", i32;
        codecs: "head_codecs", i16;
        payloads: "head_payloads", &'a [u8];
    }
}

impl<'a> Heads<'a> {
    pub(super) fn push(&mut self, packed: &'a Packed<'_>, is_unowned: bool) -> Result<()> {
        let (item, entry) = (packed.item, &packed.item.entries[0]);
        let (codec, payload) = packed.payload(0);
        self.runs.push(item.run.uuid());
        self.is_unowned.push(is_unowned);
        self.seqs.push(numbers::checked_seq(entry.seq)?);
        self.commits.push(item.commit.uuid());
        self.at.push(entry.at.micros());
        self.kinds.push(entry.row.kind.number().into());
        self.steps.push(entry.row.step.as_ref().map(StepKey::as_str));
        self.attempts.push(numbers::checked_integer(entry.row.attempt)?);
        self.codecs.push(codec.number().into());
        self.payloads.push(payload);
        Ok(())
    }
}

arrays! {
    /// Entries that follow a gate.
    Entries {
        runs: "entry_runs", Uuid;
        seqs: "entry_seqs", i64;
        commits: "entry_commits", Option<Uuid>;
        at: "entry_at", i64;
        kinds: "entry_kinds", i16;
        steps: "entry_steps", Option<&'a str>;
        attempts: "entry_attempts", i32;
        codecs: "entry_codecs", i16;
        payloads: "entry_payloads", &'a [u8];
    }
}

impl<'a> Entries<'a> {
    pub(super) fn push(&mut self, packed: &'a Packed<'_>, index: usize) -> Result<()> {
        let (item, entry) = (packed.item, &packed.item.entries[index]);
        let (codec, payload) = packed.payload(index);
        self.runs.push(item.run.uuid());
        self.seqs.push(numbers::checked_seq(entry.seq)?);
        self.commits.push((index == 0).then(|| item.commit.uuid()));
        self.at.push(entry.at.micros());
        self.kinds.push(entry.row.kind.number().into());
        self.steps.push(entry.row.step.as_ref().map(StepKey::as_str));
        self.attempts.push(numbers::checked_integer(entry.row.attempt)?);
        self.codecs.push(codec.number().into());
        self.payloads.push(payload);
        Ok(())
    }
}

arrays! {
    /// The rows of runs after their items.
    Projections {
        states: "next_states", Option<&'a str>;
        version_nos: "next_version_nos", Option<i32>;
        runs: "next_runs", Uuid;
        has_head: "next_has_head", bool;
        is_unowned: "next_is_unowned", bool;
        statuses: "next_statuses", &'a str;
        formats: "next_formats", i32;
        owners: "next_owners", Option<Uuid>;
        wake_at: "next_wake_at", i64;
        outputs: "next_outputs", Option<&'a [u8]>;
        errors: "next_errors", Option<String>;
        ended_at: "next_ended_at", Option<i64>;
    }
}

impl<'a> Projections<'a> {
    pub(super) fn push(&mut self, item: &'a Item, projection: &'a Projection, is_unowned: bool) -> Result<()> {
        let (state, version_no) = place(projection)?;
        self.states.push(state);
        self.version_nos.push(version_no);
        self.runs.push(item.run.uuid());
        self.has_head.push(!item.entries.is_empty());
        self.is_unowned.push(is_unowned);
        self.statuses.push(projection.status.as_str());
        self.formats.push(numbers::checked_integer(item.format)?);
        self.owners.push(projection.owner.map(NodeId::uuid));
        self.wake_at.push(projection.wake_at.micros());
        self.outputs.push(output(projection));
        self.errors.push(error_json(projection));
        self.ended_at.push(projection.ended_at.map(Timestamp::micros));
        Ok(())
    }
}

arrays! {
    /// Items whose gate is the row of their run, and which do not change it.
    Bare {
        runs: "bare_runs", Uuid;
        is_unowned: "bare_is_unowned", bool;
    }
}

impl Bare<'_> {
    pub(super) fn push(&mut self, item: &Item, is_unowned: bool) {
        self.runs.push(item.run.uuid());
        self.is_unowned.push(is_unowned);
    }
}

arrays! {
    /// Waits that end. Without a step: all waits of the run.
    Closed {
        runs: "closed_runs", Uuid;
        steps: "closed_steps", Option<&'a str>;
    }
}

impl<'a> Closed<'a> {
    pub(super) fn push(&mut self, item: &Item, step: Option<&'a StepKey>) {
        self.runs.push(item.run.uuid());
        self.steps.push(step.map(StepKey::as_str));
    }
}

arrays! {
    /// Waits that begin.
    Waits {
        runs: "wait_runs", Uuid;
        steps: "wait_steps", &'a str;
        workspaces: "wait_workspaces", Uuid;
        events: "wait_events", &'a str;
        deadlines: "wait_deadlines", Option<i64>;
        patterns: "wait_patterns", &'a [u8];
        kinds: "wait_kinds", &'a str;
        by_topic: "wait_by_topic", bool;
        shapes: "wait_shapes", Option<String>;
        shape_hashes: "wait_shape_hashes", Option<i64>;
        match_hashes: "wait_match_hashes", Option<i64>;
    }
}

impl<'a> Waits<'a> {
    pub(super) fn push(&mut self, item: &Item, wait: &'a Wait) {
        self.runs.push(item.run.uuid());
        self.steps.push(wait.step.as_str());
        self.workspaces.push(item.workspace.uuid());
        self.events.push(&wait.event);
        self.deadlines.push(wait.deadline.map(Timestamp::micros));
        self.patterns.push(wait.pattern.json().as_bytes());
        self.kinds.push(wait.kind.as_str());
        self.by_topic.push(wait.by_topic);
        let shape = wait.shape();
        self.shape_hashes.push(shape.as_ref().map(|shape| shape.shape_hash));
        self.match_hashes.push(shape.as_ref().map(|shape| shape.match_hash));
        self.shapes.push(shape.map(|shape| shape.shape));
    }
}

arrays! {
    /// Inbox rows that are answered.
    Taken {
        ids: "taken", i64;
        runs: "taken_runs", Uuid;
    }
}

impl Taken<'_> {
    pub(super) fn push(&mut self, item: &Item, taken: InboxId) {
        self.ids.push(taken.0);
        self.runs.push(item.run.uuid());
    }
}

arrays! {
    /// Inputs for other runs.
    InboxInputs {
        senders: "input_senders", Uuid;
        receivers: "input_receivers", Uuid;
        workspaces: "input_workspaces", Uuid;
        at: "input_at", Option<i64>;
        inputs: "input_inputs", &'a [u8];
    }
}

impl<'a> InboxInputs<'a> {
    pub(super) fn push(&mut self, item: &Item, input: &'a InboxInput) {
        self.senders.push(item.run.uuid());
        self.receivers.push(input.to.uuid());
        self.workspaces.push(item.workspace.uuid());
        self.at.push(item.entries.last().map(|entry| entry.at.micros()));
        self.inputs.push(&input.input);
    }

    pub(super) fn len(&self) -> usize {
        self.senders.len()
    }
}

arrays! {
    /// Rows of the audit, each once.
    AuditRows {
        workspaces: "audit_workspaces", Uuid;
        ids: "audit_ids", Uuid;
        at: "audit_at", i64;
        actors: "audit_actors", String;
        actions: "audit_actions", &'a str;
        targets: "audit_targets", &'a str;
        details: "audit_details", &'a [u8];
    }
}

impl<'a> AuditRows<'a> {
    pub(super) fn push(&mut self, row: &'a AuditRow) {
        self.workspaces.push(row.workspace.uuid());
        self.ids.push(row.id);
        self.at.push(row.at.micros());
        self.actors.push(row.actor.to_text());
        self.actions.push(&row.action);
        self.targets.push(&row.target);
        self.details.push(row.details.json().as_bytes());
    }
}

arrays! {
    /// The pairs of an item and a row of the audit.
    Audited {
        runs: "audited_runs", Uuid;
        ids: "audited_ids", Uuid;
    }
}

impl Audited<'_> {
    pub(super) fn push(&mut self, item: &Item, row: &AuditRow) {
        self.runs.push(item.run.uuid());
        self.ids.push(row.id);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn has(&self, row: &AuditRow) -> bool {
        // A batch has a few hundred items at most, and most rows are of one item.
        self.ids.contains(&row.id)
    }
}

arrays! {
    /// Events that runs publish, each with its run.
    Published {
        runs: "published_runs", Uuid;
        workspaces: "published_workspaces", Uuid;
        ids: "published_ids", Uuid;
        topics: "published_topics", &'a str;
        sources: "published_sources", &'a str;
        event_ids: "published_event_ids", &'a str;
        at: "published_at", i64;
        depths: "published_depths", i32;
        subjects: "published_subjects", Option<&'a str>;
        data: "published_data", &'a [u8];
    }
}

impl<'a> Published<'a> {
    pub(super) fn push(&mut self, item: &Item, event: &'a TopicEvent) -> Result<()> {
        self.runs.push(item.run.uuid());
        self.workspaces.push(event.workspace.uuid());
        self.ids.push(event.id.uuid());
        self.topics.push(&event.topic);
        self.sources.push(&event.source);
        self.event_ids.push(&event.event_id);
        self.at.push(event.at.micros());
        self.depths.push(numbers::checked_integer(event.depth)?);
        self.subjects.push(event.subject.as_deref());
        self.data.push(event.data.json().as_bytes());
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

arrays! {
    /// Files that items bind, each with the run and the seq of its entry.
    BoundFiles {
        runs: "bound_runs", Uuid;
        files: "bound_files", Uuid;
        seqs: "bound_seqs", i64;
    }
}

impl BoundFiles<'_> {
    pub(super) fn push(&mut self, item: &Item, binding: FileBinding) -> Result<()> {
        self.runs.push(item.run.uuid());
        self.files.push(binding.file.uuid());
        self.seqs.push(numbers::checked_seq(binding.seq)?);
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

/// The state of a machine, and its version.
fn place(projection: &Projection) -> Result<(Option<&str>, Option<i32>)> {
    let Some(place) = &projection.machine else { return Ok((None, None)) };
    Ok((Some(&place.state), Some(numbers::checked_integer(place.version_no)?)))
}

fn output(projection: &Projection) -> Option<&[u8]> {
    projection.output.as_ref().map(|output| output.json().as_bytes())
}

fn error_json(projection: &Projection) -> Option<String> {
    projection.error.as_ref().map(|error| serde_json::to_string(error).expect("a failure is plain data"))
}
