//! What a worker is told, as it is written.

use std::borrow::Cow;

use everstep_core::code::StepKind;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::payload::Payload;
use everstep_engine::{self as engine, Letter, What};
use schemars::JsonSchema;
use serde::Serialize;

use crate::wire::{Id, Json, Time};

/// What was gathered for a worker. Lists that are empty are left out.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "WorkerMessage")]
pub(crate) struct Message<'a> {
    /// Counts from 1; messages are taken in this order.
    m: u64,
    /// Reports that are in the journal: the number of each, and the seq of its entry, or 0 if it needed none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    acks: Vec<(u64, u64)>,
    /// Reports that were not taken and never will be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<Refused<'a>>,
    /// Reports that are to be sent again after a second.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    later: Vec<u64>,
    /// Runs to go on with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    turns: Vec<Turn<'a>>,
    /// Steps that have come to their end, or may be tried again. Each names its run and turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    wakes: Vec<Known<'a>>,
    /// Runs that have ended from outside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cancels: Vec<Place>,
    /// Runs that are not this worker's any more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    revoked: Vec<Place>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RefusedReport")]
struct Refused<'a> {
    n: u64,
    code: &'a str,
    detail: &'a str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkerRun")]
struct Place {
    #[schemars(with = "Id")]
    run: RunId,
    turn: u32,
}

/// A run that a worker is to go on with.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WorkerTurn")]
struct Turn<'a> {
    #[schemars(with = "Id")]
    run: RunId,
    turn: u32,
    workflow: &'a str,
    version: u32,
    #[schemars(with = "Json")]
    input: &'a Payload,
    started_at: Time,
    /// The last entry of the run's journal.
    seq: u64,
    /// What the journal knows of its steps, in the order of seq.
    steps: Vec<Known<'a>>,
}

/// What the journal knows of a step.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "KnownStep")]
struct Known<'a> {
    /// Of a wake.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Id>")]
    run: Option<RunId>,
    /// Of a wake.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<u32>,
    #[schemars(with = "String")]
    step: &'a StepKey,
    #[schemars(with = "String", extend("enum" = ["run", "sleep", "wait", "call"]))]
    kind: StepKind,
    /// The entry that says so.
    seq: u64,
    #[schemars(extend("enum" = ["completed", "failed", "slept", "resolved", "timedOut", "retry", "open"]))]
    status: &'static str,
    /// Of `completed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Json>")]
    output: Option<&'a Payload>,
    /// Of `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failed<'a>>,
    /// Of `resolved`: the signal's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Json>")]
    payload: Option<&'a Payload>,
    /// Of `retry`: the attempt that it may be run as.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FailedStep")]
struct Failed<'a> {
    code: &'a str,
    message: &'a str,
    attempts: u32,
}

/// The answer to a poll and to reports.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkerMessages")]
pub(crate) struct Messages {
    messages: Vec<Message<'static>>,
}

impl<'a> Message<'a> {
    pub(super) fn of(message: &'a engine::Message) -> Self {
        let mut told = Self { m: message.m, ..Self::default() };
        for letter in &message.letters {
            match letter {
                Letter::Ack { n, seq } => told.acks.push((*n, seq.unwrap_or(0))),
                Letter::Refused { n, code, detail } => told.refused.push(Refused { n: *n, code, detail }),
                Letter::Later { n } => told.later.push(*n),
                Letter::Turn(turn) => told.turns.push(Turn::of(turn)),
                Letter::Wake { run, turn, step } => {
                    told.wakes.push(Known { run: Some(*run), turn: Some(*turn), ..Known::of(step) });
                }
                Letter::Cancelled { run, turn } => told.cancels.push(Place { run: *run, turn: *turn }),
                Letter::Revoked { run, turn } => told.revoked.push(Place { run: *run, turn: *turn }),
            }
        }
        told
    }

    pub(super) fn write(&self, body: &mut Vec<u8>) {
        serde_json::to_writer(body, self).expect("a message is plain data");
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).expect("a message is plain data")
    }
}

