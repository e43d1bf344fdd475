//! Plays one run, and checks the laws after every item.

use everstep_core::dead_letter::DeadLetter;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::journal::codec;
use everstep_core::journal::law;
use everstep_core::journal::{Cause, Entry};
use everstep_core::meter::Meter;
use everstep_core::run::decide::{decide, record};
use everstep_core::run::delivery::dead_letters_after;
use everstep_core::run::inbox::inputs_after;
use everstep_core::run::{Child, Cx, Input, Reply, State};
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;
use everstep_expressions::Expressions;

use super::{Family, story};

pub(crate) struct Game {
    pub(crate) workflow: Workflow,
    pub(crate) state: State,
    pub(crate) journal: Vec<Entry>,
    pub(crate) now: Timestamp,
    pub(crate) evaluate: Expressions,
    pub(crate) family: Family,
    /// Inputs that the run sent to other runs.
    pub(crate) sent_inputs: Vec<(RunId, Input)>,
    /// Dead letters that the run wrote.
    pub(crate) dead_letters: Vec<DeadLetter>,
    /// The journal, folded entry by entry beside the state that decides.
    shadow: State,
    /// The length of the journal at which it is checked again.
    next_check: usize,
}

impl Game {
    pub(crate) const BEGIN: Timestamp = Timestamp::from_millis(1_000_000);

    pub(crate) fn new(workflow: Workflow) -> Self {
        let state = State::new(RunId::new(Self::BEGIN, 7), &workflow);
        Self {
            workflow,
            shadow: state.clone(),
            state,
            journal: Vec::new(),
            now: Self::BEGIN,
            evaluate: Expressions::default(),
            family: Family::default(),
            sent_inputs: Vec::new(),
            dead_letters: Vec::new(),
            next_check: 0,
        }
    }

    /// Decides one input and everything that follows.
    pub(crate) fn input(&mut self, input: Input) -> (Vec<Entry>, Reply) {
        self.keyed(input, None)
    }

    /// A run that continues from the state of this one after an entry.
    pub(crate) fn fork(&self, at: u64) -> Self {
        let mut fork = Self::new(self.workflow.clone());
        fork.state = State::new(RunId::new(Self::BEGIN, 8), &fork.workflow);
        fork.journal = self.journal[..usize::try_from(at).unwrap()].to_vec();
        for entry in &fork.journal {
            fork.state.apply(&fork.workflow, entry).unwrap();
        }
        fork.shadow = fork.state.clone();
        fork.now = self.now;
        fork
    }

    /// Gives a child the id that its parent chose for it.
    fn name_child(&mut self, input: &Input) {
        if let Input::Start { cause: Some(Cause { parent: Some(parent), .. }), .. } = input
            && self.journal.is_empty()
        {
            let run = Child::id(parent.run, &parent.step, parent.attempt, self.now);
            (self.state, self.shadow) = (State::new(run, &self.workflow), State::new(run, &self.workflow));
        }
    }

    /// Decides one input under a key, and everything that follows.
    pub(crate) fn keyed(&mut self, input: Input, key: Option<&str>) -> (Vec<Entry>, Reply) {
        self.name_child(&input);
        let mut written = Vec::new();
        let child = Family::child_in(&input);
        let decision = decide(
            &self.workflow,
            &mut self.state,
            input,
            key,
            Cx { now: self.now, evaluate: &self.evaluate, meter: &Meter::new() },
        );
        self.family.heard(child.filter(|_| decision.reply.is_accepted()));
        let mut has_more = decision.has_more;
        self.record_entries(decision.entries, has_more, &mut written);
        while has_more {
            let decision = decide(
                &self.workflow,
                &mut self.state,
                Input::Settle,
                None,
                Cx { now: self.now, evaluate: &self.evaluate, meter: &Meter::new() },
            );
            has_more = decision.has_more;
            self.record_entries(decision.entries, has_more, &mut written);
        }
        (written, decision.reply)
    }

    /// Records an input without deciding what follows.
    pub(crate) fn record(&mut self, input: Input) {
        self.name_child(&input);
        let child = Family::child_in(&input);
        let cx = Cx { now: self.now, evaluate: &self.evaluate, meter: &Meter::new() };
        let entries = record(&self.workflow, &mut self.state, input, cx);
        self.family.heard(child.filter(|_| !entries.is_empty()));
        self.record_entries(entries, true, &mut Vec::new());
    }

    /// Drops everything except the journal as it was written, and reads it again.
    pub(crate) fn reload(&mut self) {
        let mut state = State::new(self.state.run, &self.workflow);
        for entry in &self.journal {
            let entry = codec::decode(entry.seq, entry.at, codec::encode(entry)).unwrap();
            state.apply(&self.workflow, &entry).unwrap();
        }
        assert!(state == self.state, "a reload is the state:\n{state:?}\n{:?}", self.state);
        self.state = state;
    }

    fn record_entries(&mut self, entries: Vec<Entry>, has_more: bool, written: &mut Vec<Entry>) {
        for entry in &entries {
            let before = self.shadow.status();
            self.shadow.apply(&self.workflow, entry).unwrap();
            let after = self.shadow.status();
            // One entry may cause two changes: a resumed run runs, and is then found to wait.
            let is_near = before.may_become(after) || before.next().iter().any(|between| between.may_become(after));
            assert!(before == after || is_near, "a run that is {before} became {after}");
        }
        let messages = inputs_after(&self.state, &entries);
        self.family.follow(&self.state, &entries, &messages);
        self.sent_inputs.extend(messages);
        let workspace = WorkspaceId::DEFAULT;
        self.dead_letters.extend(dead_letters_after(&self.workflow, workspace, &self.state, &entries));
        self.journal.extend(entries.clone());
        written.extend(entries);
        // A check reads the whole journal: long journals are checked now and then, and at their end.
        if self.journal.len() >= self.next_check || (self.state.has_ended() && !written.is_empty()) {
            let size = self.journal.len()
                + self.workflow.graph().map_or(0, |graph| graph.nodes().len())
                + self.state.weight() / 1_000;
            self.next_check = if size < 500 { 0 } else { size * 2 };
            self.check(has_more);
        }
    }

    /// Checks the laws, that the fold of the journal is the state, and that a snapshot of the state reads back equal.
    pub(crate) fn check(&self, has_more: bool) {
        let state = law::check(self.state.run, &self.workflow, &self.journal, &self.evaluate, has_more).unwrap();
        assert!(state == self.state, "the fold of the journal is the state:\n{state:?}\n{:?}", self.state);
        assert!(self.shadow == self.state, "the shadow is the state");
        // The story is compared after one item in four, and at the end.
        if !has_more && (self.state.has_ended() || self.state.seq.is_multiple_of(4)) {
            story::check(&self.workflow, &self.journal, &self.state);
        }
        let snapshot = serde_json::to_string(&self.state).unwrap();
        let state = State::from_snapshot(&self.workflow, snapshot.as_bytes()).unwrap();
        assert!(state == self.state, "a snapshot keeps the state:\n{state:?}\n{:?}", self.state);
    }
}
