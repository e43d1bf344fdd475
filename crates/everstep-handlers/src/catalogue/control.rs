//! The kinds that the core performs itself. The core defines the meaning of their configs; a test compares both.

use everstep_core::topics::TOPIC_BYTES_MAX;
use serde_json::{Value, json};

use super::entry::{CatalogueEntry, Handle, TIMEOUT_SECONDS_MAX, Timeout, defaults};
use crate::handler::Example;

pub(super) fn entries() -> Vec<CatalogueEntry> {
    vec![start(), end(), condition(), transform(), delay(), wait(), publish(), workflow(), repeat(), scope()]
}

/// The common fields of all of them.
fn entry(name: &str, title: &str, icon: &str, summary: &str, schema: Value) -> CatalogueEntry {
    CatalogueEntry {
        name: name.to_owned(),
        title: title.to_owned(),
        group: "Flow".to_owned(),
        icon: icon.to_owned(),
        summary: summary.to_owned(),
        handles: Vec::new(),
        handles_from: Vec::new(),
        default_handle: None,
        output: String::new(),
        output_variable: None,
        can_retry: false,
        timeout: None,
        defaults: defaults(&schema),
        schema,
        examples: Vec::new(),
        is_internal: false,
    }
}

fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {},
        "required": required,
        "additionalProperties": false,
    });
    schema["properties"] = properties;
    schema
}

/// Any JSON except null, with expressions in it.
fn anything(description: &str) -> Value {
    json!({"type": ["string", "number", "boolean", "array", "object"], "description": description})
}

fn failed() -> Handle {
    Handle::new("error", "The step failed after its last attempt.")
}

fn start() -> CatalogueEntry {
    CatalogueEntry {
        handles: vec![Handle::new("output", "The run has begun.")],
        default_handle: Some("output".to_owned()),
        output: "`{started: true, inputReceived}`.".to_owned(),
        examples: vec![Example::new("The beginning of a run", json!({}))],
        ..entry(
            "start",
            "Start",
            "play",
            "The node at which a run begins; a graph has exactly one.",
            object(json!({}), &[]),
        )
    }
}

fn end() -> CatalogueEntry {
    let parameter = object(
        json!({
            "name": {"type": "string", "minLength": 1, "description": "The name in the run's output."},
            "sourceVariable": anything("Its value, usually an expression."),
        }),
        &["name", "sourceVariable"],
    );
    let schema = object(
        json!({
            "outputParameters": {
                "type": "array",
                "items": inner(parameter),
                "description": "The run's output, by name. Each name occurs once.",
            },
            "status": {
                "type": "string",
                "enum": ["success", "error", "failure"],
                "default": "success",
                "description": "`error` and `failure` fail the run.",
            },
            "terminate": {
                "type": "boolean",
                "default": false,
                "description": "Ends the run at once, even if other steps are open.",
            },
        }),
        &[],
    );
    let summary = "A node at which a run may end; a run may reach several, and their outputs are merged in the order of \
         completion.";
    CatalogueEntry {
        output: "`{status, workflowOutput, completedAt}`; `workflowOutput` is the run's output.".to_owned(),
        examples: vec![
            Example::new(
                "Return two values of the input",
                json!({"outputParameters": [
                    {"name": "customer", "sourceVariable": "{{ctx.input.customer}}"},
                    {"name": "total", "sourceVariable": {"$expr": "ctx.input.price * ctx.input.count"}},
                ]}),
            ),
            Example::new("Fail the run at once", json!({"status": "error", "terminate": true})),
        ],
        ..entry("end", "End", "flag", summary, schema)
    }
}

