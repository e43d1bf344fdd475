//! The fold: what each entry makes of a state.

use std::sync::Arc;

use super::{Doing, Misfit, Open, Phase, State};
use crate::failure::Failure;
use crate::graph::{Kind, Pacing, Path, Place};
use crate::ids::StepKey;
use crate::journal::{Dispatch, Entry, Event, Outcome};
use crate::payload::Payload;
use crate::run::keys::Keyed;
use crate::time::Timestamp;
use crate::workflow::Workflow;

impl State {
    /// Folds one entry.
    /// Returns when the step that it settles was dispatched, if it settles one that was.
    pub fn apply(&mut self, workflow: &Workflow, entry: &Entry) -> Result<Option<Timestamp>, Misfit> {
        let misfit = |reason: &str| Misfit { seq: entry.seq, reason: reason.to_owned() };
        if entry.seq != self.seq + 1 {
            return Err(misfit("it does not follow the entry before it"));
        }
        if entry.at > self.updated_at {
            self.children.forget_left();
        }
        self.seq = entry.seq;
        self.updated_at = entry.at;
        if let Some(key) = &entry.key {
            let kind = Keyed::of_event(&entry.event).ok_or_else(|| misfit("its kind has no key"))?;
            self.keys.remember(kind, Arc::clone(key));
        }
        let graph = workflow.graph();
        let place = match entry.event.step() {
            Some((step, _)) if !workflow.is_code() => {
                let place = Place::find(graph, step).ok_or_else(|| misfit("the workflow has no such step"))?;
                Some((step, place))
            }
            _ => None,
        };
        match &entry.event {
            Event::RunStarted { input, parent, .. } => {
                if self.phase != Phase::Pending {
                    return Err(misfit("the run was started before"));
                }
                self.phase = Phase::Live;
                self.started_at = entry.at;
                self.input = input.clone();
                self.parent.clone_from(parent);
                if !workflow.is_code() {
                    self.graph.begin(graph);
                }
            }
            Event::ContextSet { .. } if workflow.is_code() => return Err(misfit("a code workflow has no context")),
            Event::ContextSet { values } => {
                for (name, value) in values.value().as_object().into_iter().flatten() {
                    self.graph.set(&Path::default(), name, Payload::from(value.clone()));
                }
            }
            Event::RunPaused { reason } => {
                self.phase = Phase::Paused;
                self.paused_at = Some(entry.at);
                self.failure.clone_from(reason);
                if workflow.is_code() {
                    self.code.paused();
                }
            }
            Event::RunResumed => {
                self.phase = Phase::Live;
                self.paused_at = None;
                self.failure = None;
            }
            Event::RunRetried => self.retried(workflow),
            _ if workflow.is_code() && !is_end(&entry.event) => {
                return self.apply_code(entry).ok_or_else(|| misfit("it does not follow from what was before"));
            }
            Event::RunCompleted { output } => {
                self.end(Phase::Completed);
                self.output = Some(output.clone());
            }
            Event::RunFailed { failure, step } => {
                // A run of a graph tells it by the steps that failed.
                let step = step.clone().filter(|_| workflow.is_code());
                let attempts = step.as_ref().and_then(|step| self.code.step(step)).map(|known| known.attempt);
                self.end(Phase::Failed);
                self.failure = Some(Failure { step, attempts, ..failure.clone() });
            }
            Event::RunCancelled { .. } => self.end(Phase::Cancelled),
            Event::WaitOpened { .. }
            | Event::WaitResolved { .. }
            | Event::SignalBuffered { .. }
            | Event::TurnStarted { .. }
            | Event::TurnLost { .. } => return Err(misfit("it belongs to a code workflow")),
            Event::StepDispatched { .. }
            | Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::TimerSet { .. }
            | Event::TimerFired { .. } => {
                let (step, place) = place.expect("these events name a step");
                let applied = self.apply_step(workflow, step, &place, entry);
                return applied.ok_or_else(|| misfit("the step is not open"));
            }
        }
        Ok(None)
    }

