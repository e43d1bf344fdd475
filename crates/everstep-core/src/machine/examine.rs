//! Examines a request for an action. The order of the checks is part of the interface: the first one that fails is the
//! answer.
//!
//! 1. The idempotency key (`run/keys.rs`), the end or the pause of the run, and due timers come before everything else.
//! 2. The version that the caller has seen.
//! 3. The action: known to the machine, and open in this state.
//! 4. Authorization.
//! 5. The caller's vote: not twice for the same action, and withdrawn only if it exists.
//! 6. The parts that the action needs, the comment, the data, the files, and the context schema with the data merged.
//! 7. The digest of the values that the caller was shown.
//! 8. The condition, and the values of the transition ([`carry_out`]).

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use super::authorize::{authorize, takes_part};
use super::conditions::{Performance, Unmet};
use super::context::{INPUT, at_path, merge};
use super::model::{Action, MachineState};
use super::progress::{Place, Progress};
use super::quorum::Votes;
use super::run::MachineRun;
use super::shown::{changed_fields, digest_of};
use super::transitions::{Hindrance, Record, perform};
use super::{Act, FieldFault, RefusalDetails, code};
use crate::actor::Actor;
use crate::failure::Failure;
use crate::graph::nearest;
use crate::journal::{Event, VoteCast};
use crate::limits;
use crate::payload::{self, Payload};
use crate::planted::{self, Bug};
use crate::run::{Cx, Reply, State};
use crate::schema::CheckMode;

/// Why a request is rejected.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Refusal {
    pub(super) code: Cow<'static, str>,
    pub(super) message: String,
    pub(super) errors: Vec<FieldFault>,
    pub(super) required: Vec<String>,
    pub(super) explanation: Vec<Value>,
}

impl Refusal {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: Cow::Borrowed(code), message: message.into(), ..Self::default() }
    }

    /// A request with faulty fields.
    fn faulty(errors: Vec<FieldFault>) -> Self {
        let first = errors.first().map(|error| format!("{}: {}", error.field, error.message)).unwrap_or_default();
        Self { errors, ..Self::new(code::VALIDATION_ERROR, first) }
    }

    fn fault(field: &str, message: impl Into<String>) -> Self {
        Self::faulty(vec![FieldFault { field: field.to_owned(), message: message.into() }])
    }

    /// The reply to the caller.
    pub(super) fn into_reply(self, run: MachineRun<'_>, caller: &Actor) -> Reply {
        self.into_reply_of(run.state, run.progress, caller)
    }

    /// Every reply contains the present state, and the actor and the time of the last transition.
    fn into_reply_of(self, state: &State, progress: &Progress, caller: &Actor) -> Reply {
        let Self { code, message, errors, required, explanation } = self;
        let last = progress.last_transition();
        let details = RefusalDetails {
            state: progress.state_name().map(str::to_owned),
            version_no: Some(progress.version_no),
            last_by: last.map(|last| last.by.clone()),
            last_at: last.map(|last| last.at),
            errors,
            required,
            explanation,
            takes_part: takes_part(state, progress, caller),
        };
        Reply::Refused { code, message, details: Some(Box::new(details)) }
    }
}

/// The reply to a request whose idempotency key its caller has used for another request.
pub(crate) fn refuse_reused_key(state: &State, caller: &Actor) -> Reply {
    const CODE: &str = "IDEMPOTENCY_KEY_REUSED";
    let message = "this idempotency key was used for another request before; use a new key";
    match state.machine() {
        Some(progress) => Refusal::new(CODE, message).into_reply_of(state, progress, caller),
        None => Reply::refused(CODE, message),
    }
}

impl From<Unmet> for Refusal {
    fn from(unmet: Unmet) -> Self {
        let Unmet { code, message, explanation } = unmet;
        Self { explanation, ..Self::new(code, message) }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self { code: Cow::Owned(failure.code), message: failure.message, ..Self::default() }
    }
}

impl From<Hindrance> for Refusal {
    fn from(hindrance: Hindrance) -> Self {
        match hindrance {
            Hindrance::Unmet(unmet) => unmet.into(),
            Hindrance::Failure(failure) => failure.into(),
        }
    }
}

/// A request whose action is open in the present state.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    run: MachineRun<'a>,
    act: &'a Act,
    place: &'a Place,
    state: &'a MachineState,
    action: &'a Action,
    cx: Cx<'a>,
}

