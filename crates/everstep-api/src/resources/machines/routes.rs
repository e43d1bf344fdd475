//! The rows of the route table for state machines.

use axum::http::Method;
use serde_json::{Value, json};

pub(super) use super::aliases::TRANSITION as ALIAS_TRANSITION;
use super::wire::{
    Actions, AssignRequest, Assignment, DefinitionDryRun, DryRun, EvaluateDefinitionRequest, EvaluateRunRequest,
    History, Transition, TransitionRequest,
};
use super::{actions, aliases, assign, evaluate, history, transition};
use crate::auth::Access;
use crate::auth::Permission::{Act, Read, View};
use crate::http::openapi::doc;
use crate::routes::Table;

/// The path of a transition.
pub(super) const TRANSITION: &str = "/v1/runs/{id}/transitions";
/// Why a transition is rejected.
pub(super) const REFUSALS_403: &str =
    "`PERMISSION_DENIED`: the caller may not perform the action; `required` lists the roles and names that may.";
pub(super) const REFUSALS_409: &str = "`CONCURRENCY_ERROR`: the run has another versionNo. `ACTION_CLOSED`: the state does \
     not have the action. `ALREADY_VOTED`, `NOT_VOTED`, `RUN_ENDED`, `RUN_PAUSED`, `SHOWN_CHANGED`, \
     `IDEMPOTENCY_KEY_REUSED`. The problem contains `state`, `versionNo`, `lastBy` and `lastAt`.";
pub(super) const REFUSALS_422: &str = "`UNKNOWN_ACTION`: the state machine has no such action. `CONDITION_FAILED`: the \
     condition does not hold; `explanation` contains its parts. `VALIDATION_ERROR`: `errors` has one entry per field. \
     `FILE_NOT_FOUND`: the caller has not uploaded such a file. `FILE_TAKEN`: the file belongs to another run or to an \
     earlier request. `FILE_EXPIRED`: the file was uploaded more than 24 hours ago.";

/// Why a dry run of a saved definition is rejected.
pub(super) const WORKFLOW_NOT_FOUND: &str = "`NOT_FOUND`: no such workflow, or no such version of it, exists.";

/// A state machine for examples.
pub(super) fn example_machine() -> Value {
    json!({
        "states": [
            {"name": "review", "initial": true, "on": {"APPROVE": {"to": "approved"}, "REJECT": {"to": "rejected"}}},
            {"name": "approved", "terminal": true},
            {"name": "rejected", "terminal": true},
        ],
    })
}

pub(crate) fn add(table: Table) -> Table {
    table
        .guarded(
            Act,
            Method::POST,
            TRANSITION,
            doc("machines", "Perform an action")
                .about(
                    "Performs an action in a run of a state machine, or votes for it. `applied` is false for a vote that \
                     is counted and does not reach the quorum. Without a version, the request expects the versionNo \
                     that the run has at its arrival: both requests of a double click expect the same versionNo, and \
                     only the first is performed. For 24 hours, a repeated request of the same caller with the same \
                     `Idempotency-Key` returns the first response.",
                )
                .keyed()
                .takes::<TransitionRequest>()
                .example(json!({"action": "APPROVE", "version": 2, "comment": "checked"}))
                .answers::<Transition>(200)
                .refuses(403, REFUSALS_403)
                .refuses(409, REFUSALS_409)
                .refuses(422, REFUSALS_422),
            transition::post,
        )
        .guarded(
            Act,
            Method::GET,
            "/v1/runs/{id}/actions",
            doc("machines", "List the actions of a run")
                .about("The present state, and the actions of the caller in it, with the reasons against those that are not open.")
                .answers::<Actions>(200)
                .refuses(409, "`INVALID_TRANSITION`: the run is not a run of a state machine."),
            actions::get,
        )
        .guarded(
            Access::OrAct(View),
            Method::GET,
            "/v1/runs/{id}/history",
            doc("machines", "List the history of a run")
                .about(
                    "Transitions, votes, assignments and timers, oldest first, with the changes of the context. Paging is \
                     by keyset.",
                )
                .query(history::PAGE)
                .answers::<History>(200)
                .refuses(409, "`INVALID_TRANSITION`: the run is not a run of a state machine."),
            history::get,
        )
        .guarded(
            Act,
            Method::POST,
            "/v1/runs/{id}/assign",
            doc("machines", "Assign a state")
                .about(
                    "Assigns the present state to other persons, or replaces a voter who has not voted. Only a person to \
                     whom the state is assigned, or a caller with `workflow:manage`, may do this. The history records it.",
                )
                .keyed()
                .takes::<AssignRequest>()
                .example(json!({"who": ["ann"], "reason": "bob has left"}))
                .answers::<Assignment>(200)
                .refuses(403, "`PERMISSION_DENIED`: the state is not assigned to the caller.")
                .refuses(409, REFUSALS_409),
            assign::post,
        )
        .guarded(
            Act,
            Method::POST,
            "/v1/runs/{id}/evaluate",
            doc("machines", "Evaluate an action")
                .about(
                    "The result that a transition would have, with every reason against it. Nothing is written. Only \
                     admins may set `as`.",
                )
                .changes_nothing()
                .takes::<EvaluateRunRequest>()
                .example(json!({"action": "APPROVE", "data": {"amount": 20}}))
                .answers::<DryRun>(200)
                .refuses(409, "`INVALID_TRANSITION`: the run is not a run of a state machine."),
            evaluate::of_run,
        )
        .guarded(
            Read,
            Method::POST,
            "/v1/workflows/evaluate",
            doc("machines", "Evaluate a definition")
                .about(
                    "The actions of a state of a definition, saved or not, in a context; and the result of one of them. \
                     Nothing is written. Only admins may set `as`. A caller without `workflow:publish` can send at most \
                     1 MiB.",
                )
                .changes_nothing()
                .takes::<EvaluateDefinitionRequest>()
                .example(json!({
                    "definition": example_machine(), "state": "review", "context": {"amount": 20}, "action": "APPROVE",
                }))
                .answers::<DefinitionDryRun>(200)
                .refuses(404, WORKFLOW_NOT_FOUND),
            evaluate::of_definition,
        )
        .with(aliases::add)
}
