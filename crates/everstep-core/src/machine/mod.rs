//! The machine style: states, and actions of persons that lead from one to another.
//!
//! A definition is read ([`read`]), checked and compiled ([`compile`]) into a [`Machine`]. A run's [`Progress`] is folded
//! from its journal; entering a state is one entry that contains everything that was evaluated, so that the fold
//! evaluates nothing.
//!
//! * [`examine`] has the rules for a request, in their order; [`authorize`] is the only place that decides who may act.
//! * [`transitions`] has the rules for entering a state; [`quorum`] those for votes; [`timers`] those for time limits;
//!   [`deliveries`] those for side effects that are performed after the commit.
//! * [`actions`], [`evaluate`], [`history`] and [`situation`] answer readers and change nothing.

mod act;
mod actions;
mod apply;
mod authorize;
mod auto_loop;
mod compile;
mod conditions;
mod context;
mod context_fields;
mod definition_schema;
mod deliveries;
mod evaluate;
mod examine;
mod history;
mod input;
mod inputs;
mod model;
mod next;
pub mod problem_code;
mod progress;
mod quorum;
mod read;
mod run;
mod shown;
mod situation;
mod stalemate;
mod story;
mod timers;
mod transitions;

pub use act::{Act, Applied, Assignment, AssignmentChange, FieldFault, RefusalDetails, Rights, Tally};
pub use actions::{ActionView, Reason, actions};
pub(crate) use apply::fold;
pub use authorize::{may_read, may_start, required_to_act, required_to_start};
pub use compile::{compile, load};
pub use definition_schema::definition_schema;
pub(crate) use deliveries::describe_task;
pub use evaluate::{Evaluation, TimerView, evaluate, imagine};
pub(crate) use examine::refuse_reused_key;
pub use history::{FieldChange, History, HistoryKind, HistoryRow, history_id};
pub(crate) use input::check_input;
pub(crate) use inputs::{on_act, on_assignment};
pub use model::{
    Action, ActionBranch, After, AfterDue, AfterEffect, DeliveryKind, DeliveryTemplate, Machine, MachineEnd,
    MachineState, MailTemplate, Need, Needs, Quorum, Requirement, SideEffect, SideEffectKind, StateRun, TimerRepeat,
};
pub(crate) use next::next;
pub use progress::{LastTransition, Progress};
pub(crate) use run::{MachineRun, check_counts, context};
pub use shown::{Shown, shown};
pub use situation::{Choice, Exit, Situation, situation};
pub(crate) use story::{StepFacts, is_of_state, name_of, step_kind};
pub(crate) use timers::on_timer;

/// Codes of rejected requests, and of failures of a machine.
pub mod code {
    pub const ACTION_CLOSED: &str = "ACTION_CLOSED";
    pub const ALREADY_VOTED: &str = "ALREADY_VOTED";
    pub const AUTO_LOOP: &str = "AUTO_LOOP";
    pub const CONCURRENCY_ERROR: &str = "CONCURRENCY_ERROR";
    pub const FILE_EXPIRED: &str = "FILE_EXPIRED";
    pub const FILE_TAKEN: &str = "FILE_TAKEN";
    pub const NOT_VOTED: &str = "NOT_VOTED";
    pub const PERMISSION_DENIED: &str = "PERMISSION_DENIED";
    pub const QUORUM_IMPOSSIBLE: &str = "QUORUM_IMPOSSIBLE";
    pub const RUN_ENDED: &str = "RUN_ENDED";
    pub const RUN_PAUSED: &str = "RUN_PAUSED";
    pub const SHOWN_CHANGED: &str = "SHOWN_CHANGED";
    pub const UNKNOWN_ACTION: &str = "UNKNOWN_ACTION";
    pub const VALIDATION_ERROR: &str = "VALIDATION_ERROR";
}
