//! A state machine, checked and compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::graph::NamedSecret;
use crate::ids::StepKey;
use crate::journal::Delivery;
use crate::kinds::TaskPart;
use crate::logic::Rule;
use crate::retry::RetryPolicy;
use crate::schema::Schema;

/// A valid machine. States are identified by their index.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(crate) states: Vec<MachineState>,
    pub(crate) index: BTreeMap<String, u32>,
    pub(crate) initial: u32,
    /// Every action that some state has.
    pub(crate) actions: BTreeSet<String>,
    pub(crate) context_schema: Option<Arc<Schema>>,
    /// The callers that may start a run, if not every caller with the permission to manage runs.
    pub(crate) start: Option<Requirement>,
    pub(crate) retention_days: Option<u32>,
    /// The secrets that its side effects name.
    pub(crate) secrets: Vec<NamedSecret>,
    pub(crate) definition: Value,
}

/// A state of a machine.
#[derive(Clone, Debug)]
pub struct MachineState {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub(crate) end: Option<MachineEnd>,
    /// Paths of the context that are shown to the person who decides, such as `order.total`; empty for the whole context.
    pub(crate) show: Vec<String>,
    /// Templates for the persons to whom the state is assigned.
    pub(crate) assign: Vec<Value>,
    /// The actions of the state, in the order of the definition.
    pub(crate) on: Vec<Action>,
    /// The action that follows if all voters have voted and no action has its quorum.
    pub(crate) on_stalemate: Option<String>,
    pub(crate) after: Vec<After>,
    pub(crate) run: Option<StateRun>,
    pub(crate) entry: Vec<SideEffect>,
    pub(crate) exit: Vec<SideEffect>,
    /// The output of a run that ends here, as a template.
    pub(crate) output: Option<Value>,
}

/// How a run ends in a terminal state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineEnd {
    Completed,
    Failed,
}

/// An action of a state: who may perform it, on which conditions, and the states that it leads to.
#[derive(Clone, Debug)]
pub struct Action {
    pub name: String,
    pub title: Option<String>,
    pub(crate) require: Option<Requirement>,
    pub(crate) quorum: Option<Quorum>,
    pub(crate) needs: Needs,
    pub(crate) condition: Option<Rule>,
    /// The message of a refusal if the condition does not hold; without one, if no branch is taken.
    pub(crate) message: Option<String>,
    /// At least one. The first whose condition holds is taken; a plain `to` is one branch without a condition.
    pub(crate) branches: Vec<ActionBranch>,
    /// Values for the context, as templates; they apply to every branch, before those of the branch.
    pub(crate) set: Map<String, Value>,
    /// Side effects of every branch, before those of the branch.
    pub(crate) events: Vec<SideEffect>,
}

#[derive(Clone, Debug)]
pub struct ActionBranch {
    pub(crate) condition: Option<Rule>,
    /// The index of a state.
    pub(crate) to: u32,
    pub(crate) set: Map<String, Value>,
    pub(crate) events: Vec<SideEffect>,
}

/// The callers that may perform an action: any alternative passes, then `not_by` excludes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requirement {
    pub(crate) roles: Vec<String>,
    /// Templates for ids of persons.
    pub(crate) users: Vec<Value>,
    pub(crate) is_assigned: bool,
    /// `@start`, or actions: the persons who performed one of them in the run are excluded.
    pub(crate) not_by: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Quorum {
    /// Templates for the voters; `None` for any authorized caller.
    pub(crate) voters: Option<Vec<Value>>,
    pub(crate) need: Need,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Need {
    All,
    Majority,
    Any,
    Count(u32),
    /// Of the voters, rounded up.
    Percent(u32),
}

impl Need {
    /// The number of votes that are needed of this number of voters; at least 1.
    pub(crate) fn votes(self, voters: u32) -> u32 {
        let votes = match self {
            Self::All => voters,
            Self::Majority => voters / 2 + 1,
            Self::Any => 1,
            Self::Count(count) => count,
            Self::Percent(percent) => {
                u64::from(voters).saturating_mul(u64::from(percent)).div_ceil(100).try_into().unwrap_or(u32::MAX)
            }
        };
        votes.max(1)
    }
}

/// Parts that a request for an action must have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    pub(crate) comment: bool,
    /// Paths that the request's data must contain.
    pub(crate) data: Vec<String>,
    /// The number of files that the request must have at least.
    pub(crate) files: u32,
    /// Whether the request must carry the digest of the values that were shown to the person.
    pub(crate) shown: bool,
}

/// A timer of a state.
#[derive(Clone, Debug)]
pub struct After {
    pub(crate) due: AfterDue,
    pub(crate) effect: AfterEffect,
    pub(crate) events: Vec<SideEffect>,
    pub(crate) repeat: Option<TimerRepeat>,
}

/// How a timer that only has side effects repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerRepeat {
    pub(crate) every: Duration,
    /// How often the timer is due, the first time included.
    pub(crate) times: u32,
}

#[derive(Clone, Debug)]
pub enum AfterDue {
    In(Duration),
    /// A template for a time.
    At(Value),
}

#[derive(Clone, Debug, PartialEq)]
pub enum AfterEffect {
    /// Moves to a state.
    To(u32),
    /// Performs an action of the state, without its `require` and `quorum`.
    Do(String),
    /// Only its side effects happen.
    None,
}

/// A run that entering a state starts.
#[derive(Clone, Debug)]
pub struct StateRun {
    pub(crate) workflow: String,
    pub(crate) version: Option<u32>,
    /// A template; `None` for the context.
    pub(crate) input: Option<Value>,
    /// The name of the context in which the output is stored.
    pub(crate) save_as: Option<String>,
    pub(crate) done: u32,
    pub(crate) error: Option<u32>,
}