fn condition() -> CatalogueEntry {
    let operators = [
        "equals",
        "not_equals",
        "contains",
        "not_contains",
        "starts_with",
        "ends_with",
        "greater_than",
        "less_than",
        "greater_or_equal",
        "less_or_equal",
        "is_empty",
        "is_not_empty",
        "matches_regex",
        "expression",
    ];
    let mut comparison = object(
        json!({
            "leftValue": {"description": "Any JSON with expressions in it; with `expression`, the expression itself."},
            "operator": {
                "type": "string",
                "enum": operators,
                "description": "`equals` and similar operators compare as text, `greater_than` and the other orderings as \
                     numbers.",
            },
            "rightValue": {"description": "Any JSON with expressions in it."},
        }),
        &["operator"],
    );
    comparison["if"] = json!({"properties": {"operator": {"const": "expression"}}, "required": ["operator"]});
    comparison["then"] =
        json!({"properties": {"leftValue": {"type": "string", "minLength": 1}}, "required": ["leftValue"]});
    let mut branch = object(
        json!({
            "id": {
                "type": "string",
                "minLength": 1,
                "not": {"const": "error", "description": "`error` is reserved for the handle of a failed node"},
                "description": "The branch's handle. Each id occurs once.",
            },
            "label": {"type": "string", "description": "For people."},
            "conditionLogic": {
                "type": "string",
                "enum": ["AND", "OR"],
                "default": "AND",
                "description": "Whether all conditions must be true, or at least one.",
            },
            "conditions": {"type": "array", "items": inner(comparison), "description": "The comparisons of the branch."},
            "expression": {
                "type": "string",
                "minLength": 1,
                "description": "An expression in place of `conditions`, with or without braces.",
            },
            "condition": {"type": "string", "minLength": 1, "deprecated": true, "description": "As `expression`."},
        }),
        &["id"],
    );
    branch["oneOf"] = json!([{"required": ["conditions"]}, {"required": ["expression"]}, {"required": ["condition"]}]);
    let schema = object(
        json!({
            "branches": {
                "type": "array",
                "minItems": 1,
                "items": inner(branch),
                "description": "The branches, in the order in which they are evaluated.",
            },
            "defaultBranch": {
                "type": "string",
                "default": "default",
                "not": {"const": "error", "description": "`error` is reserved for the handle of a failed node"},
                "description": "The handle if no branch is true.",
            },
        }),
        &["branches"],
    );
    CatalogueEntry {
        handles: vec![Handle::new("default", "No branch is true; `defaultBranch` renames this handle."), failed()],
        handles_from: vec!["/branches/*/id".to_owned(), "/defaultBranch".to_owned()],
        output: "`{branch}`, the selected handle.".to_owned(),
        examples: vec![
            Example::new(
                "Two branches, one by comparison and one by an expression",
                json!({"branches": [
                    {"id": "large", "label": "Large order", "conditions": [
                        {"leftValue": "{{ctx.input.total}}", "operator": "greater_than", "rightValue": 1000},
                    ]},
                    {"id": "vip", "expression": "ctx.input.customer.vip and ctx.input.total > 100"},
                ]}),
            ),
            Example::new(
                "One of two conditions, with another name for the default",
                json!({
                    "branches": [{"id": "home", "conditionLogic": "OR", "conditions": [
                        {"leftValue": "{{ctx.input.country}}", "operator": "equals", "rightValue": "NL"},
                        {"leftValue": "{{ctx.input.email}}", "operator": "ends_with", "rightValue": ".nl"},
                    ]}],
                    "defaultBranch": "abroad",
                }),
            ),
        ],
        ..entry(
            "condition",
            "Condition",
            "split",
            "Selects the first branch whose condition is true, or else the default.",
            schema,
        )
    }
}

fn transform() -> CatalogueEntry {
    let schema = object(json!({"value": anything("Any JSON with expressions in it.")}), &["value"]);
    CatalogueEntry {
        group: "Data".to_owned(),
        handles: vec![Handle::new("success", "The value was computed."), failed()],
        default_handle: Some("success".to_owned()),
        output: "The value.".to_owned(),
        output_variable: Some("transformResult".to_owned()),
        examples: vec![
            Example::new(
                "Create an object",
                json!({"value": {
                    "name": "{{ctx.input.first}} {{ctx.input.last}}",
                    "total": {"$expr": "ctx.input.price * ctx.input.count"},
                }}),
            ),
            Example::new("Select one value", json!({"value": "{{ctx.input.order.lines}}"})),
        ],
        ..entry("transform", "Transform", "shuffle", "Computes a value from other values.", schema)
    }
}

