//! The wire form of the messages to a worker.

use std::borrow::Cow;

use everstep_core::code::StepKind;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::payload::Payload;
use everstep_core::topics::EventRef;
use everstep_engine::{self as engine, StepOutcome, TurnEnd, WorkerMessage};
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::schema::{Id, Json};
use crate::http::time::Time;
use crate::resources::runs::wire::Trigger;

/// A message to a worker: all parts that were collected for it. Empty lists are omitted.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "WorkerMessage")]
pub(crate) struct NumberedMessage<'a> {
    /// Counts from 1. A worker processes messages in this order.
    m: u64,
    /// Reports that are in the journal: the number of each, and the seq of its entry, or 0 if no entry was written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<[u64; 2]>")]
    acks: Vec<(u64, u64)>,
    /// Reports that will never be accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<RefusedReport<'a>>,
    /// Reports that the worker sends again after a second.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    later: Vec<u64>,
    /// Runs that the worker starts or continues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    turns: Vec<Turn<'a>>,
    /// Steps that have ended or may be retried. Each names its run and turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wakes: Vec<StepRecord<'a>>,
    /// Runs that were ended from outside, for example cancelled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cancels: Vec<LostTurn<'a>>,
    /// Runs that have left this worker.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    revoked: Vec<LostTurn<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct RefusedReport<'a> {
    n: u64,
    code: &'a str,
    detail: &'a str,
}

/// A turn that the worker loses, and why.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkerLostTurn")]
struct LostTurn<'a> {
    #[schemars(with = "Id")]
    run: RunId,
    turn: u32,
    /// Of `revoked`: the run is `parked` (it waits), `paused`, or has `moved` to another turn or node. Of `cancels`: the
    /// run was `cancelled`, has `failed` at the server, or has `ended` otherwise.
    #[schemars(extend("enum" = ["parked", "paused", "moved", "cancelled", "failed", "ended"]))]
    reason: &'static str,
    /// The cause, for people: the actor or the error that paused, cancelled or failed the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

impl<'a> LostTurn<'a> {
    fn new(run: RunId, turn: u32, end: &'a TurnEnd) -> Self {
        Self { run, turn, reason: end.reason(), detail: end.detail() }
    }
}

/// A run that a worker starts or continues.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WorkerTurn")]
struct Turn<'a> {
    #[schemars(with = "Id")]
    run: RunId,
    turn: u32,
    workflow: &'a str,
    #[schemars(range(min = 1))]
    version: u32,
    #[schemars(with = "Json")]
    input: &'a Payload,
    started_at: Time,
    /// The event that has started the run, or the run that has called it.
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<Trigger>,
    /// The seq of the last entry of the run.
    seq: u64,
    /// The steps of the run according to the journal, in the order of seq.
    steps: Vec<StepRecord<'a>>,
}

/// The state of a step according to the journal.
#[derive(Debug, Serialize, JsonSchema)]
struct StepRecord<'a> {
    /// Of a wake.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Id>")]
    run: Option<RunId>,
    /// Of a wake.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<u32>,
    #[schemars(with = "String")]
    step: &'a StepKey,
    #[schemars(with = "String", extend("enum" = ["run", "sleep", "wait", "call", "publish"]))]
    kind: StepKind,
    /// The seq of the entry with this state.
    seq: u64,
    #[schemars(extend("enum" = ["completed", "failed", "slept", "resolved", "timedOut", "retry", "open"]))]
    status: &'static str,
    /// Of `completed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Json>")]
    output: Option<&'a Payload>,
    /// Of `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<FailedStep<'a>>,
    /// Of `resolved`: the payload of the signal, or the data of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Json>")]
    payload: Option<&'a Payload>,
    /// Of `resolved`, if a published event has resolved the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<ReceivedEvent<'a>>,
    /// Of `retry`: the number of the next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
}

/// A published event without its data.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkerEvent")]
struct ReceivedEvent<'a> {
    #[schemars(with = "Id")]
    id: String,
    topic: &'a str,
    source: &'a str,
    at: Time,
}

impl<'a> ReceivedEvent<'a> {
    fn new(event: &'a EventRef) -> Self {
        let EventRef { id, topic, source, at } = event;
        Self { id: id.to_string(), topic, source, at: Time::from_timestamp(*at) }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
struct FailedStep<'a> {
    code: &'a str,
    message: &'a str,
    attempts: u32,
}

/// The response to a poll and to reports.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkerMessages")]
pub(crate) struct Messages {
    messages: Vec<NumberedMessage<'static>>,
}

impl<'a> NumberedMessage<'a> {
    pub(super) fn new(batch: &'a engine::WorkerBatch) -> Self {
        let mut lists = Self { m: batch.m, ..Self::default() };
        for message in &batch.messages {
            match message {
                WorkerMessage::Ack { n, seq } => lists.acks.push((*n, seq.unwrap_or(0))),
                WorkerMessage::Refused { n, code, detail } => lists.refused.push(RefusedReport { n: *n, code, detail }),
                WorkerMessage::Later { n } => lists.later.push(*n),
                WorkerMessage::Turn(turn) => lists.turns.push(Turn::new(turn)),
                WorkerMessage::Wake { run, turn, step } => {
                    lists.wakes.push(StepRecord { run: Some(*run), turn: Some(*turn), ..StepRecord::new(step) });
                }
                WorkerMessage::Cancelled { run, turn, end } => lists.cancels.push(LostTurn::new(*run, *turn, end)),
                WorkerMessage::Revoked { run, turn, end } => lists.revoked.push(LostTurn::new(*run, *turn, end)),
            }
        }
        lists
    }