/// A side effect of a transition: an `event` of the definition.
#[derive(Clone, Debug)]
pub struct SideEffect {
    pub(crate) id: String,
    pub(crate) kind: SideEffectKind,
}

#[derive(Clone, Debug)]
pub enum SideEffectKind {
    /// Replaces the persons to whom the state that is entered is assigned. Templates, each for a name or a list.
    Assign { who: Vec<Value> },
    /// Performs an action in the state that is entered, in the same item.
    AutoAction { action: String, payload: Option<Value> },
    /// Sends a request or starts a run, after the commit of the item.
    Deliver(Box<DeliveryTemplate>),
}

/// A delivery as the definition has it. Its values are templates.
#[derive(Clone, Debug)]
pub struct DeliveryTemplate {
    pub(crate) kind: DeliveryKind,
    /// Its place in the definition, as a JSON pointer.
    pub(crate) path: String,
    /// The address of a webhook, the recipients of a mail, or the name of a workflow.
    pub(crate) target: Value,
    /// The texts of a mail.
    pub(crate) template: Option<MailTemplate>,
    pub(crate) payload: Option<Value>,
    pub(crate) headers: Map<String, Value>,
    /// The secret with which a webhook is signed: `{"$secret": name}`.
    pub(crate) secret: Option<Value>,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) timeout_seconds: Option<u32>,
}

/// The texts of a mail. Their values are templates.
#[derive(Clone, Debug)]
pub struct MailTemplate {
    pub(crate) subject: Value,
    pub(crate) text: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryKind {
    Webhook,
    Notify,
    Workflow,
}

impl DeliveryKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => Delivery::WEBHOOK,
            Self::Notify => Delivery::NOTIFY,
            Self::Workflow => Delivery::WORKFLOW,
        }
    }
}

impl Machine {
    /// The definition in canonical form, as it is stored.
    pub fn definition(&self) -> &Value {
        &self.definition
    }

    pub fn retention_days(&self) -> Option<u32> {
        self.retention_days
    }

    pub fn states(&self) -> &[MachineState] {
        &self.states
    }

    pub fn find_state(&self, name: &str) -> Option<&MachineState> {
        self.index.get(name).map(|index| self.state(*index))
    }

    pub(crate) fn state(&self, index: u32) -> &MachineState {
        &self.states[index as usize]
    }

    pub fn context_schema(&self) -> Option<&Arc<Schema>> {
        self.context_schema.as_ref()
    }

    pub fn has_action(&self, action: &str) -> bool {
        self.actions.contains(action)
    }

    /// The secrets that its side effects name.
    pub fn named_secrets(&self) -> Vec<NamedSecret> {
        self.secrets.clone()
    }

    /// The deliveries that handlers perform.
    pub fn task_parts(&self) -> Vec<TaskPart> {
        let mut parts = Vec::new();
        for state in &self.states {
            for (_, effect) in state.effects() {
                let SideEffectKind::Deliver(template) = &effect.kind else { continue };
                let DeliveryTemplate { kind, path, .. } = &**template;
                if *kind != DeliveryKind::Workflow {
                    parts.push(TaskPart { kind: kind.as_str().into(), node: state.name.clone(), path: path.clone() });
                }
            }
        }
        parts
    }

    /// Whether its runs have deliveries, or timers that repeat.
    pub(crate) fn has_deliveries(&self) -> bool {
        let repeats = |state: &MachineState| state.after.iter().any(|after| after.repeat.is_some());
        self.states.iter().any(|state| repeats(state) || state.effects().any(|(_, effect)| effect.is_delivery()))
    }

    /// The kind of a delivery, by the key of its step; none if the definition has no such side effect, or several with
    /// different kinds.
    pub(crate) fn delivery_kind(&self, step: &StepKey) -> Option<&'static str> {
        let (list, rest) = step.as_str().split_once('[')?;
        let (_, id) = rest.rsplit_once('.')?;
        let effects = self.states.iter().flat_map(MachineState::effects);
        let named = effects.filter(|(name, effect)| *name == list && effect.id == id);
        let mut kinds = named.filter_map(|(_, effect)| match &effect.kind {
            SideEffectKind::Deliver(template) => Some(template.kind.as_str()),
            SideEffectKind::Assign { .. } | SideEffectKind::AutoAction { .. } => None,
        });
        let first = kinds.next()?;
        kinds.all(|kind| kind == first).then_some(first)
    }
}

impl SideEffect {
    fn is_delivery(&self) -> bool {
        matches!(self.kind, SideEffectKind::Deliver(_))
    }
}

impl MachineState {
    pub fn is_terminal(&self) -> bool {
        self.end.is_some()
    }

    pub fn actions(&self) -> &[Action] {
        &self.on
    }

    pub fn action(&self, name: &str) -> Option<&Action> {
        self.on.iter().find(|action| action.name == name)
    }

    /// All side effects of the state, each with the first part of the keys of its list.
    fn effects(&self) -> impl Iterator<Item = (&str, &SideEffect)> {
        let of_actions = self.on.iter().flat_map(|action| {
            let branches = action.branches.iter().flat_map(|branch| &branch.events);
            action.events.iter().chain(branches).map(|effect| (action.name.as_str(), effect))
        });
        let timers = self.after.iter().flat_map(|after| &after.events).map(|effect| ("@after", effect));
        let entry = self.entry.iter().map(|effect| ("@entry", effect));
        let exit = self.exit.iter().map(|effect| ("@exit", effect));
        of_actions.chain(timers).chain(entry).chain(exit)
    }
}
