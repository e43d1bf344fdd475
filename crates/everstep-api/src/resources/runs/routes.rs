//! The routes of runs.

use axum::http::Method;
use serde_json::json;

use super::control::{self, ControlRequest, control};
use super::wire::{
    Action, Batch, Bulk, Cancel, Context, Control, Fork, Forked, Gathered, JournalView, Logs, OfWorkflow, Outcome, Run,
    Runs, Started, StartedBatch, StepDetail, Steps, TestRun, UnreadableRun, Viewed, WaitingRuns,
};
use super::{bulk, context, fork, journal, list, logs, show, start, step, steps, test, view, wait, wire};
use crate::auth::Access;
use crate::auth::Permission::{Manage, Publish, View};
use crate::http::openapi::{Doc, Parameter, doc};
use crate::http::schema::Json;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    steering(of_workflows(table))
}

fn steps_doc(summary: &'static str) -> Doc {
    doc("runs", summary)
        .about("The journal, folded into steps with their attempts and times, in the order in which they began.")
        .query(steps::PAGE)
        .answers::<Steps>(200)
}

fn run_doc(summary: &'static str) -> Doc {
    doc("runs", summary).query(show::WAIT).answers::<Run>(200).with_header("ETag", "The run's version, for `If-Match`.")
}

fn signal_doc(summary: &'static str) -> Doc {
    doc("runs", summary)
        .about("The body is the payload of the signal: any JSON, or none.")
        .query(control::BUFFER)
        .keyed()
        .matched()
        .may_take::<Json>()
        .answers::<Outcome>(200)
}

/// Runs under the path of their workflow.
fn of_workflows(table: Table) -> Table {
    table
        .path_parameter("runs", Parameter::id("id", "The run's id."))
        .path_parameter("test-runs", Parameter::id("id", "The test run's id."))
        .path_parameter("steps", Parameter::sized("key", 1, 4_096, "The step's key, percent-encoded: `each[3].fetch`."))
        .path_parameter("signals", Parameter::sized("event", 1, 256, "The signal's name."))
        .guarded(
            View,
            Method::GET,
            "/v1/workflows/{name}/runs",
            doc("runs", "List the runs of a workflow")
                .about("Newest first. Paging is by keyset: runs created while you page do not shift later pages.")
                .query(list::FILTERS_OF_WORKFLOW)
                .answers::<Runs>(200),
            list::list_of_workflow,
        )
        .guarded(
            Access::OrAct(View),
            Method::GET,
            "/v1/workflows/{name}/runs/{id}",
            run_doc("Get a run of a workflow"),
            show::get_of_workflow,
        )
        .guarded(
            Manage,
            Method::DELETE,
            "/v1/workflows/{name}/runs/{id}",
            doc("runs", "Cancel a run of a workflow").keyed().matched().answers::<Outcome>(200),
            control::cancel_of_workflow,
        )
        .guarded(
            View,
            Method::GET,
            "/v1/workflows/{name}/runs/{id}/steps",
            steps_doc("List the steps of a run of a workflow"),
            steps::of_workflow,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/workflows/{name}/runs/{id}/signals/{event}",
            signal_doc("Signal a run of a workflow"),
            control::signal_of_workflow,
        )
        .guarded(
            Access::OrAct(Manage),
            Method::POST,
            "/v1/workflows/{name}/runs",
            doc("runs", "Start a run")
                .about(
                    "The workflow is a saved definition, or one written as code that a worker has registered at any \
                     time: if no worker serves it now, the run waits for one, and `warning` says so. Any other name \
                     is rejected, and the hint contains a similar one, unless `allowUnserved` is true. The idempotency \
                     key belongs to the workflow: two workflows may use the same. A state machine with `start.require` \
                     can be started by the callers that it admits, and by no others.",
                )
                .keyed()
                .query(show::WAIT)
                .may_take::<OfWorkflow>()
                .answers::<Started>(201)
                .with_header("Location", "The path of the run.")
                .answers::<Started>(200)
                .with_header("Location", "The path of the run.")
                .refuses(404, start::NOT_FOUND),
            start::of_workflow,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/workflows/{name}/runs/batch",
            doc("runs", "Start a batch of runs")
                .about(
                    "At most 1,000 starts; each is started or rejected separately, and the results have the same \
                     order. 207 means that not all were started. Each has its own `idempotencyKey`: the header \
                     `Idempotency-Key` is rejected.",
                )
                .takes::<Batch>()
                .example(json!({"runs": [{"input": {"amount": 20}}, {"idempotencyKey": "order-17"}]}))
                .answers::<StartedBatch>(200)
                .answers::<StartedBatch>(207),
            start::batch,
        )
        .guarded(
            Access::OrAct(Manage),
            Method::POST,
            "/v1/workflow-runs",
            start::of_definition_doc("Start a run of a definition"),
            start::of_definition,
        )
        .guarded(
            Access::OrAct(Manage),
            Method::POST,
            "/api/v1/workflow-runs",
            start::of_definition_doc("Start a run of a definition (alias)"),
            start::of_definition,
        )
        .guarded(
            View,
            Method::GET,
            "/v1/runs",
            doc("runs", "List runs")
                .about("Newest first. Paging is by keyset: runs created while you page do not shift later pages.")
                .query(list::FILTERS)
                .answers::<Runs>(200),
            list::list,
        )
        .guarded(
            Access::OrAct(View),
            Method::GET,
            "/v1/runs/wait",
            doc("runs", "Wait for runs")
                .about(
                    "Server-sent events: `waiting` at once, then a `run` when it has ended or is paused, or \
                     `unreadable` with the reason. The response ends after the last run or after `waitSeconds`; \
                     request the other runs again.",
                )
                .query(wait::PARAMETERS)
                .sends(200, "text/event-stream")
                .with_event::<WaitingRuns>("waiting", "the number of runs; the first event.")
                .with_event::<Run>("run", "a run that has ended or is paused.")
                .with_event::<UnreadableRun>("unreadable", "a run that does not exist, or that cannot be read.")
                .refuses(
                    429,
                    "`TOO_MANY_STREAMS`: the API key or the workspace has the maximum number of open streams.",
                ),
            wait::wait,
        )
        .guarded(Access::OrAct(View), Method::GET, "/v1/runs/{id}", run_doc("Get a run"), show::get)
        .guarded(View, Method::GET, "/v1/runs/{id}/steps", steps_doc("List the steps of a run"), steps::get)
        .guarded(
            View,
            Method::GET,
            "/v1/runs/{id}/steps/{key}",
            doc("runs", "Get a step of a run")
                .about(
                    "One step with the values of one attempt: its config, the input that its handler received, its \
                     output and its log lines.",
                )
                .query(step::SELECTION)
                .answers::<StepDetail>(200),
            step::get,
        )
        .guarded(
            View,
            Method::GET,
            "/v1/runs/{id}/context",
            doc("runs", "Get the context of a run")
                .about("The variables of its steps, as they were after an entry of the journal.")
                .query(context::AT)
                .answers::<Context>(200),
            context::get,
        )
        .guarded(
            View,
            Method::GET,
            "/v1/runs/{id}/logs",
            doc("runs", "List the log lines of a run")
                .about("The log lines of its steps, in the order in which their attempts ended.")
                .query(logs::PARAMETERS)
                .answers::<Logs>(200),
            logs::get,
        )
        .guarded(
            View,
            Method::POST,
            "/v1/runs/{id}/view",
            doc("runs", "Get a view of a run")
                .about("The run, and the requested fields of its output when it has completed.")
                .may_take::<wire::View>()
                .answers::<Viewed>(200),
            view::post,
        )
        .guarded(
            View,
            Method::GET,
            "/v1/runs/{id}/journal",
            doc("runs", "List the journal entries of a run")
                .about(
                    "The entries of the journal, in order. With `view=heads` they have no values, and contain the \
                     updates of the run and its steps.",
                )
                .query(journal::PAGE)
                .answers::<JournalView>(200),
            journal::get,
        )
        .guarded(Manage, Method::POST, "/v1/runs/{id}/signals/{event}", signal_doc("Signal a run"), control::signal)
        .guarded(
            Manage,
            Method::POST,
            "/v1/runs/{id}/cancel",
            doc("runs", "Cancel a run").keyed().matched().may_take::<Cancel>().answers::<Outcome>(200),
            |request: ControlRequest| control(Action::Cancel, request),
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/runs/{id}/pause",
            doc("runs", "Pause a run")
                .about("The engine dispatches no further step until the run is resumed.")
                .keyed()
                .matched()
                .may_take::<Control>()
                .answers::<Outcome>(200),
            |request: ControlRequest| control(Action::Pause, request),
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/runs/{id}/resume",
            doc("runs", "Resume a run").keyed().matched().may_take::<Control>().answers::<Outcome>(200),
            |request: ControlRequest| control(Action::Resume, request),
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/runs/{id}/retry",
            doc("runs", "Retry a run")
                .about("Retries the failed steps of a failed run.")
                .keyed()
                .matched()
                .may_take::<Control>()
                .answers::<Outcome>(200),
            |request: ControlRequest| control(Action::Retry, request),
        )
}