    pub(super) fn write(&self, body: &mut Vec<u8>) {
        serde_json::to_writer(body, self).expect("a message is plain data");
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).expect("a message is plain data")
    }
}

impl<'a> Turn<'a> {
    fn new(turn: &'a engine::Turn) -> Self {
        let engine::Turn { run, turn, workflow, version, input, started_at, trigger, seq, steps } = turn;
        Self {
            run: *run,
            turn: *turn,
            workflow,
            version: *version,
            input,
            started_at: Time::from_timestamp(*started_at),
            trigger: trigger.clone().map(Trigger::from_core),
            seq: *seq,
            steps: steps.iter().map(StepRecord::new).collect(),
        }
    }
}

impl<'a> StepRecord<'a> {
    fn new(record: &'a engine::StepRecord) -> Self {
        let engine::StepRecord { step, kind, seq, outcome } = record;
        let status = match outcome {
            StepOutcome::Completed { .. } => "completed",
            StepOutcome::Failed { .. } => "failed",
            StepOutcome::Slept => "slept",
            StepOutcome::Resolved { .. } => "resolved",
            StepOutcome::TimedOut => "timedOut",
            StepOutcome::Retry { .. } => "retry",
            StepOutcome::Open => "open",
        };
        let (mut output, mut error, mut payload, mut event, mut attempt) = (None, None, None, None, None);
        match outcome {
            StepOutcome::Completed { output: given } => output = Some(given),
            StepOutcome::Failed { failure, attempts } => {
                error = Some(FailedStep { code: &failure.code, message: &failure.message, attempts: *attempts });
            }
            StepOutcome::Resolved { payload: given, event: by } => {
                payload = Some(given);
                event = by.as_deref().map(ReceivedEvent::new);
            }
            StepOutcome::Retry { attempt: next } => attempt = Some(*next),
            StepOutcome::Slept | StepOutcome::TimedOut | StepOutcome::Open => {}
        }
        Self { run: None, turn: None, step, kind: *kind, seq: *seq, status, output, error, payload, event, attempt }
    }
}