/// Whether a run takes requests at all.
pub(super) fn check_phase(run: MachineRun<'_>) -> Result<(), Refusal> {
    let state = run.state;
    let is_terminal = run.place().is_some_and(|(_, definition)| definition.is_terminal());
    if state.has_ended() || is_terminal {
        let last = describe_last(run);
        // A machine in a terminal state does not move, although its side effects are still to be performed.
        let place = if state.has_ended() { state.status().to_string() } else { "in a terminal state".to_owned() };
        return Err(Refusal::new(code::RUN_ENDED, format!("the run is {place} and no longer changes{last}")));
    }
    if state.is_paused() {
        let reason = state.failure().map(|failure| format!(": {}", failure.message)).unwrap_or_default();
        return Err(Refusal::new(code::RUN_PAUSED, format!("the run is paused{reason}; resume it first")));
    }
    Ok(())
}

/// Checks 2: the version.
pub(super) fn check_version(run: MachineRun<'_>, act: &Act) -> Result<(), Refusal> {
    let current = run.progress.version_no;
    let is_stale = |version: &u32| *version != current && !planted::is_planted(Bug::StaleVersionTaken);
    match act.version.filter(is_stale) {
        None => Ok(()),
        Some(version) => {
            let last = describe_last(run);
            let message = format!("the run is at version {current}, not {version}{last}");
            Err(Refusal::new(code::CONCURRENCY_ERROR, message))
        }
    }
}

/// The last transition as a clause, for a caller who comes after it.
fn describe_last(run: MachineRun<'_>) -> String {
    run.progress
        .last_transition()
        .map(|last| {
            let state = run.progress.state_name().unwrap_or_default();
            let votes: Vec<_> = last.votes.iter().map(ToString::to_string).collect();
            let votes = if votes.is_empty() { String::new() } else { format!(" ({})", votes.join(", ")) };
            format!(": {}{votes} performed {} at {}, and the state is {state:?}", last.by, last.action, last.at)
        })
        .unwrap_or_default()
}

impl<'a> Request<'a> {
    /// Checks 3: the action.
    pub(super) fn find(run: MachineRun<'a>, act: &'a Act, cx: Cx<'a>) -> Result<Self, Refusal> {
        let name = act.action.as_str();
        if !run.machine.has_action(name) {
            let known = run.machine.actions.iter().map(String::as_str);
            let hint = nearest(name, known).map(|hint| format!("; do you mean {hint}?")).unwrap_or_default();
            return Err(Refusal::new(code::UNKNOWN_ACTION, format!("the machine has no action {name:?}{hint}")));
        }
        let Some((place, state)) = run.place() else {
            return Err(Refusal::new(code::ACTION_CLOSED, "the run has no state yet"));
        };
        let Some(action) = state.action(name) else {
            let open: Vec<_> = state.on.iter().map(|action| action.name.as_str()).collect();
            let open = if open.is_empty() {
                "it has no actions".to_owned()
            } else {
                format!("its actions are {}", open.join(", "))
            };
            let message = format!("{name} is not an action of the state {:?}; {open}", place.state);
            return Err(Refusal::new(code::ACTION_CLOSED, message));
        };
        Ok(Self { run, act, place, state, action, cx })
    }

    /// Checks 4 to 7, in their order: those that fail, or only the first of them.
    pub(super) fn examine(self, extent: Extent) -> Vec<Refusal> {
        let checks: [fn(Self) -> Result<(), Refusal>; 4] =
            [Self::check_caller, Self::check_vote, Self::check_parts, Self::check_shown];
        let refusals = checks.into_iter().filter_map(|check| check(self).err());
        match extent {
            Extent::First => refusals.take(1).collect(),
            Extent::All => refusals.collect(),
        }
    }

    fn check_caller(self) -> Result<(), Refusal> {
        authorize(self.run, self.action, &self.act.by, &self.act.rights, self.cx).map_err(|denial| Refusal {
            required: denial.required,
            ..Refusal::new(code::PERMISSION_DENIED, denial.message)
        })
    }