fn delay() -> CatalogueEntry {
    let mut schema = object(
        json!({
            "delayType": {
                "type": "string",
                "enum": ["fixed", "dynamic", "until"],
                "default": "fixed",
                "description": "Which of the other fields determine the duration.",
            },
            "delayMinutes": {
                "type": "integer", "minimum": 0, "maximum": 1440,
                "description": "With `fixed`: minutes, added to the seconds and milliseconds.",
            },
            "delaySeconds": {"type": "integer", "minimum": 0, "maximum": 59, "description": "With `fixed`: seconds."},
            "delayMs": {"type": "integer", "minimum": 0, "maximum": 999, "description": "With `fixed`: milliseconds."},
            "delayVariable": anything("With `dynamic`: milliseconds, usually an expression."),
            "untilTime": anything("With `until`: an RFC 3339 time, or an expression for one."),
        }),
        &[],
    );
    let without = |fields: &[&str]| {
        let shapes: Vec<_> = fields.iter().map(|field| json!({"required": [field]})).collect();
        json!({"not": {"anyOf": shapes, "description": "a field has no effect with this delayType"}})
    };
    let idle = json!({"properties": {
        "delayMinutes": {"const": 0}, "delaySeconds": {"const": 0}, "delayMs": {"const": 0},
    }});
    let is = |name: &str| json!({"properties": {"delayType": {"const": name}}, "required": ["delayType"]});
    schema["if"] = is("dynamic");
    schema["then"] = json!({"required": ["delayVariable"], "allOf": [without(&["untilTime"]), idle]});
    schema["else"] = json!({
        "if": is("until"),
        "then": {"required": ["untilTime"], "allOf": [without(&["delayVariable"]), idle]},
        "else": {
            "allOf": [
                without(&["delayVariable", "untilTime"]),
                {"anyOf": [{"required": ["delaySeconds"]}, {"required": ["delayMinutes"]}, {"required": ["delayMs"]}]},
                {
                    "if": {"properties": {"delayMinutes": {"const": 1440}}, "required": ["delayMinutes"]},
                    "then": {"properties": {"delaySeconds": {"const": 0}, "delayMs": {"const": 0}}},
                },
            ],
        },
    });
    let summary = "Waits for a time, up to 24 hours, without using memory or a thread.";
    CatalogueEntry {
        handles: vec![Handle::new("output", "The time has passed."), failed()],
        default_handle: Some("output".to_owned()),
        output: "Nothing.".to_owned(),
        examples: vec![
            Example::new("A minute and a half", json!({"delayMinutes": 1, "delaySeconds": 30})),
            Example::new(
                "The duration that the input contains",
                json!({"delayType": "dynamic", "delayVariable": "{{ctx.input.waitMs}}"}),
            ),
            Example::new("Until a time", json!({"delayType": "until", "untilTime": "{{ctx.input.dueAt}}"})),
        ],
        ..entry("delay", "Delay", "clock", summary, schema)
    }
}

fn wait() -> CatalogueEntry {
    let mut schema = object(
        json!({
            "event": {
                "type": "string", "minLength": 1,
                "not": {"pattern": RESERVED, "description": RESERVED_MESSAGE},
                "description": "The name of the signal, or the topic of the published event, that the node waits for.",
            },
            "approval": {
                "type": "string", "minLength": 1,
                "not": {"pattern": RESERVED, "description": RESERVED_MESSAGE},
                "description": "In place of `event`: the name of a signal whose payload contains `approved`, true or false.",
            },
            "match": {
                "type": "object", "default": {},
                "description": "The fields that the signal or the data of the event must contain; it may contain more.",
            },
            "sinceSeconds": {
                "type": "integer", "minimum": 1, "maximum": 7_776_000,
                "description": "The node also accepts an event that was published at most this many seconds before.",
            },
            "sinceStart": {
                "type": "boolean", "default": false,
                "description": "The node also accepts an event that was published since the run started.",
            },
            "timeoutSeconds": timeout("How long the node waits, in seconds; without it there is no limit."),
        }),
        &[],
    );
    schema["oneOf"] = json!([{"required": ["event"]}, {"required": ["approval"]}]);
    let since_start = json!({"sinceStart": {"const": true}});
    let one_look_back = "a wait has either `sinceStart` or `sinceSeconds`";
    let no_look_back = "an approval accepts no events: it has no look-back";
    schema["allOf"] = json!([
        {"not": {"required": ["sinceSeconds", "sinceStart"], "properties": since_start, "description": one_look_back}},
        {"not": {"required": ["approval", "sinceSeconds"], "description": no_look_back}},
        {"not": {"required": ["approval", "sinceStart"], "properties": since_start, "description": no_look_back}},
    ]);
    CatalogueEntry {
        handles: vec![
            Handle::new("success", "The signal or the event arrived; for an approval: it is approved."),
            Handle::new("rejected", "For an approval: it is not approved."),
            Handle::new("timeout", "Neither a signal nor an event arrived in time."),
            failed(),
        ],
        default_handle: Some("success".to_owned()),
        output: "The payload of the signal, the data of the event, or `{timeout: true}`.".to_owned(),
        output_variable: Some("waitResult".to_owned()),
        timeout: Some(Timeout { default_seconds: None, longest_seconds: TIMEOUT_SECONDS_MAX }),
        examples: vec![
            Example::new(
                "Wait for the payment of one order, at most a day",
                json!({"event": "order.paid", "match": {"orderId": "{{ctx.input.orderId}}"}, "timeoutSeconds": 86400}),
            ),
            Example::new(
                "Accept an event that was published since the run started",
                json!({"event": "user.verified", "match": {"userId": "{{ctx.input.userId}}"}, "sinceStart": true}),
            ),
            Example::new(
                "Request an approval",
                json!({"approval": "order.approval", "match": {"orderId": "{{ctx.input.orderId}}"}}),
            ),
        ],
        ..entry(
            "wait",
            "Wait",
            "hourglass",
            "Waits for a signal, for a published event, or for an approval by a person.",
            schema,
        )
    }
}