/// A JSON object with one member.
pub(super) fn object_with(name: &'static str, value: &impl Serialize) -> Cow<'static, str> {
    let value = serde_json::to_string(value).expect("a frame is plain data");
    Cow::Owned(format!("{{\"{name}\":{value}}}"))
}

#[cfg(test)]
mod tests {
    use everstep_core::failure::Failure;
    use everstep_core::ids::EventId;
    use everstep_core::time::Timestamp;
    use everstep_core::topics::{self, TriggerKind};
    use serde_json::{Value, json};

    use super::*;

    fn record(step: &str, kind: StepKind, seq: u64, outcome: StepOutcome) -> engine::StepRecord {
        engine::StepRecord { step: step.into(), kind, seq, outcome }
    }

    #[test]
    fn empty_lists_are_omitted() {
        let batch = engine::WorkerBatch {
            m: 4,
            messages: vec![WorkerMessage::Ack { n: 1, seq: Some(9) }, WorkerMessage::Ack { n: 2, seq: None }],
        };
        assert_eq!(NumberedMessage::new(&batch).json(), r#"{"m":4,"acks":[[1,9],[2,0]]}"#);
    }

    #[test]
    fn every_message_has_its_list() {
        let run = RunId::new(Timestamp::EPOCH, 7);
        let payload = |text: &str| Payload::from_json(text).unwrap();
        let failed = StepOutcome::Failed { failure: Failure::fatal("X", "no"), attempts: 3 };
        let steps = vec![
            record("a", StepKind::Run, 3, StepOutcome::Completed { output: payload("{\"x\": 1}") }),
            record("b", StepKind::Run, 4, failed),
            record("c", StepKind::Sleep, 5, StepOutcome::Slept),
            record("d", StepKind::Wait, 6, StepOutcome::Resolved { payload: payload("null"), event: None }),
            record("e", StepKind::Wait, 7, StepOutcome::TimedOut),
            record("f", StepKind::Run, 8, StepOutcome::Retry { attempt: 2 }),
            record("g", StepKind::Call, 9, StepOutcome::Open),
        ];
        let turn = engine::Turn {
            run,
            turn: 2,
            workflow: "w".to_owned(),
            version: 1,
            input: payload("[1]"),
            started_at: Timestamp::EPOCH,
            trigger: None,
            seq: 9,
            steps,
        };
        let messages = vec![
            WorkerMessage::Turn(Box::new(turn)),
            WorkerMessage::Wake { run, turn: 2, step: record("c", StepKind::Sleep, 10, StepOutcome::Slept) },
            WorkerMessage::Refused { n: 5, code: "FENCED".into(), detail: "older".to_owned() },
            WorkerMessage::Later { n: 6 },
            WorkerMessage::Cancelled { run, turn: 2, end: TurnEnd::Cancelled(Some("duplicate".to_owned())) },
            WorkerMessage::Revoked { run, turn: 3, end: TurnEnd::Parked },
        ];
        let batch = engine::WorkerBatch { m: 1, messages };
        let written: Value = serde_json::from_str(&NumberedMessage::new(&batch).json()).unwrap();
        let expected = json!({
            "m": 1,
            "refused": [{"n": 5, "code": "FENCED", "detail": "older"}],
            "later": [6],
            "turns": [{
                "run": run, "turn": 2, "workflow": "w", "version": 1, "input": [1],
                "startedAt": "1970-01-01T00:00:00.000000Z", "seq": 9,
                "steps": [
                    {"step": "a", "kind": "run", "seq": 3, "status": "completed", "output": {"x": 1}},
                    {"step": "b", "kind": "run", "seq": 4, "status": "failed",
                        "error": {"code": "X", "message": "no", "attempts": 3}},
                    {"step": "c", "kind": "sleep", "seq": 5, "status": "slept"},
                    {"step": "d", "kind": "wait", "seq": 6, "status": "resolved", "payload": null},
                    {"step": "e", "kind": "wait", "seq": 7, "status": "timedOut"},
                    {"step": "f", "kind": "run", "seq": 8, "status": "retry", "attempt": 2},
                    {"step": "g", "kind": "call", "seq": 9, "status": "open"},
                ],
            }],
            "wakes": [{"run": run, "turn": 2, "step": "c", "kind": "sleep", "seq": 10, "status": "slept"}],
            "cancels": [{"run": run, "turn": 2, "reason": "cancelled", "detail": "duplicate"}],
            "revoked": [{"run": run, "turn": 3, "reason": "parked"}],
        });
        assert_eq!(written, expected);
    }

    #[test]
    fn a_turn_has_the_trigger_of_its_run_and_a_wait_the_event_that_resolved_it() {
        let run = RunId::new(Timestamp::EPOCH, 7);
        let id = EventId::new(Timestamp::EPOCH, 9);
        let event = EventRef { id, topic: "order.paid".to_owned(), source: "shop".to_owned(), at: Timestamp::EPOCH };
        let payload = Payload::from_json("{\"order\":7}").unwrap();
        let resolved = StepOutcome::Resolved { payload, event: Some(Box::new(event)) };
        let output = Payload::from_json("{\"id\":\"e\",\"topic\":\"t\"}").unwrap();
        let trigger = topics::Trigger {
            kind: TriggerKind::Event,
            id: id.to_string(),
            topic: Some("order.paid".to_owned()),
            subscription: None,
            source: Some("shop".to_owned()),
            depth: 1,
            scheduled_for: None,
        };
        let turn = engine::Turn {
            run,
            turn: 1,
            workflow: "w".to_owned(),
            version: 1,
            input: Payload::null(),
            started_at: Timestamp::EPOCH,
            trigger: Some(trigger),
            seq: 4,
            steps: vec![
                record("a", StepKind::Publish, 3, StepOutcome::Completed { output }),
                record("b", StepKind::Wait, 4, resolved),
            ],
        };
        let batch = engine::WorkerBatch { m: 1, messages: vec![WorkerMessage::Turn(Box::new(turn))] };
        let written: Value = serde_json::from_str(&NumberedMessage::new(&batch).json()).unwrap();
        let turn = &written["turns"][0];
        let trigger = json!({
            "type": "event", "id": id.to_string(), "topic": "order.paid", "subscription": null, "source": "shop",
            "depth": 1, "scheduledFor": null,
        });
        assert_eq!(turn["trigger"], trigger);
        let event = json!({
            "id": id.to_string(), "topic": "order.paid", "source": "shop", "at": "1970-01-01T00:00:00.000000Z",
        });
        let steps = json!([
            {"step": "a", "kind": "publish", "seq": 3, "status": "completed", "output": {"id": "e", "topic": "t"}},
            {"step": "b", "kind": "wait", "seq": 4, "status": "resolved", "payload": {"order": 7}, "event": event},
        ]);
        assert_eq!(turn["steps"], steps);
    }
}
