//! The laws that every committed journal obeys. Tests and the simulator hold them up.
//!
//! **Invariant**: settling a committed journal again adds nothing, unless the run is paused or its last item was full.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::evaluate::Evaluate;
use crate::ids::RunId;
use crate::journal::{Dispatch, Entry, Event, Kind};
use crate::limits;
use crate::run::State;
use crate::run::decide;
use crate::workflow::Workflow;

/// Checks a journal that was committed to its end, and returns its state.
///
/// 1. Its entries are numbered from 1 without a gap, and time does not go back.
/// 2. No step is dispatched, completed or failed twice under one attempt, and none completes twice.
/// 3. An ended run changes no more, but for the retry of a failed one.
/// 4. It fits its workflow, and what the fold believes to be ready is ready; what it counts is there.
/// 5. Settling it again adds nothing, unless it is paused or its last item was full.
/// 6. No two dispatches start the same child.
/// 7. No idempotency key is kept twice while it is remembered.
/// 8. Turns are numbered from 1 without a gap, and none but the last is lost.
pub fn check(
    run: RunId,
    workflow: &Workflow,
    journal: &[Entry],
    evaluate: &dyn Evaluate,
    has_more: bool,
) -> Result<State, String> {
    let mut seen = BTreeSet::new();
    let mut completed = BTreeSet::new();
    let mut children = BTreeSet::new();
    let mut keys = VecDeque::new();
    let mut end = None;
    let mut turns = 0;
    for (index, entry) in journal.iter().enumerate() {
        if entry.seq != index as u64 + 1 {
            return Err(format!("entry {} stands at place {}", entry.seq, index + 1));
        }
        if index > 0 && entry.at < journal[index - 1].at {
            return Err(format!("entry {} is earlier than the one before it", entry.seq));
        }
        if let Event::StepDispatched { dispatch: Dispatch::Child(child), .. } = &entry.event
            && !children.insert(child.run)
        {
            return Err(format!("entry {}: the child {} is started twice", entry.seq, child.run));
        }
        if let Some(key) = &entry.key {
            if keys.contains(key) {
                return Err(format!("entry {}: the key {key:?} stands there twice", entry.seq));
            }
            keys.push_back(Arc::clone(key));
            if keys.len() > limits::KEYS {
                keys.pop_front();
            }
        }
        match entry.event {
            Event::TurnStarted { turn, .. } if turn == turns + 1 => turns = turn,
            Event::TurnLost { turn } if turn == turns && turn > 0 => {}
            Event::TurnStarted { turn, .. } | Event::TurnLost { turn } => {
                return Err(format!("entry {}: turn {turn} after turn {turns}", entry.seq));
            }
            _ => {}
        }
        let kind = entry.event.kind();
        match end {
            Some(Kind::RunFailed) if kind == Kind::RunRetried => end = None,
            Some(end) => return Err(format!("entry {}: {} after {}", entry.seq, kind.name(), end.name())),
            None if matches!(kind, Kind::RunCompleted | Kind::RunFailed | Kind::RunCancelled) => end = Some(kind),
            None => {}
        }
        if let (Some((step, _)), Kind::StepCompleted) = (entry.event.step(), kind)
            && !completed.insert(step.clone())
        {
            return Err(format!("entry {}: {step} completes twice", entry.seq));
        }
        if let (Some((step, attempt)), Kind::StepDispatched | Kind::StepCompleted | Kind::StepFailed) =
            (entry.event.step(), kind)
            && !seen.insert((step.clone(), attempt, kind))
        {
            return Err(format!("entry {}: {} {step} #{attempt} stands there twice", entry.seq, kind.name()));
        }
    }
    let state = State::fold(run, workflow, journal).map_err(|misfit| misfit.to_string())?;
    if workflow.is_code() {
        let (found, counted) = (state.scan_code(), (state.code.ready, state.code.bytes));
        if found != counted {
            return Err(format!("steps that may be tried and bytes are counted as {counted:?} and are {found:?}"));
        }
    } else {
        let found = state.graph.scan(workflow.graph());
        if found != state.graph.agenda {
            return Err(format!("the agenda is {:?} and should be {found:?}", state.graph.agenda));
        }
    }
    if !has_more {
        let now = state.updated_at;
        let more = decide::settle(workflow, &mut state.clone(), now, evaluate);
        if !more.is_empty() {
            return Err(format!("settling again adds {more:?}"));
        }
    }
    Ok(state)
}
