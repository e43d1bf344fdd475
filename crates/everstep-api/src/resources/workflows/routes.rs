//! Routes of definitions.

use axum::http::Method;
use serde_json::json;

use super::wire::{
    Activate, Clone, Definition, Exported, NewWorkflow, Portable, Validation, Versions, Workflow, WorkflowSummary,
};
use crate::auth::Permission::{Publish, Read};
use crate::http::openapi::{Parameter, doc};
use crate::http::schema::Json;
use crate::routes::Table;

/// The rejection of a definition whose triggers exceed the quota of subscriptions.
const TRIGGER_QUOTA: &str =
    "`QUOTA_REACHED`: with the triggers of the definition, the workspace would have more than 10,000 subscriptions.";
/// The rejection of a save that exceeds the quota of workflows or of subscriptions.
const SAVE_QUOTA: &str = "`QUOTA_REACHED`: the workspace has 10,000 workflows, or would have more than 10,000 \
                          subscriptions with the triggers of the definition.";
/// The rejection of a request whose style is not that of the workflow.
const STYLE_CONFLICT: &str = "`WORKFLOW_STYLE_CONFLICT`: the workflow has another style; code has no definition.";
const ACTIVE_VERSION_ETAG: &str = "The active version, for `If-Match`.";

pub(crate) fn add(table: Table) -> Table {
    table
        .path_parameter("workflows", Parameter::pattern(
                "name",
                "^[a-z0-9][a-z0-9_-]{0,127}$",
                "The workflow's name: 1 to 128 lowercase letters, digits, `_` or `-`, beginning with a letter or digit.",
            ))
        .guarded(
            Read,
            Method::GET,
            "/v1/workflows",
            doc("workflows", "List workflows")
                .about("By name, with the number of runs of each in each status.")
                .query(super::PAGE_PARAMETERS)
                .answers::<Vec<WorkflowSummary>>(200)
                .with_header("Link", "The next page, `rel=\"next\"`; missing on the last one."),
            super::list,
        )
        .guarded(
            Publish,
            Method::POST,
            "/v1/workflows",
            doc("workflows", "Create a workflow")
                .about(
                    "Saves the first version. No workflow with that name may exist, with one exception: with an \
                     `Idempotency-Key`, a workflow whose newest version has the same definition counts as the result \
                     of an earlier request, and the response is 200. The key itself is not stored.",
                )
                .keyed()
                .takes::<NewWorkflow>()
                .example(json!({"name": "order", "definition": super::example()}))
                .answers::<Workflow>(201)
                .with_header("Location", "The path of the workflow.")
                .with_header("ETag", ACTIVE_VERSION_ETAG)
                .answers::<Workflow>(200)
                .refuses(409, "`WORKFLOW_EXISTS`: a workflow with that name exists.")
                .refuses(409, STYLE_CONFLICT)
                .refuses(409, SAVE_QUOTA),
            super::create,
        )
        .guarded(
            Read,
            Method::POST,
            "/v1/workflows/validate",
            doc("workflows", "Validate a definition")
                .about(
                    "Reports all problems of a definition, without saving it. Any JSON is accepted. A caller without \
                     `workflow:publish` can send at most 1 MiB.",
                )
                .takes::<Json>()
                .example(super::example())
                .answers::<Validation>(200),
            super::validate,
        )
        .guarded(
            Publish,
            Method::POST,
            "/v1/workflows/import",
            doc("workflows", "Import a workflow")
                .about(
                    "Saves an exported document: a new workflow, or another version of one. A definition that equals \
                     the newest version adds no version.",
                )
                .query(super::IMPORT_PARAMETERS)
                .takes::<Portable>()
                .example(json!({
                    "everstep": 1, "kind": "workflow", "name": "order", "definition": super::example(),
                }))
                .answers::<Workflow>(201)
                .with_header("Location", "The path of the workflow.")
                .with_header("ETag", ACTIVE_VERSION_ETAG)
                .answers::<Workflow>(200)
                .refuses(409, STYLE_CONFLICT)
                .refuses(409, SAVE_QUOTA),
            super::import,
        )
        .guarded(
            Publish,
            Method::PUT,
            "/v1/workflows/{name}",
            doc("workflows", "Save a workflow")
                .about(
                    "Saves a definition as a version; 201 if the workflow is new. A definition that equals the \
                     newest version adds no version.",
                )
                .query(super::ACTIVATE_PARAMETERS)
                .matched()
                .takes::<Definition>()
                .example(super::example())
                .answers::<Workflow>(201)
                .with_header("Location", "The path of the workflow.")
                .with_header("ETag", ACTIVE_VERSION_ETAG)
                .answers::<Workflow>(200)
                .with_header("ETag", ACTIVE_VERSION_ETAG)
                .refuses(409, STYLE_CONFLICT)
                .refuses(409, SAVE_QUOTA),
            super::put,
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/workflows/{name}",
            doc("workflows", "Get a workflow")
                .query(super::VERSION_PARAMETERS)
                .answers::<Workflow>(200)
                .with_header("ETag", ACTIVE_VERSION_ETAG),
            super::get,
        )
        .guarded(
            Publish,
            Method::DELETE,
            "/v1/workflows/{name}",
            doc("workflows", "Delete a workflow")
                .about("Deletes the workflow with all its versions. A later workflow with the same name continues the version numbers.")
                .answers_nothing(204)
                .refuses(409, "`WORKFLOW_IN_USE`: `runs` of its runs have not ended."),
            super::delete,
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/workflows/{name}/versions",
            doc("workflows", "List the versions of a workflow")
                .about("Newest first.")
                .query(super::VERSIONS_PARAMETERS)
                .answers::<Versions>(200),
            super::list_versions,
        )
        .guarded(
            Publish,
            Method::POST,
            "/v1/workflows/{name}/activate",
            doc("workflows", "Activate a version of a workflow")
                .about("New runs use this version from now on, on every node at once.")
                .matched()
                .takes::<Activate>()
                .example(json!({"version": 1}))
                .answers::<Workflow>(200)
                .with_header("ETag", ACTIVE_VERSION_ETAG)
                .refuses(409, TRIGGER_QUOTA),
            super::activate,
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/workflows/{name}/export",
            doc("workflows", "Export a workflow")
                .about("A version as a document that any server can import.")
                .query(super::VERSION_PARAMETERS)
                .answers::<Exported>(200)
                .with_header("Content-Disposition", "The file name.")
                .refuses(409, STYLE_CONFLICT),
            super::export,
        )
        .guarded(
            Publish,
            Method::POST,
            "/v1/workflows/{name}/clone",
            doc("workflows", "Clone a workflow")
                .about(
                    "Saves a version as the first version of another workflow. The `Idempotency-Key` has the same \
                     effect as for creating a workflow.",
                )
                .keyed()
                .takes::<Clone>()
                .example(json!({"name": "order-copy"}))
                .answers::<Workflow>(201)
                .with_header("Location", "The path of the workflow.")
                .with_header("ETag", ACTIVE_VERSION_ETAG)
                .answers::<Workflow>(200)
                .refuses(409, "`WORKFLOW_EXISTS`: a workflow with that name exists.")
                .refuses(409, STYLE_CONFLICT)
                .refuses(409, SAVE_QUOTA),
            super::clone,
        )
}
