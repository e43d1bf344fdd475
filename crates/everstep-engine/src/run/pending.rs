//! A run that has not begun: a row without a journal.
//!
//! 1. The node that claims the run owns it. Its next item records the start as entry 1, with everything that follows.
//! 2. A node that only visits the run does not start it, because the run is not due, or no node has room for it:
//!    * A cancellation records the start and the cancellation in one item.
//!    * A pause or a resumption changes only the row: see [`crate::hold`].
//!    * A signal that is to be buffered becomes a row of the inbox, which the start takes. Other signals, and requests
//!      to a machine, are refused.
//!    * Rows of the inbox stay where they are.

use std::collections::BTreeSet;

use everstep_core::run::decide::SettledStep;
use everstep_core::run::{Cx, Input, Reply, State, decide};
use everstep_core::workflow::Workflow;
use everstep_store::{InboxInput, RunRow};

use super::active::ActiveRun;
use super::decide::Decided;
use super::mailbox::{self, Envelope};
use super::ownership::Ownership;
use crate::error::Error;
use crate::start;

/// The code of the refusal of an input that needs a run that has begun.
const RUN_PENDING: &str = "RUN_PENDING";

/// A run that has not begun.
pub(crate) struct PendingRun {
    /// Its start.
    start: Input,
    /// The keys of the signals that wait in its inbox.
    keys: BTreeSet<String>,
}

impl PendingRun {
    pub(super) fn from_row(row: &RunRow) -> Self {
        Self { start: start::input_from_row(row), keys: BTreeSet::new() }
    }
}

/// How the start of a run was decided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    /// There was nothing to start, or the start was decided with its consequences.
    Wholly,
    /// Only `RunStarted` was recorded, because the run is about to end or to be paused.
    Recorded,
}

impl ActiveRun {
    /// Whether the run is a row without a journal.
    pub(crate) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Records the start of a run that this node owns. If the same item ends the run, nothing else follows from it.
    pub(super) fn begin_pending(&mut self, decided: &mut Decided, cx: Cx<'_>) -> Begun {
        if self.ownership == Ownership::Guest {
            return Begun::Wholly;
        }
        let Some(pending) = self.pending.take() else { return Begun::Wholly };
        if self.mailbox.is_ending() {
            self.record_start(pending.start, decided, cx);
            return Begun::Recorded;
        }
        self.decide_one(Envelope::new(pending.start), cx, decided);
        Begun::Wholly
    }

    /// Decides an input for a run that has not begun and that this node does not own.
    pub(super) fn decide_pending(&mut self, mut envelope: Envelope, cx: Cx<'_>, decided: &mut Decided) {
        let Some(pending) = &mut self.pending else { return };
        if envelope.inbox.is_some() {
            pending.keys.extend(envelope.key);
            return;
        }
        match &envelope.input {
            Input::Cancel { .. } => {
                // The expected version is that of a run without entries.
                if envelope.expected.is_none_or(|expected| expected == self.state.seq) {
                    envelope.expected = None;
                    let Some(pending) = self.pending.take() else { return };
                    self.record_start(pending.start, decided, cx);
                }
                self.decide_one(envelope, cx, decided);
            }
            Input::Pause { .. } | Input::Resume => {
                let run = self.state.run;
                envelope.answer(Err(Error::NotBegun(run)));
            }
            Input::BufferedSignal { .. } => {
                let is_known = envelope.key.as_ref().is_some_and(|key| pending.keys.contains(key));
                let reply = if is_known {
                    Some(Reply::Repeated)
                } else {
                    refuse_kept(&self.workflow, &self.state, pending, &envelope.input, cx)
                };
                let reply = reply.unwrap_or(Reply::Buffered);
                if reply == Reply::Buffered {
                    pending.keys.extend(envelope.key.clone());
                    let input = mailbox::to_inbox(&envelope.input, envelope.key.as_deref());
                    decided.kept.push(InboxInput { to: self.state.run, input });
                }
                decided.answered.push((envelope, reply));
            }
            Input::Signal { .. } | Input::SetContext { .. } | Input::Transition(_) | Input::Assign(_) => {
                let message = format!("run {} has not begun; try again when it runs", self.state.run);
                decided.answered.push((envelope, Reply::refused(RUN_PENDING, message)));
            }
            Input::Start { .. }
            | Input::Result { .. }
            | Input::TaskLost { .. }
            | Input::Timer { .. }
            | Input::ChildEnded { .. }
            | Input::ChildStarted { .. }
            | Input::Event { .. }
            | Input::BeginTurn { .. }
            | Input::LoseTurn { .. }
            | Input::Report { .. }
            | Input::Retry
            | Input::Fail { .. }
            | Input::Settle => self.decide_one(envelope, cx, decided),
        }
    }

    fn record_start(&mut self, start: Input, decided: &mut Decided, cx: Cx<'_>) {
        let entries = self.record(start, cx);
        decided.settled.extend(entries.iter().map(|_| SettledStep::default()));
        decided.entries.extend(entries);
    }
}

/// Why a signal cannot be kept until the run begins: the run would refuse it, because of its style or of the signal.
fn refuse_kept(workflow: &Workflow, state: &State, pending: &PendingRun, signal: &Input, cx: Cx<'_>) -> Option<Reply> {
    let mut begun = state.clone();
    decide::record(workflow, &mut begun, pending.start.clone(), cx);
    let reply = decide::decide(workflow, &mut begun, signal.clone(), None, cx).reply;
    matches!(reply, Reply::Refused { .. }).then_some(reply)
}