    fn check_vote(self) -> Result<(), Refusal> {
        let name = &self.action.name;
        let standing = self.place.votes.get(&self.act.by).filter(|voted| *voted == name);
        match (self.is_vote(), self.act.withdraw, standing) {
            (false, true, _) => {
                Err(Refusal::fault("withdraw", format!("{name} needs no votes, so none can be withdrawn")))
            }
            (true, true, None) => {
                Err(Refusal::new(code::NOT_VOTED, format!("you have no vote for {name} that could be withdrawn")))
            }
            (true, false, Some(_)) if !planted::is_planted(Bug::VoteCountedTwice) => {
                Err(Refusal::new(code::ALREADY_VOTED, format!("you have already voted for {name} in this state")))
            }
            (false, false, _) | (true, true, Some(_)) | (true, false, _) => Ok(()),
        }
    }

    fn check_parts(self) -> Result<(), Refusal> {
        let Self { act, action, .. } = self;
        let comment = act.comment.as_deref().unwrap_or_default();
        if comment.chars().count() > limits::COMMENT_CHARS {
            let message = format!("a comment has at most {} characters", limits::COMMENT_CHARS);
            return Err(Refusal::fault("comment", message));
        }
        if let Some(data) = &act.data {
            self.check_data(data)?;
        }
        self.check_files()?;
        if act.withdraw {
            return Ok(());
        }
        let mut errors = Vec::new();
        let mut need = |field: String, message: &str| errors.push(FieldFault { field, message: message.to_owned() });
        if action.needs.comment && comment.trim().is_empty() {
            need("comment".to_owned(), "this action needs a comment");
        }
        if action.needs.shown && act.shown.is_none() {
            need("shown".to_owned(), "this action needs the digest of the values that were shown");
        }
        match action.needs.files {
            least if act.files.len() >= least as usize => {}
            1 => need("files".to_owned(), "this action needs a file"),
            least => need("files".to_owned(), &format!("this action needs {least} files or more")),
        }
        let data = act.data.as_ref().map_or(&Value::Null, Payload::value);
        for path in &action.needs.data {
            if at_path(data, path).is_none_or(Value::is_null) {
                need(format!("data.{path}"), "required field missing");
            }
        }
        if errors.is_empty() {
            errors = self.check_schema();
        }
        if errors.is_empty() { Ok(()) } else { Err(Refusal::faulty(errors)) }
    }

    fn check_data(self, data: &Payload) -> Result<(), Refusal> {
        if self.is_vote() || self.act.withdraw {
            return Err(Refusal::fault("data", "a vote has no data; remove `data`"));
        }
        if data.size() > limits::PAYLOAD_BYTES {
            return Err(Refusal::fault("data", format!("the data has at most {} bytes", limits::PAYLOAD_BYTES)));
        }
        payload::check(data.json()).map_err(|error| Refusal::fault("data", format!("the data {error}")))?;
        match data.value().as_object() {
            Some(fields) if fields.contains_key(INPUT) => {
                Err(Refusal::fault("data.input", "`input` is the input of the run and cannot be set"))
            }
            Some(_) => Ok(()),
            None => Err(Refusal::fault("data", "expected an object, which is merged into the context")),
        }
    }

    /// The files must not belong to an earlier request of the run, and must not have expired: the store has deleted a
    /// file that has, or is about to.
    fn check_files(self) -> Result<(), Refusal> {
        let Self { run, act, cx, .. } = self;
        if act.files.is_empty() {
            return Ok(());
        }
        if act.withdraw {
            return Err(Refusal::fault("files", "a withdrawn vote has no files; remove `files`"));
        }
        if act.files.len() > limits::ACT_FILES {
            return Err(Refusal::fault("files", format!("a request has at most {} files", limits::ACT_FILES)));
        }
        let mut seen = BTreeSet::new();
        for file in &act.files {
            if !seen.insert(file) {
                return Err(Refusal::fault("files", format!("the file {file} is named twice")));
            }
            if run.progress.files.contains(&file.to_string()) {
                let message = format!("the file {file} belongs to an earlier request of this run");
                return Err(Refusal::new(code::FILE_TAKEN, message));
            }
        }
        if act.files_until.is_some_and(|until| until <= cx.now) {
            let message = format!("a file can be used for {} hours after its upload", limits::UNBOUND_FILE_HOURS);
            return Err(Refusal::new(code::FILE_EXPIRED, message));
        }
        Ok(())
    }

