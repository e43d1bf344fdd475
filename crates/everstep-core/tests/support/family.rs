//! Follows the children of one run: each child that a step waits for ends or is cancelled, once.

use std::collections::BTreeMap;

use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::{Dispatch, Entry, Event};
use everstep_core::run::{Input, OpenActivity, State};

#[derive(Default)]
pub(crate) struct Family {
    /// Every child that was ever dispatched.
    children: BTreeMap<RunId, Kin>,
    /// Whether a transition has decided the end of the run.
    is_end_decided: bool,
}

struct Kin {
    step: StepKey,
    attempt: u32,
    waits: bool,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Open,
    Ended,
    Cancelled,
}

impl Family {
    /// The child of an attempt.
    pub(crate) fn find(&self, step: &StepKey, attempt: u32) -> Option<RunId> {
        self.children.iter().find(|(_, kin)| kin.step == *step && kin.attempt == attempt).map(|(run, _)| *run)
    }

    pub(crate) fn name(&self, run: RunId) -> Option<(&StepKey, u32)> {
        self.children.get(&run).map(|kin| (&kin.step, kin.attempt))
    }

    /// Every child that ever existed, as its step, attempt and run.
    pub(crate) fn all(&self) -> Vec<(StepKey, u32, RunId)> {
        self.children.iter().map(|(run, kin)| (kin.step.clone(), kin.attempt, *run)).collect()
    }

    /// The child that an input concerns.
    pub(crate) fn child_in(input: &Input) -> Option<RunId> {
        match input {
            Input::ChildEnded { child, .. } | Input::ChildStarted { child, .. } => Some(*child),
            _ => None,
        }
    }

    /// An input about a child was accepted.
    pub(crate) fn heard(&mut self, child: Option<RunId>) {
        let Some(child) = child else { return };
        let kin = self.children.get_mut(&child).expect("only a known child is listened to");
        assert_eq!(kin.fate, Fate::Open, "{child} ends once");
        kin.fate = Fate::Ended;
    }

    pub(crate) fn follow(&mut self, state: &State, entries: &[Entry], messages: &[(RunId, Input)]) {
        for entry in entries {
            if let Event::StepDispatched { step, attempt, dispatch: Dispatch::Child(child) } = &entry.event {
                let (step, attempt) = (step.clone(), *attempt);
                let is_delivery = state.is_delivery(&step);
                let before =
                    self.children.insert(child.run, Kin { step, attempt, waits: child.waits, fate: Fate::Open });
                assert!(before.is_none() || is_delivery, "{} is a child of one attempt", child.run);
            }
            if let Event::StepDispatched { step, attempt, dispatch: Dispatch::Delivery(delivery) } = &entry.event
                && !delivery.is_task()
            {
                let (step, attempt, run) = (step.clone(), *attempt, RunId::from_uuid(delivery.id.uuid()));
                self.children.insert(run, Kin { step, attempt, waits: false, fate: Fate::Open });
            }
        }
        let mut to_parent = 0;
        for (run, message) in messages {
            match message {
                Input::Cancel { .. } => {
                    let kin = self.children.get_mut(run).expect("only children are cancelled");
                    assert!(kin.waits && kin.fate == Fate::Open, "{run} is cancelled once, while it is waited for");
                    kin.fate = Fate::Cancelled;
                }
                Input::ChildEnded { child, .. } => {
                    let parent = state.parent().expect("only a child sends its end");
                    assert_eq!((*run, *child), (parent.run, state.run));
                    to_parent += 1;
                }
                other => panic!("no run sends {other:?} to another run"),
            }
        }
        let decides_end =
            |entry: &Entry| matches!(&entry.event, Event::TransitionApplied(applied) if applied.end.is_some());
        let is_decided = entries.iter().any(decides_end);
        let ends = is_decided || state.has_ended() && !entries.is_empty() && !self.is_end_decided;
        self.is_end_decided |= is_decided;
        let is_awaited = state.awaited_by().is_some();
        assert_eq!(to_parent, usize::from(ends && is_awaited), "a parent hears of each end once");
        self.check(state);
    }

    /// A child is waited for exactly if it is open and has neither ended nor been cancelled.
    fn check(&self, state: &State) {
        let awaited = |kin: &&Kin| kin.waits && kin.fate == Fate::Open;
        let mut followed: Vec<_> = self.children.values().filter(awaited).map(|kin| (&kin.step, kin.attempt)).collect();
        let open = state
            .open()
            .filter(|open| !state.has_ended() && matches!(open.activity, OpenActivity::Child(child) if child.waits))
            .filter(|open| state.parent_of(open.step, open.attempt).is_some());
        let mut open: Vec<_> = open.map(|open| (open.step, open.attempt)).collect();
        open.sort_unstable();
        followed.sort_unstable();
        assert_eq!(open, followed, "a child that a step waits for is open");
    }
}
