//! `/v1/runs/{id}/steps`: the journal, folded into steps with their attempts and times.

mod code;

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::{Path, State};
use everstep_core::graph::{Graph, StepPath};
use everstep_core::ids::StepKey;
use everstep_core::journal::codec;
use everstep_core::journal::{Dispatch, Entry, Event};
use everstep_core::run;
use everstep_core::status::StepStatus;
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;
use everstep_store::RunRow;

use crate::auth::Caller;
use crate::openapi::Parameter;
use crate::problem::Problem;
use crate::query::Query;
use crate::runs;
use crate::server::Served;
use crate::wire::{Attempt, Error, Step, Steps, Time};

const LIMIT: u64 = 100;
const MOST: u64 = 500;
/// A page takes no more steps once their outputs have this many bytes.
const BYTES: usize = 4 * 1024 * 1024;
/// Entries that are read at once.
const PART: usize = 200;

pub(crate) const PAGE: &[Parameter] = &[
    Parameter::text("cursor", "`nextCursor` of the page before, as it is."),
    Parameter::whole("limit", 1, MOST, "How many at most; 100 if it is left out."),
];

pub(crate) async fn get(
    State(served): State<Served>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<Steps>, Problem> {
    let row = runs::row(&served, caller.workspace, runs::read_id(&id)?).await?;
    show(&served, row, &query).await
}

pub(crate) async fn of_workflow(
    State(served): State<Served>,
    caller: Caller,
    Path((name, id)): Path<(String, String)>,
    query: Query,
) -> Result<Json<Steps>, Problem> {
    let row = runs::row_of(&served, caller.workspace, &name, &id).await?;
    show(&served, row, &query).await
}

async fn show(served: &Served, row: RunRow, query: &Query) -> Result<Json<Steps>, Problem> {
    let after = runs::read_seq(query)?;
    let limit = query.number("limit", 1..=MOST)?.unwrap_or(LIMIT);
    let workflow = served.engine.library().of_run(&row).await.ok();
    let mut page = Page::new(usize::try_from(limit).expect("a page is small"));
    // The first entry of a step of code does not say that it is the first.
    let code = workflow.as_ref().filter(|workflow| workflow.needs_worker());
    let mut state = code.map(|workflow| run::State::new(row.id, workflow));
    let mut last = if code.is_some() { 0 } else { after };
    loop {
        let part = served.engine.world().runs.journal(row.id, last, PART).await?;
        let is_last = part.len() < PART;
        for stored in part {
            last = stored.seq;
            page.bytes += if page.is_full() || last <= after { 0 } else { stored.row.payload.len() };
            // What a later build has written is left out here; the journal shows that it is there.
            let Ok(entry) = codec::decode(stored.seq, stored.at, stored.row) else { continue };
            match code {
                Some(workflow) => {
                    state = state.and_then(|state| go_on(state, workflow, &entry));
                    page.take_code(after, entry, state.as_ref());
                }
                None => page.take(entry.seq, entry.at, entry.event),
            }
        }
        if is_last || page.is_settled() {
            break;
        }
    }
    let graph = workflow.as_ref().and_then(|workflow| workflow.graph());
    Ok(Json(page.finish(row.ended_at.is_some(), graph)))
}

/// The state after an entry, as long as all of them can be read.
fn go_on(mut state: run::State, workflow: &Workflow, entry: &Entry) -> Option<run::State> {
    state.apply(workflow, entry).is_ok().then_some(state)
}

/// The steps that began after a cursor, so many at most.
struct Page {
    limit: usize,
    bytes: usize,
    has_more: bool,
    steps: Vec<Folded>,
    index: BTreeMap<StepKey, usize>,
    /// Steps of code that stand on other pages.
    elsewhere: BTreeSet<StepKey>,
}

struct Folded {
    /// The seq of its first entry.
    seq: u64,
    is_body: bool,
    ended_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    /// Until when a step of code sleeps.
    due: Option<Timestamp>,
    step: Step,
}

impl Page {
    fn new(limit: usize) -> Self {
        Self { limit, bytes: 0, has_more: false, steps: Vec::new(), index: BTreeMap::new(), elsewhere: BTreeSet::new() }
    }

    fn is_full(&self) -> bool {
        self.steps.len() >= self.limit || self.bytes >= BYTES
    }

    /// Whether nothing that comes can change the page.
    fn is_settled(&self) -> bool {
        let is_over = |folded: &Folded| matches!(folded.step.status, StepStatus::Completed | StepStatus::Skipped);
        self.has_more && self.steps.iter().all(is_over)
    }

    /// The step of an entry, if it is on this page. A first entry brings it there while there is room.
    fn step(&mut self, seq: u64, key: &StepKey, is_first: bool) -> Option<&mut Folded> {
        if !self.index.contains_key(key) {
            if !is_first {
                return None;
            }
            if self.is_full() && !self.steps.is_empty() {
                self.has_more = true;
                return None;
            }
            self.index.insert(key.clone(), self.steps.len());
            self.steps.push(Folded::new(seq, key.clone()));
        }
        self.steps.get_mut(self.index[key])
    }

    fn take(&mut self, seq: u64, at: Timestamp, event: Event) {
        match event {
            Event::StepDispatched { step, attempt, dispatch } => {
                if let Some(folded) = self.step(seq, &step, attempt == 1) {
                    folded.dispatched(at, attempt, &dispatch);
                }
            }
            Event::StepCompleted { step, attempt, outcome } => {
                if let Some(folded) = self.step(seq, &step, false) {
                    folded.settle(at, attempt, StepStatus::Completed, None, outcome.logs);
                    (folded.step.output, folded.step.handle) = (Some(outcome.output), outcome.handle);
                }
                self.left(&step, at);
            }
            Event::StepFailed { step, attempt, failure, logs, .. } => {
                if let Some(folded) = self.step(seq, &step, false) {
                    folded.settle(at, attempt, StepStatus::Failed, Some(Error::of(failure)), logs);
                }
                self.left(&step, at);
            }
            Event::StepSkipped { step } => {
                if let Some(folded) = self.step(seq, &step, true) {
                    folded.step.status = StepStatus::Skipped;
                    folded.ended_at = Some(at);
                }
            }
            Event::TimerSet { step, .. } => self.set(&step, StepStatus::Waiting),
            Event::TimerFired { step, .. } => self.set(&step, StepStatus::Running),
            // Loops and scopes that failed with the run go on without a dispatch of their own.
            Event::RunRetried => {
                for folded in &mut self.steps {
                    if folded.is_body && folded.step.status == StepStatus::Failed {
                        folded.step.status = StepStatus::Running;
                        folded.ended_at = None;
                    }
                }
            }
            Event::RunStarted { .. }
            | Event::WaitOpened { .. }
            | Event::WaitResolved { .. }
            | Event::SignalBuffered { .. }
            | Event::TurnStarted { .. }
            | Event::TurnLost { .. }
            | Event::ContextSet { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. } => {}
        }
    }

    fn set(&mut self, step: &StepKey, status: StepStatus) {
        if let Some(index) = self.index.get(step)
            && !self.steps[*index].is_body
        {
            self.steps[*index].step.status = status;
        }
    }

    /// What is open inside a loop or scope that is over was given up.
    fn left(&mut self, body: &StepKey, at: Timestamp) {
        let prefix = format!("{body}[");
        let inside = self.steps.iter_mut().filter(|folded| folded.step.key.as_str().starts_with(&prefix));
        for folded in inside.filter(|folded| folded.is_open()) {
            folded.cancel(Some(at));
        }
    }

    fn finish(mut self, has_ended: bool, graph: Option<&Graph>) -> Steps {
        let next = self.steps.last().map(|folded| folded.seq).filter(|_| self.has_more);
        for folded in self.steps.iter_mut().filter(|folded| has_ended && folded.is_open()) {
            folded.cancel(None);
        }
        let steps = self.steps.into_iter().map(|folded| folded.finish(graph)).collect();
        Steps { steps, next_cursor: next.map(|seq| seq.to_string()) }
    }
}

impl Folded {
    fn new(seq: u64, key: StepKey) -> Self {
        let node = key.as_str().rsplit('.').next().unwrap_or_default().to_owned();
        let step = Step {
            key,
            node,
            kind: None,
            status: StepStatus::Pending,
            attempts: Vec::new(),
            started_at: None,
            ended_at: None,
            duration_ms: None,
            output: None,
            error: None,
            handle: None,
        };
        Self { seq, is_body: false, started_at: None, ended_at: None, due: None, step }
    }

    fn is_open(&self) -> bool {
        matches!(self.step.status, StepStatus::Pending | StepStatus::Running | StepStatus::Waiting)
    }

    fn dispatched(&mut self, at: Timestamp, attempt: u32, dispatch: &Dispatch) {
        self.is_body = matches!(dispatch, Dispatch::Body { .. });
        self.started_at.get_or_insert(at);
        self.ended_at = None;
        self.step.status = match dispatch {
            Dispatch::Task | Dispatch::Instant | Dispatch::Body { .. } => StepStatus::Running,
            Dispatch::Delay { .. } | Dispatch::Wait { .. } | Dispatch::Child(_) => StepStatus::Waiting,
        };
        // A dispatch that replaces an open one followed a crash: nobody will hear of that again.
        if let Some(lost) = self.step.attempts.last_mut().filter(|attempt| attempt.ended_at.is_none()) {
            (lost.status, lost.ended_at) = (StepStatus::Cancelled, Some(Time::of(at)));
        }
        let dispatched_at = Some(Time::of(at));
        let status = self.step.status;
        self.step.attempts.push(Attempt { attempt, dispatched_at, ended_at: None, status, error: None, logs: vec![] });
    }

    fn settle(&mut self, at: Timestamp, attempt: u32, status: StepStatus, error: Option<Error>, logs: Vec<String>) {
        self.step.status = status;
        self.ended_at = Some(at);
        let attempts = &mut self.step.attempts;
        if attempts.last().is_none_or(|last| last.attempt != attempt) {
            let none = Attempt { attempt, dispatched_at: None, ended_at: None, status, error: None, logs: vec![] };
            attempts.push(none);
        }
        if let Some(last) = attempts.last_mut() {
            (last.status, last.ended_at, last.error, last.logs) = (status, Some(Time::of(at)), error, logs);
        }
    }

    fn cancel(&mut self, at: Option<Timestamp>) {
        self.step.status = StepStatus::Cancelled;
        self.ended_at = at;
        if let Some(last) = self.step.attempts.last_mut().filter(|attempt| attempt.ended_at.is_none()) {
            (last.status, last.ended_at) = (StepStatus::Cancelled, at.map(Time::of));
        }
    }

    fn finish(mut self, graph: Option<&Graph>) -> Step {
        if let Some(graph) = graph
            && let Some(place) = StepPath::find(graph, &self.step.key)
        {
            self.step.kind = graph.nodes().get(place.node as usize).map(|node| node.kind.name().to_owned());
        }
        // What is not over has no end, whatever its last attempt had.
        let ended_at = self.ended_at.filter(|_| !self.is_open());
        self.step.duration_ms =
            self.started_at.zip(ended_at).map(|(start, end)| end.since(start).as_micros() as f64 / 1_000.0);
        if self.step.status == StepStatus::Failed {
            self.step.error = self.step.attempts.last().and_then(|attempt| attempt.error.clone());
        }
        self.step.started_at = self.started_at.map(Time::of);
        self.step.ended_at = ended_at.map(Time::of);
        self.step
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::failure::Failure;
    use everstep_core::journal::{Outcome, TimerPurpose};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millis(second * 1_000)
    }

    fn dispatched(step: &str, attempt: u32, dispatch: Dispatch) -> Event {
        Event::StepDispatched { step: step.into(), attempt, dispatch }
    }

    fn statuses(steps: &Steps) -> Vec<(&str, &str)> {
        steps.steps.iter().map(|step| (step.key.as_str(), step.status.as_str())).collect()
    }

    #[test]
    fn attempts_are_told_one_by_one() {
        let mut page = Page::new(10);
        page.take(2, at(1), dispatched("a", 1, Dispatch::Task));
        let failure = Failure::transient("BROKEN", "no luck");
        page.take(
            3,
            at(2),
            Event::StepFailed { step: "a".into(), attempt: 1, failure, logs: vec!["x".into()], started_at: None },
        );
        page.take(4, at(2), Event::TimerSet { step: "a".into(), attempt: 1, due: at(3), why: TimerPurpose::Retry });
        assert_eq!(page.steps[0].step.status, StepStatus::Waiting);
        page.take(5, at(3), Event::TimerFired { step: "a".into(), attempt: 1 });
        page.take(6, at(3), dispatched("a", 2, Dispatch::Task));
        let outcome = Outcome::of(serde_json::json!(7));
        page.take(7, at(5), Event::StepCompleted { step: "a".into(), attempt: 2, outcome });
        let steps = page.finish(true, None);
        let step = &steps.steps[0];
        assert_eq!((step.status, step.duration_ms), (StepStatus::Completed, Some(4_000.0)));
        let attempts: Vec<_> = step.attempts.iter().map(|attempt| (attempt.attempt, attempt.status)).collect();
        assert_eq!(attempts, [(1, StepStatus::Failed), (2, StepStatus::Completed)]);
        assert_eq!(step.attempts[0].logs, ["x"]);
        assert_eq!(step.output.as_ref().unwrap().json(), "7");
    }

    #[test]
    fn what_was_given_up_is_cancelled() {
        let mut page = Page::new(10);
        page.take(1, at(1), dispatched("each", 1, Dispatch::Body { items: vec![] }));
        page.take(2, at(1), dispatched("each[0].a", 1, Dispatch::Task));
        page.take(3, at(1), dispatched("b", 1, Dispatch::Task));
        let failure = Failure::fatal("BROKEN", "no luck");
        page.take(4, at(2), Event::failed("each".into(), 1, failure));
        let steps = page.finish(true, None);
        assert_eq!(statuses(&steps), [("each", "failed"), ("each[0].a", "cancelled"), ("b", "cancelled")]);
    }

    #[test]
    fn a_page_ends_with_its_limit_and_the_next_begins_there() {
        let mut page = Page::new(1);
        page.take(2, at(1), dispatched("a", 1, Dispatch::Instant));
        page.take(3, at(1), Event::StepCompleted { step: "a".into(), attempt: 1, outcome: Outcome::default() });
        assert!(!page.is_settled(), "there may be no other");
        page.take(4, at(1), Event::StepSkipped { step: "b".into() });
        assert!(page.is_settled());
        let steps = page.finish(false, None);
        assert_eq!((statuses(&steps), steps.next_cursor.as_deref()), (vec![("a", "completed")], Some("2")));
        let mut page = Page::new(1);
        page.take(3, at(1), Event::StepCompleted { step: "a".into(), attempt: 1, outcome: Outcome::default() });
        page.take(4, at(1), Event::StepSkipped { step: "b".into() });
        let steps = page.finish(false, None);
        assert_eq!((statuses(&steps), steps.next_cursor.as_deref()), (vec![("b", "skipped")], None));
    }
}