/// Names that are reserved for the server.
const RESERVED: &str = r"^(@|everstep(\.|$))";
const RESERVED_MESSAGE: &str = "names that begin with `@` or `everstep.` are reserved";

fn publish() -> CatalogueEntry {
    let segment = "[A-Za-z0-9_:/-]{1,64}";
    let text = |description: &str| json!({"type": "string", "minLength": 1, "description": description});
    let schema = object(
        json!({
            "topic": {
                "type": "string",
                "anyOf": [
                    {"pattern": r"\{\{"},
                    {
                        "maxLength": TOPIC_BYTES_MAX,
                        "pattern": format!(r"^{segment}(\.{segment}){{0,15}}$"),
                        "not": {"pattern": RESERVED, "description": RESERVED_MESSAGE},
                    },
                ],
                "description": "The topic: 1 to 16 segments with dots between them, such as `order.paid`.",
            },
            "data": {"description": "The data of the event: any JSON with expressions in it."},
            "id": text(
                "The id of the event. A run publishes an id once: a repetition with the same topic, data and subject \
                 publishes nothing, and any other fails the step. Default: the key of the step.",
            ),
            "subject": text("What the event is about, such as the number of an order; for people and for filters."),
        }),
        &["topic"],
    );
    CatalogueEntry {
        group: "Events".to_owned(),
        handles: vec![Handle::new("success", "The event is published."), failed()],
        default_handle: Some("success".to_owned()),
        output:
            "`{id, topic, created}` of the event; `created` is false if the run has published it under the same id \
                 before."
                .to_owned(),
        output_variable: Some("publishResult".to_owned()),
        examples: vec![
            Example::new(
                "Publish a fact with its data",
                json!({"topic": "order.paid", "data": {"orderId": "{{ctx.input.orderId}}"}}),
            ),
            Example::new(
                "A topic that the input determines, with an id",
                json!({"topic": "order.{{ctx.input.kind}}", "id": "{{ctx.input.orderId}}", "subject": "orders"}),
            ),
        ],
        ..entry(
            "publish",
            "Publish",
            "radio",
            "Publishes an event, which starts the subscribed workflows and continues the runs that wait for it.",
            schema,
        )
    }
}

fn timeout(description: &str) -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": TIMEOUT_SECONDS_MAX, "description": description})
}