    /// `None` when the step is not open.
    fn apply_step(
        &mut self,
        workflow: &Workflow,
        step: &StepKey,
        place: &Place,
        entry: &Entry,
    ) -> Option<Option<Timestamp>> {
        let graph = workflow.graph();
        let mut since = None;
        match &entry.event {
            Event::StepDispatched { attempt, dispatch, .. } => {
                // Only a lost task and a step that is to be tried again are dispatched while they are open.
                let is_again = |open: &Open| matches!(open.doing, Doing::Task | Doing::Again);
                if self.open.get(step).is_some_and(|open| !is_again(open)) && !self.has_foreign_child(step) {
                    return None;
                }
                self.dispatched(step, *attempt, dispatch);
                let items = match dispatch {
                    Dispatch::Body { items } => Some(items.as_slice()),
                    Dispatch::Task
                    | Dispatch::Instant
                    | Dispatch::Delay { .. }
                    | Dispatch::Wait { .. }
                    | Dispatch::Child(_) => None,
                };
                self.graph.dispatched(graph, place, items)?;
            }
            Event::StepCompleted { outcome, .. } => {
                since = self.close(step)?.since;
                self.record(workflow, place, outcome);
                self.graph.completed(graph, place, &outcome.output, outcome.handle.as_deref())?;
            }
            Event::StepFailed { failure, .. } => {
                since = self.open.get(step)?.since;
                self.step_failed(workflow, step, place, failure)?;
            }
            Event::StepSkipped { .. } => self.graph.skipped(graph, place)?,
            Event::TimerSet { due, .. } => {
                let open = self.open.get_mut(step)?;
                if open.timer.is_some() || !matches!(open.doing, Doing::Body | Doing::Failed) {
                    return None;
                }
                open.timer = Some(*due);
                self.timers.insert((*due, step.clone()));
                if open.doing == Doing::Body {
                    self.graph.paced(graph, place, Pacing::Waits);
                } else {
                    open.doing = Doing::Backoff;
                    self.todo.remove(step);
                }
            }
            Event::TimerFired { .. } => {
                let open = self.open.get_mut(step)?;
                if !matches!(open.doing, Doing::Body | Doing::Backoff) {
                    return None;
                }
                let due = open.timer.take()?;
                self.timers.remove(&(due, step.clone()));
                if open.doing == Doing::Body {
                    self.graph.paced(graph, place, Pacing::May);
                } else {
                    open.doing = Doing::Again;
                    self.todo.insert(step.clone());
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
            | Event::RunRetried
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. } => {}
        }
        Some(since)
    }

    pub(crate) fn dispatched(&mut self, step: &StepKey, attempt: u32, dispatch: &Dispatch) {
        let (doing, timer) = match dispatch {
            Dispatch::Task => (Doing::Task, None),
            Dispatch::Instant => (Doing::Instant, None),
            Dispatch::Delay { due } => (Doing::Delay, Some(*due)),
            Dispatch::Wait { event, pattern, due } => {
                (Doing::Wait { event: event.clone(), pattern: pattern.clone() }, *due)
            }
            Dispatch::Child(child) => (Doing::Child(Arc::clone(child)), child.due),
            Dispatch::Body { .. } => (Doing::Body, None),
        };
        let before = self.close(step);
        let failures = before.as_ref().map_or(0, |open| open.failures);
        // A dispatch that replaces an open task followed a crash.
        let crashes = before.filter(|open| open.doing == Doing::Task).map_or(0, |open| open.crashes + 1);
        self.tasks += usize::from(doing == Doing::Task);
        if let Doing::Child(child) = &doing {
            self.children.open(child);
        }
        if let Some(due) = timer {
            self.timers.insert((due, step.clone()));
        }
        self.open.insert(
            step.clone(),
            Open { attempt, failures, crashes, doing, timer, retry_after_ms: None, since: Some(self.updated_at) },
        );
        if self.has_foreign_child(step) {
            self.todo.insert(step.clone());
        }
    }

    /// Removes an open step with its timer.
    pub(crate) fn close(&mut self, step: &StepKey) -> Option<Open> {
        let open = self.open.remove(step)?;
        self.tasks -= usize::from(open.doing == Doing::Task);
        if let Doing::Child(child) = &open.doing {
            self.children.close(child);
        }
        if let Some(due) = open.timer {
            self.timers.remove(&(due, step.clone()));
        }
        self.todo.remove(step);
        Some(open)
    }

    fn step_failed(&mut self, workflow: &Workflow, step: &StepKey, place: &Place, failure: &Failure) -> Option<()> {
        let mut open = self.close(step)?;
        open.failures += 1;
        open.retry_after_ms = failure.retry_after_ms;
        open.crashes = 0;
        self.leave_late_child(step, &open, failure);
        let may_retry = matches!(open.doing, Doing::Task | Doing::Child(_));
        let policy = self.policy(workflow, place);
        if may_retry && policy.retries(open.failures, failure) {
            (open.doing, open.timer) = (Doing::Failed, None);
            open.since = Some(self.updated_at);
            self.open.insert(step.clone(), open);
            self.todo.insert(step.clone());
            return Some(());
        }
        let (is_handled, dropped) = self.graph.failed(workflow.graph(), place, failure)?;
        if is_handled {
            if let Some(variable) = &workflow.graph().node(place.node).output_variable {
                let error = serde_json::json!({"error": {"code": failure.code, "message": failure.message}});
                self.graph.set(&place.path, variable, Payload::from(error));
            }
        } else {
            self.failed.insert(step.clone(), open.attempt);
        }
        if let Some(prefix) = dropped {
            self.drop_steps(&prefix);
        }
        Some(())
    }

    /// Forgets open and failed steps whose keys begin with a prefix: they lie in one range.
    fn drop_steps(&mut self, prefix: &str) {
        let keys = |map: &mut dyn Iterator<Item = &StepKey>| -> Vec<StepKey> {
            map.take_while(|step| step.as_str().starts_with(prefix)).cloned().collect()
        };
        let from = StepKey::from(prefix);
        for step in keys(&mut self.open.range(from.clone()..).map(|(step, _)| step)) {
            if let Some(Open { doing: Doing::Child(child), attempt, .. }) = self.close(&step)
                && child.is_of(self.run, &step, attempt)
            {
                self.children.leave(self.seq, &child);
            }
        }
        for step in keys(&mut self.failed.range(from..).map(|(step, _)| step)) {
            self.failed.remove(&step);
        }
    }

    fn retried(&mut self, workflow: &Workflow) {
        self.phase = Phase::Live;
        let failure = self.failure.take();
        if workflow.is_code() {
            return self.retried_code(failure.and_then(|failure| failure.step).as_ref());
        }
        self.call_again();
        // Tasks that were cut off by the run's failure did not crash.
        for open in self.open.values_mut() {
            open.crashes = 0;
        }
        let graph = workflow.graph();
        for (step, attempt) in std::mem::take(&mut self.failed) {
            let Some(place) = Place::find(graph, &step) else { continue };
            // A loop or scope under way goes on where it stood, under its next attempt; all else is dispatched again.
            let (doing, attempt) =
                if self.graph.is_under_way(&place) { (Doing::Body, attempt + 1) } else { (Doing::Again, attempt) };
            if doing == Doing::Again {
                self.todo.insert(step.clone());
            }
            let since = Some(self.updated_at);
            let open = Open { attempt, failures: 0, crashes: 0, doing, timer: None, retry_after_ms: None, since };
            self.open.insert(step, open);
            self.graph.reopen(graph, &place);
        }
    }

    /// Writes what a completed step leaves in the context.
    fn record(&mut self, workflow: &Workflow, place: &Place, outcome: &Outcome) {
        let node = workflow.graph().node(place.node);
        if let Kind::End { .. } = node.kind {
            let mut fields = self.graph.ends_output().clone();
            if let Some(serde_json::Value::Object(more)) = outcome.output.value().get("workflowOutput") {
                fields.extend(more.clone());
            }
            self.graph.set(&Path::default(), "output", Payload::from(serde_json::Value::Object(fields)));
        }
        let Some(variable) = &node.output_variable else { return };
        // An output that has a field of that name means the field. Most have none, and are not parsed to see it.
        let json = outcome.output.json();
        let named = if json.starts_with('{') && (json.contains(variable.as_str()) || json.contains("\\u")) {
            outcome.output.value().get(variable).cloned().map(Payload::from)
        } else {
            None
        };
        self.graph.set(&place.path, variable, named.unwrap_or_else(|| outcome.output.clone()));
    }
}

/// Whether an event ends a run.
fn is_end(event: &Event) -> bool {
    matches!(event, Event::RunCompleted { .. } | Event::RunFailed { .. } | Event::RunCancelled { .. })
}
