//! The rows of the route table under `/workflow-engine`.

use axum::http::Method;
use serde_json::{Value, json};

use super::super::evaluate;
use super::super::routes::{REFUSALS_403, REFUSALS_409, REFUSALS_422, WORKFLOW_NOT_FOUND, example_machine};
use super::super::wire::{
    Actions, DefinitionDryRun, EvaluateDefinitionRequest, History, Transition, TransitionRequest,
};
use super::wire::{
    CreateDefinitionRequest, DefinitionChange, DefinitionPage, DefinitionValidation, Instance, MachineDefinition,
};
use super::{definitions, instances};
use crate::auth::Access;
use crate::auth::Permission::{Act, Publish, Read, View};
use crate::http::openapi::{Parameter, doc};
use crate::http::schema::Json;
use crate::resources::machines::history;
use crate::routes::Table;

/// The path of a transition.
pub(in super::super) const TRANSITION: &str = "/workflow-engine/instances/{id}/transition";

const KEY_REUSED: &str = "`IDEMPOTENCY_KEY_REUSED`: another request has changed the definition under this key.";

pub(in super::super) fn add(table: Table) -> Table {
    of_definitions(of_instances(table))
}

fn of_instances(table: Table) -> Table {
    table
        .path_parameter("instances", Parameter::id("id", "The run's id."))
        .guarded(
            Act,
            Method::POST,
            TRANSITION,
            doc("machines", "Perform an action in an instance (alias)")
                .about(
                    "The same as `POST /v1/runs/{id}/transitions`. The header `Idempotency-Key` is required: for 24 \
                     hours, a repeated request of the same caller returns the first response.",
                )
                .must_be_keyed()
                .takes::<TransitionRequest>()
                .example(json!({"action": "APPROVE", "version": 2, "comment": "checked"}))
                .answers::<Transition>(200)
                .refuses(403, REFUSALS_403)
                .refuses(409, REFUSALS_409)
                .refuses(422, REFUSALS_422),
            instances::transition,
        )
        .guarded(
            Act,
            Method::GET,
            "/workflow-engine/instances/{id}",
            doc("machines", "Get an instance (alias)")
                .about(
                    "A run of a state machine: its state, its versionNo and the actions that the caller can perform.",
                )
                .answers::<Instance>(200),
            instances::get,
        )
        .guarded(
            Act,
            Method::GET,
            "/workflow-engine/instances/{id}/actions",
            doc("machines", "List the actions of an instance (alias)")
                .about("The same as `GET /v1/runs/{id}/actions`.")
                .answers::<Actions>(200),
            instances::actions,
        )
        .guarded(
            Access::OrAct(View),
            Method::GET,
            "/workflow-engine/instances/{id}/history",
            doc("machines", "List the history of an instance (alias)")
                .about("The same as `GET /v1/runs/{id}/history`.")
                .query(history::PAGE)
                .answers::<History>(200),
            instances::history,
        )
}

fn of_definitions(table: Table) -> Table {
    let with_dsl = |more: Value| {
        let mut body = more;
        body["dsl"] = example_machine();
        body
    };
    table
        .path_parameter(
            "definitions",
            Parameter::pattern(
                "id",
                "^[a-z0-9][a-z0-9_-]{0,127}(@[1-9][0-9]{0,8})?$",
                "The workflow's name, or `name@version`.",
            ),
        )
        .guarded(
            Read,
            Method::GET,
            "/workflow-engine/definitions",
            doc("machines", "List definitions (alias)")
                .about("State machines by name. A page may have fewer results than its limit.")
                .query(definitions::PAGE)
                .answers::<DefinitionPage>(200),
            definitions::list,
        )
        .guarded(
            Publish,
            Method::POST,
            "/workflow-engine/definitions",
            doc("machines", "Create a definition (alias)")
                .about(
                    "Saves a version of a state machine. It is activated only if `isActive` is true. A definition that \
                     equals the newest version adds no version, and the response is 200. For 24 hours, a repeated \
                     request with the same `Idempotency-Key` changes nothing and returns the version of the first \
                     response, also if there are later versions.",
                )
                .must_be_keyed()
                .takes::<CreateDefinitionRequest>()
                .example(with_dsl(json!({"workflowCode": "expense", "isActive": true})))
                .answers::<MachineDefinition>(201)
                .with_header("Location", "The path of the definition.")
                .answers::<MachineDefinition>(200)
                .with_header("Location", "The path of the definition.")
                .refuses(409, "`WORKFLOW_STYLE_CONFLICT`: the name belongs to a workflow of another style.")
                .refuses(409, "`QUOTA_REACHED`: the workspace has 10,000 workflows.")
                .refuses(409, KEY_REUSED),
            definitions::create,
        )
        .guarded(
            Read,
            Method::POST,
            "/workflow-engine/definitions/validate",
            doc("machines", "Validate a state machine (alias)")
                .about("Reports all problems of a definition, without saving it. The body is the DSL, or `{dsl}`.")
                .changes_nothing()
                .takes::<Json>()
                .example(with_dsl(json!({})))
                .answers::<DefinitionValidation>(200),
            definitions::validate,
        )
        .guarded(
            Read,
            Method::GET,
            "/workflow-engine/definitions/{id}",
            doc("machines", "Get a definition (alias)")
                .about("The named version; else the active one, or the newest one if none is active.")
                .answers::<MachineDefinition>(200),
            definitions::get,
        )
        .guarded(
            Publish,
            Method::PATCH,
            "/workflow-engine/definitions/{id}",
            doc("machines", "Change a definition (alias)")
                .about(
                    "A changed DSL is saved as a new version. With `isActive` true the version becomes the active one; \
                     with false none is active. Running instances keep their version. For 24 hours, a repeated request \
                     with the same `Idempotency-Key` changes nothing and returns the version of the first response.",
                )
                .must_be_keyed()
                .takes::<DefinitionChange>()
                .example(json!({"isActive": false}))
                .answers::<MachineDefinition>(200)
                .refuses(409, "`WORKFLOW_STYLE_CONFLICT`: the name belongs to a workflow of another style.")
                .refuses(409, "`QUOTA_REACHED`: the workspace has 10,000 workflows.")
                .refuses(409, KEY_REUSED),
            definitions::change,
        )
        .guarded(
            Read,
            Method::POST,
            "/workflow-engine/evaluate",
            doc("machines", "Evaluate a definition (alias)")
                .about("The same as `POST /v1/workflows/evaluate`.")
                .changes_nothing()
                .takes::<EvaluateDefinitionRequest>()
                .example(json!({
                    "definition": example_machine(), "state": "review", "context": {"amount": 20}, "action": "APPROVE",
                }))
                .answers::<DefinitionDryRun>(200)
                .refuses(404, WORKFLOW_NOT_FOUND),
            evaluate::of_definition,
        )
}