fn workflow() -> CatalogueEntry {
    let mut schema = object(
        json!({
            "workflow": {
                "type": "string",
                "pattern": "^[a-z0-9][a-z0-9_-]{0,127}$",
                "description": "The name of the workflow.",
            },
            "version": {
                "type": "integer", "minimum": 1, "maximum": u32::MAX,
                "description": "Its version; without it, the version that is active when the child starts.",
            },
            "input": {"default": {}, "description": "The child's input: any JSON with expressions in it."},
            "wait": {
                "type": "boolean", "default": true,
                "description": "Whether the node waits for the end of the child. Otherwise the child is independent.",
            },
            "timeoutSeconds": timeout("How long the node waits for the child, in seconds; without it there is no limit."),
        }),
        &["workflow"],
    );
    schema["if"] = json!({"properties": {"wait": {"const": false}}, "required": ["wait"]});
    let not = json!({"required": ["timeoutSeconds"], "description": "timeoutSeconds has no effect if `wait` is false"});
    schema["then"] = json!({"not": not});
    let summary = "Runs another workflow as a child run, and waits for its end or continues.";
    CatalogueEntry {
        handles: vec![
            Handle::new("success", "The child completed; with `wait: false` it has started."),
            Handle::new("error", "The child failed, was cancelled or did not end in time."),
        ],
        default_handle: Some("success".to_owned()),
        output: "The child's output, or `{runId}` with `wait: false`.".to_owned(),
        output_variable: Some("workflowResult".to_owned()),
        can_retry: true,
        timeout: Some(Timeout { default_seconds: None, longest_seconds: TIMEOUT_SECONDS_MAX }),
        examples: vec![
            Example::new(
                "Run a child and wait for its output",
                json!({"workflow": "send-invoice", "input": {"orderId": "{{ctx.input.orderId}}"}, "timeoutSeconds": 600}),
            ),
            Example::new(
                "Start a child of one version and continue",
                json!({"workflow": "audit", "version": 3, "wait": false}),
            ),
        ],
        ..entry("workflow", "Workflow", "workflow", summary, schema)
    }
}

fn repeat() -> CatalogueEntry {
    let variable = |default: &str, description: &str| {
        json!({
            "type": "string",
            "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,99}$",
            "not": {"pattern": "^(__|input$)", "description": "a variable does not begin with `__`, and `input` is reserved"},
            "default": default,
            "description": description,
        })
    };
    let schema = object(
        json!({
            "sourceVariable": anything("The items: an array, or an expression for one. Any other value is one item."),
            "itemVariable": variable("item", "The variable for the item in the body."),
            "indexVariable": variable("index", "The variable for its index, which begins with 0."),
            "maxIterations": {
                "type": "integer", "minimum": 1, "maximum": 100_000, "default": 1_000,
                "description": "The loop fails if there are more items.",
            },
            "concurrency": {
                "type": "integer", "minimum": 1, "maximum": 10_000, "default": 1,
                "description": "The number of iterations that run at the same time.",
            },
            "delayBetweenItems": {
                "type": "integer", "minimum": 0, "maximum": 60_000, "default": 0,
                "description": "Milliseconds between the starts of iterations.",
            },
            "onItemError": {
                "type": "string", "enum": ["fail", "continue"], "default": "fail",
                "description": "Whether a failed iteration fails the loop. Otherwise its result is null.",
            },
        }),
        &["sourceVariable"],
    );
    CatalogueEntry {
        handles: vec![
            Handle::new("loop", "Leads into the body, once per item."),
            Handle::new("done", "All items have ended."),
            Handle::new("error", "An iteration failed, or there are too many items."),
        ],
        output: "An array of the outputs of the body's last node, in the order of the items.".to_owned(),
        output_variable: Some("loopResults".to_owned()),
        examples: vec![
            Example::new(
                "One after the other",
                json!({"sourceVariable": "{{ctx.input.orders}}", "itemVariable": "order"}),
            ),
            Example::new(
                "Ten at the same time, and continue when one fails",
                json!({"sourceVariable": "{{ctx.input.urls}}", "concurrency": 10, "onItemError": "continue"}),
            ),
        ],
        ..entry("loop", "Loop", "repeat", "Runs its body once per item.", schema)
    }
}

fn scope() -> CatalogueEntry {
    let summary = "Runs its body once and catches its first failure.";
    CatalogueEntry {
        handles: vec![
            Handle::new("body", "Leads into the body."),
            Handle::new("success", "The body has ended."),
            Handle::new("error", "A node of the body failed; the variable contains `{error: {code, message}}`."),
        ],
        default_handle: Some("success".to_owned()),
        output: "The output of the body's last node.".to_owned(),
        output_variable: Some("scopeResult".to_owned()),
        examples: vec![Example::new("Catch a failure in the body", json!({}))],
        ..entry("scope", "Scope", "brackets", summary, object(json!({}), &[]))
    }
}

/// A schema inside another one.
fn inner(mut schema: Value) -> Value {
    if let Some(object) = schema.as_object_mut() {
        object.shift_remove("$schema");
    }
    schema
}