    /// The faults of the context after the data is merged.
    fn check_schema(self) -> Vec<FieldFault> {
        let Some(schema) = self.run.machine.context_schema() else { return Vec::new() };
        let context = merge(&self.run.progress.context, &self.act.data);
        let faults = schema.check_context(context.value(), CheckMode::Json);
        let mut errors = Vec::<FieldFault>::new();
        for fault in faults {
            let field = fault.pointer.trim_start_matches('/').replace('/', ".").replace("~1", "/").replace("~0", "~");
            let is_missing = context.value().pointer(&fault.pointer).is_none();
            let message = if is_missing { "required field missing".to_owned() } else { fault.message };
            if errors.iter().all(|error| error.field != field) {
                errors.push(FieldFault { field, message });
            }
        }
        errors
    }

    fn check_shown(self) -> Result<(), Refusal> {
        let Some(digest) = &self.act.shown else { return Ok(()) };
        if digest_of(self.run).is_none_or(|present| present == digest) {
            return Ok(());
        }
        let fields = changed_fields(self.run);
        let of = if fields.is_empty() { String::new() } else { format!(" of {}", fields.join(", ")) };
        let message = format!("`shown` is not the digest of the present values{of}; read them again");
        let error = |field: String| FieldFault { field, message: "may have changed since it was shown".to_owned() };
        let errors = fields.into_iter().map(error).collect();
        Err(Refusal { errors, ..Refusal::new(code::SHOWN_CHANGED, message) })
    }

    /// Whether the request is a vote, or withdraws one.
    pub(super) fn is_vote(self) -> bool {
        self.place.ballots.contains_key(&self.action.name)
    }

    fn performance(self) -> Performance<'a> {
        let Self { act, action, .. } = self;
        Performance {
            action: &action.name,
            by: &act.by,
            rights: Some(&act.rights),
            comment: act.comment.as_deref(),
            data: act.data.as_ref().map(Payload::value),
        }
    }

    /// Check 8: the condition and the values. Returns the events of the request; the first one records it. `request` is
    /// the digest of a request with an idempotency key.
    pub(super) fn carry_out(self, request: Option<String>) -> Result<Vec<Event>, Refusal> {
        let Self { run, act, action, cx, .. } = self;
        if self.is_vote() {
            return self.vote(request);
        }
        let (comment, data, shown) = (self.comment(), act.data.clone(), act.shown.clone());
        let record =
            Record { comment, data, files: self.files(), votes: Vec::new(), shown, request, is_delivering: false };
        Ok(perform(run, action, self.performance(), act.by.clone(), None, record, cx)?)
    }

    fn comment(self) -> Option<String> {
        self.act.comment.clone().filter(|comment| !comment.trim().is_empty())
    }

    fn files(self) -> Vec<String> {
        self.act.files.iter().map(ToString::to_string).collect()
    }

    fn vote(self, request: Option<String>) -> Result<Vec<Event>, Refusal> {
        let Self { run, act, place, state, action, cx } = self;
        let mut events = vec![Event::VoteCast(Box::new(VoteCast {
            action: action.name.clone(),
            version_no: run.progress.version_no,
            by: act.by.clone(),
            on_behalf_of: None,
            comment: self.comment(),
            files: self.files(),
            shown: act.shown.clone(),
            is_withdrawn: act.withdraw,
            request,
        }))];
        if act.withdraw {
            return Ok(events);
        }
        run.variables(&self.performance(), cx).check(action, run.progress.context.value())?;
        let votes = Votes::with(place, &act.by, &action.name);
        if votes.reach_quorum() {
            let record = Record { votes: votes.supporters(), ..Record::default() };
            let by = Actor::system(Actor::QUORUM);
            events.extend(perform(run, action, self.performance(), by, None, record, cx)?);
        } else if votes.are_stalemate()
            && let Some(name) = &state.on_stalemate
            && let Some(stalemate) = state.action(name)
        {
            let by = Actor::system(Actor::STALEMATE);
            let performance = Performance::of_server(name, &by, None);
            match perform(run, stalemate, performance, by.clone(), None, Record::default(), cx) {
                Ok(more) => events.extend(more),
                Err(Hindrance::Unmet(_)) => {}
                Err(failure @ Hindrance::Failure(_)) => return Err(failure.into()),
            }
        }
        Ok(events)
    }
}

/// How many of the failing checks are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Only the first, which is the answer.
    First,
    /// All of them, for a dry run.
    All,
}