impl<'a> Turn<'a> {
    fn of(turn: &'a engine::Turn) -> Self {
        let engine::Turn { run, turn, workflow, version, input, started_at, seq, steps } = turn;
        Self {
            run: *run,
            turn: *turn,
            workflow,
            version: *version,
            input,
            started_at: Time::of(*started_at),
            seq: *seq,
            steps: steps.iter().map(Known::of).collect(),
        }
    }
}

impl<'a> Known<'a> {
    fn of(known: &'a engine::Known) -> Self {
        let engine::Known { step, kind, seq, what } = known;
        let status = match what {
            What::Completed { .. } => "completed",
            What::Failed { .. } => "failed",
            What::Slept => "slept",
            What::Resolved { .. } => "resolved",
            What::TimedOut => "timedOut",
            What::Retry { .. } => "retry",
            What::Open => "open",
        };
        let (mut output, mut error, mut payload, mut attempt) = (None, None, None, None);
        match what {
            What::Completed { output: given } => output = Some(given),
            What::Failed { failure, attempts } => {
                error = Some(Failed { code: &failure.code, message: &failure.message, attempts: *attempts });
            }
            What::Resolved { payload: given } => payload = Some(given),
            What::Retry { attempt: next } => attempt = Some(*next),
            What::Slept | What::TimedOut | What::Open => {}
        }
        Self { run: None, turn: None, step, kind: *kind, seq: *seq, status, output, error, payload, attempt }
    }
}

/// A frame that holds one thing by its name.
pub(super) fn frame(name: &'static str, value: &impl Serialize) -> Cow<'static, str> {
    let value = serde_json::to_string(value).expect("what is said is plain data");
    Cow::Owned(format!("{{\"{name}\":{value}}}"))
}

#[cfg(test)]
mod tests {
    use everstep_core::failure::Failure;
    use everstep_core::time::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    fn known(step: &str, kind: StepKind, seq: u64, what: What) -> engine::Known {
        engine::Known { step: step.into(), kind, seq, what }
    }

    #[test]
    fn lists_that_are_empty_are_left_out() {
        let message = engine::Message {
            m: 4,
            letters: vec![Letter::Ack { n: 1, seq: Some(9) }, Letter::Ack { n: 2, seq: None }],
        };
        assert_eq!(Message::of(&message).json(), r#"{"m":4,"acks":[[1,9],[2,0]]}"#);
    }

    #[test]
    fn everything_that_a_worker_is_told_has_its_place() {
        let run = RunId::new(Timestamp::EPOCH, 7);
        let payload = |text: &str| Payload::from_json(text).unwrap();
        let failed = What::Failed { failure: Failure::fatal("X", "no"), attempts: 3 };
        let steps = vec![
            known("a", StepKind::Run, 3, What::Completed { output: payload("{\"x\": 1}") }),
            known("b", StepKind::Run, 4, failed),
            known("c", StepKind::Sleep, 5, What::Slept),
            known("d", StepKind::Wait, 6, What::Resolved { payload: payload("null") }),
            known("e", StepKind::Wait, 7, What::TimedOut),
            known("f", StepKind::Run, 8, What::Retry { attempt: 2 }),
            known("g", StepKind::Call, 9, What::Open),
        ];
        let turn = engine::Turn {
            run,
            turn: 2,
            workflow: "w".to_owned(),
            version: 1,
            input: payload("[1]"),
            started_at: Timestamp::EPOCH,
            seq: 9,
            steps,
        };
        let letters = vec![
            Letter::Turn(Box::new(turn)),
            Letter::Wake { run, turn: 2, step: known("c", StepKind::Sleep, 10, What::Slept) },
            Letter::Refused { n: 5, code: "FENCED".into(), detail: "older".to_owned() },
            Letter::Later { n: 6 },
            Letter::Cancelled { run, turn: 2 },
            Letter::Revoked { run, turn: 3 },
        ];
        let message = engine::Message { m: 1, letters };
        let told: Value = serde_json::from_str(&Message::of(&message).json()).unwrap();
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
            "cancels": [{"run": run, "turn": 2}],
            "revoked": [{"run": run, "turn": 3}],
        });
        assert_eq!(told, expected);
    }
}