/// Operations on whole runs.
fn steering(table: Table) -> Table {
    table
        .guarded(
            Manage,
            Method::POST,
            "/v1/runs/{id}/fork",
            doc("runs", "Fork a run")
                .about(
                    "A new run that continues from the state of this one after an entry. Steps in progress are \
                     performed again; waits and delays end at their original times. External effects of the original \
                     run are not undone.",
                )
                .keyed()
                .may_take::<Fork>()
                .answers::<Forked>(201)
                .with_header("Location", "The path of the new run.")
                .answers::<Forked>(200)
                .with_header("Location", "The path of the new run.")
                .refuses(
                    409,
                    "`RUN_ENDED`: the run had ended by then; `hint` contains the last entry at which it can be \
                     forked.",
                ),
            fork::post,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/runs/bulk",
            doc("runs", "Control runs in bulk")
                .about(
                    "Cancels, pauses, resumes or retries every run that a filter selects, at most 10,000 per call. \
                     The idempotency key applies to every run separately.",
                )
                .keyed()
                .takes::<Bulk>()
                .example(
                    json!({"action": "cancel", "filter": {"workflow": "order", "status": "waiting"}, "dryRun": true}),
                )
                .answers::<Gathered>(200),
            bulk::post,
        )
        .guarded(
            Publish,
            Method::POST,
            "/v1/test-runs",
            doc("runs", "Start a test run")
                .about(
                    "Runs a definition that is not saved. The run is neither listed nor counted, and is deleted an \
                     hour after its end.",
                )
                .takes::<TestRun>()
                .example(json!({
                    "definition": {
                        "nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}],
                        "edges": [{"source": "start", "target": "end"}],
                    },
                    "input": {},
                }))
                .answers::<Started>(201)
                .with_header("Location", "The path of the run."),
            test::post,
        )
        .guarded(
            Publish,
            Method::DELETE,
            "/v1/test-runs/{id}",
            doc("runs", "Delete a test run")
                .about("Stops the run if it has not ended, then deletes it with its journal.")
                .answers_nothing(204)
                .refuses(409, "`NOT_A_TEST_RUN`: cancel other runs; they are deleted when their retention has passed."),
            test::delete,
        )
}
