//! Passes the inputs of a run through the core.

use everstep_core::code::Report;
use everstep_core::journal::Entry;
use everstep_core::limits;
use everstep_core::run::decide::{self, Decision, SettledStep};
use everstep_core::run::{Cx, Input, Reply, keys};
use everstep_store::InboxInput;

use super::active::ActiveRun;
use super::mailbox::{Envelope, ReplyTo};
use super::pending::Begun;
use crate::error::Error;

/// The result of the inputs of a run: the content of its next item.
#[derive(Default)]
pub(crate) struct Decided {
    pub(crate) entries: Vec<Entry>,
    /// For each entry, the step that it settles.
    pub(crate) settled: Vec<SettledStep>,
    pub(crate) answered: Vec<(Envelope, Reply)>,
    /// Inputs of a run that has not begun, for its inbox.
    pub(crate) kept: Vec<InboxInput>,
}

impl Decided {
    /// Whether a report of a turn was rejected.
    fn has_refused(&self, turn: u32) -> bool {
        let is_of_turn = |envelope: &Envelope| matches!(&envelope.input, Input::Report { turn: of, .. } if *of == turn);
        self.answered.iter().any(|(envelope, reply)| matches!(reply, Reply::Refused { .. }) && is_of_turn(envelope))
    }
}

impl ActiveRun {
    /// Decides one input alone, without its consequences.
    pub(crate) fn record(&mut self, input: Input, cx: Cx<'_>) -> Vec<Entry> {
        decide::record(&self.workflow, &mut self.state, input, cx)
    }

    /// Passes due timers and all waiting inputs through the core, each on the state after the previous one, until the item
    /// is full or has used its fuel. The rest is decided after the commit, or in the next turn of the workspace if nothing
    /// is written, so that other runs of the shard come between.
    pub(crate) fn decide_all(&mut self, cx: Cx<'_>) -> Decided {
        let mut decided = Decided { answered: Vec::with_capacity(1), ..Decided::default() };
        let begun = self.begin_pending(&mut decided, cx);
        if let Some(input) = self.mailbox.take_urgent() {
            let entries = self.record(input, cx);
            if !entries.is_empty() {
                add(&mut decided.entries, entries);
                return decided;
            }
        }
        while decided.entries.len() < limits::EVENTS_PER_DECISION && !cx.meter.is_spent() {
            let Some(envelope) = self.mailbox.next(&self.state, cx.now) else { break };
            if self.is_hidden_from(&envelope) {
                envelope.answer(Err(Error::RunNotFound(self.state.run)));
                continue;
            }
            if self.is_pending() {
                self.decide_pending(envelope, cx, &mut decided);
                continue;
            }
            if self.note_input(&envelope, &decided) == Noted::Settled {
                continue;
            }
            self.decide_one(envelope, cx, &mut decided);
        }
        // The request to end the run was refused.
        if begun == Begun::Recorded && !self.state.has_ended() {
            self.decide_one(Envelope::new(Input::Settle), cx, &mut decided);
        }
        decided
    }

    /// Whether the run does not exist for the sender: it belongs to another workspace, or the worker does not serve its
    /// lane.
    pub(super) fn is_hidden_from(&self, envelope: &Envelope) -> bool {
        envelope.workspace.is_some_and(|workspace| workspace != self.workspace)
            || matches!(&envelope.reply_to, ReplyTo::Worker(session, _) if !session.serves(&self.lane))
    }

    /// Updates the state of the engine that is not in the journal.
    fn note_input(&mut self, envelope: &Envelope, decided: &Decided) -> Noted {
        match &envelope.input {
            Input::Result { step, attempt, .. } => self.finish_task(step, *attempt),
            Input::ChildStarted { child, .. } => self.children.exists(*child),
            Input::Report { turn, report } => {
                let has_refused = matches!(**report, Report::Blocked { .. }) && decided.has_refused(*turn);
                self.hear(*turn, report, &envelope.reply_to, has_refused);
            }
            // A function that only waited runs from the top again when it has something to do.
            Input::LoseTurn { turn } => {
                if self.lose_unused_turn(*turn) {
                    return Noted::Settled;
                }
            }
            Input::Start { .. }
            | Input::TaskLost { .. }
            | Input::Timer { .. }
            | Input::ChildEnded { .. }
            | Input::Signal { .. }
            | Input::BufferedSignal { .. }
            | Input::Event { .. }
            | Input::BeginTurn { .. }
            | Input::SetContext { .. }
            | Input::Pause { .. }
            | Input::Resume
            | Input::Cancel { .. }
            | Input::Retry
            | Input::Transition(_)
            | Input::Assign(_)
            | Input::Fail { .. }
            | Input::Settle => {}
        }
        Noted::Undecided
    }

    pub(super) fn decide_one(&mut self, mut envelope: Envelope, cx: Cx<'_>, decided: &mut Decided) {
        let key = envelope.key.as_deref().filter(|_| !self.holds.is_empty());
        if let Some(reply) = key.and_then(|key| keys::answer_held(&self.holds, &envelope.input, key)) {
            decided.answered.push((envelope, reply));
            return;
        }
        // An input that was accepted before has changed the version itself.
        let known = envelope.key.as_deref().and_then(|key| keys::answer(&self.state, &envelope.input, key, cx.now));
        if known.is_none() && envelope.expected.is_some_and(|expected| expected != self.state.seq) {
            let message = "Concurrent modification detected".to_owned();
            decided.answered.push((envelope, Reply::refused("CONCURRENCY_ERROR", message)));
            return;
        }
        let (input, key) = (envelope.input.clone(), envelope.key.as_deref());
        let decision = decide::decide(&self.workflow, &mut self.state, input, key, cx);
        let Decision { entries, settled, reply, has_more } = decision;
        self.mailbox.set_more(has_more);
        envelope.seq = entries.first().map(|entry| entry.seq).or_else(|| self.reported_seq(&envelope.input));
        self.children.forget_settled(&self.state, &envelope.input);
        self.look_backs.note(&entries);
        if let Input::LoseTurn { turn } = &envelope.input {
            self.give_back(*turn);
        }
        add(&mut decided.entries, entries);
        add(&mut decided.settled, settled);
        decided.answered.push((envelope, reply));
    }
}

/// Adds a list to another one. Most items have one input, whose list is taken as it is.
fn add<T>(list: &mut Vec<T>, more: Vec<T>) {
    if list.is_empty() { *list = more } else { list.extend(more) }
}

/// Whether an input needs a decision.
#[derive(PartialEq)]
enum Noted {
    Undecided,
    /// It concerns only state that is not in the journal.
    Settled,
}
