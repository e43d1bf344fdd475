//! The JSON Schema (2020-12) of a machine's definition, for editors.
//!
//! It describes the current names of fields. The reader accepts two forms that the schema refuses: null for an absent
//! field, and a number as text. Apart from these the schema accepts every definition that the reader accepts. It refuses
//! the others as far as JSON Schema can express the rule. A test compares the two.

use serde_json::{Value, json};

use crate::definition::{DESCRIPTION_CHARS, NAME_CHARS};
use crate::journal::Delivery;
use crate::limits;
use crate::logic::operator::OPERATORS;
use crate::mail::{RECIPIENT_CHARS_MAX, SUBJECT_CHARS_MAX};
use crate::topics::{TRIGGERS_MAX, trigger_schema};

/// The schema of the definitions that the server accepts.
pub fn definition_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Everstep state machine",
        "description": "A workflow as states, and the actions of people and programs that lead from one to another.",
        "type": "object",
        "properties": {
            "$schema": {"type": "string", "description": "The address of this schema, for editors."},
            "workflow": {"type": "string", "maxLength": NAME_CHARS, "description": "The name of the workflow, for people."},
            "version": {
                "type": ["string", "number"], "maxLength": NAME_CHARS,
                "description": "A label of the version, for people. The server numbers the saved versions itself.",
            },
            "description": {"type": "string", "maxLength": DESCRIPTION_CHARS, "description": "What the workflow is for."},
            "contextSchema": context_schema(
                "The JSON Schema (2020-12) of the context, at most 64 KiB. A start is rejected if a given value does \
                 not fit, a person's transition also if a required field is missing.",
            ),
            "context_schema": context_schema("Another name of `contextSchema`."),
            "start": {"$ref": "#/$defs/start"},
            "trigger": {"$ref": "#/$defs/trigger", "description": "The only trigger of the workflow."},
            "triggers": {
                "type": "array", "maxItems": TRIGGERS_MAX, "items": {"$ref": "#/$defs/trigger"},
                "description": "The triggers of the workflow.",
            },
            "options": {"$ref": "#/$defs/options"},
            "states": {
                "type": "array",
                "maxItems": limits::MACHINE_STATES,
                "items": {"$ref": "#/$defs/state"},
                "contains": {"properties": {"initial": {"const": true}}, "required": ["initial"]},
                "maxContains": 1,
                "description": "The states, of which one is initial.",
            },
        },
        "required": ["states"],
        "not": {"required": ["trigger", "triggers"], "description": "a definition has either `trigger` or `triggers`"},
        "additionalProperties": false,
        "$defs": definitions(),
    })
}

/// The parts to which the schema refers.
fn definitions() -> Value {
    json!({
        "state": state(),
        "action": action(),
        "branch": branch(),
        "require": require(),
        "quorum": quorum(),
        "needs": needs(),
        "condition": condition(),
        "timer": timer(),
        "run": run(),
        "event": event(),
        "mail": mail(),
        "start": start(),
        "trigger": trigger_schema(),
        "options": options(),
        "retry": retry(),
        "secret": {
            "type": "object",
            "properties": {"$secret": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,128}$"}},
            "required": ["$secret"],
            "additionalProperties": false,
            "description": "The name of a secret of the workspace.",
        },
        "events": {
            "type": "array", "maxItems": limits::SIDE_EFFECTS, "items": {"$ref": "#/$defs/event"},
            "description": "Side effects, in their order.",
        },
        "set": {
            "type": "object",
            "maxProperties": limits::LISTED_NAMES,
            "propertyNames": {"$ref": "#/$defs/fieldName"},
            "description": "Fields of the context, and templates for their values.",
        },
        "paths": {
            "type": "array", "minItems": 1, "maxItems": limits::LISTED_NAMES,
            "items": {"type": "string", "maxLength": 256, "pattern": "^[^.]+(\\.[^.]+)*$"},
            "description": "Paths into the context, such as `order.total`.",
        },
        "persons": {
            "type": "array", "maxItems": limits::LISTED_NAMES, "items": {"$ref": "#/$defs/person"},
            "description": "A list of persons.",
        },
        "person": person(),
        "recipient": recipient(),
        "expression": expression(),
        "stateName": name("^[A-Za-z0-9_-]{1,64}$", "The name of a state."),
        "eventId": name("^[A-Za-z0-9_-]{1,64}$", "The id of a side effect."),
        "actionName": name("^[A-Za-z][A-Za-z0-9_-]{0,63}$", "The name of an action."),
        "fieldName": {
            "type": "string",
            "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,99}$",
            "not": {
                "pattern": "^(__|input$)",
                "description": "the name of a field does not begin with `__`, and is not `input`",
            },
            "description": "The name of a field of the context.",
        },
    })
}

fn context_schema(description: &str) -> Value {
    json!({"type": "object", "description": description})
}

fn name(pattern: &str, description: &str) -> Value {
    json!({"type": "string", "pattern": pattern, "description": description})
}

/// A reference, with the description of the field that it is for.
fn named(definition: &str, description: &str) -> Value {
    json!({"$ref": format!("#/$defs/{definition}"), "description": description})
}

fn title(description: &str) -> Value {
    json!({"type": "string", "maxLength": NAME_CHARS, "description": description})
}

fn state() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": named("stateName", "The name of the state; each is used once. Upper and lower case differ."),
            "initial": {"type": "boolean", "default": false, "description": "Whether a run starts in this state."},
            "terminal": {"type": "boolean", "default": false, "description": "Whether a run ends in this state."},
            "error": {
                "type": "boolean", "default": false,
                "description": "Of a terminal state: whether a run that ends in it has failed, with the code `END_ERROR`.",
            },
            "title": title("A title for people."),
            "description": {"type": "string", "maxLength": DESCRIPTION_CHARS, "description": "What the state is for."},
            "show": named(
                "paths",
                "The fields that are shown to the person who decides; the digest of their values is `shown`. Default: the whole \
                 context.",
            ),
            "assign": named("persons", "The persons to whom the state is assigned when it is entered."),
            "onStalemate": named(
                "actionName",
                "The action that the server performs if all voters have voted and no action has its quorum.",
            ),
            "on": {
                "type": "object",
                "maxProperties": limits::STATE_ACTIONS,
                "propertyNames": {"$ref": "#/$defs/actionName"},
                "additionalProperties": {"$ref": "#/$defs/action"},
                "description": "The actions of the state, by name. Upper and lower case differ.",
            },
            "after": {
                "type": "array", "maxItems": limits::STATE_TIMERS, "items": {"$ref": "#/$defs/timer"},
                "description": "The timers of the state. Entering the state sets them, leaving it closes them.",
            },
            "run": named("run", "The run that entering the state starts."),
            "entry": named("events", "Side effects of entering the state."),
            "exit": named("events", "Side effects of leaving the state, before those of the action."),
            "output": {
                "description": "Of a terminal state: the output of the run, as a template. Default: `{state, versionNo, \
                                context}`.",
            },
        },
        "required": ["name"],
        "additionalProperties": false,
        "if": {"properties": {"terminal": {"const": true}}, "required": ["terminal"]},
        "then": {
            "properties": {
                "on": {"maxProperties": 0},
                "after": {"maxItems": 0},
                "run": false,
                "show": false,
                "assign": {"maxItems": 0},
                "onStalemate": false,
                "exit": {"maxItems": 0},
            },
            "if": {"properties": {"error": {"const": true}}, "required": ["error"]},
            "then": {"properties": {"output": false}},
        },
        "else": {"properties": {"error": {"const": false}, "output": false}},
        "description": "A state of the machine.",
    })
}

fn action() -> Value {
    json!({
        "type": "object",
        "properties": {
            "title": title("A title for people."),
            "require": named("require", "The callers that may perform the action. Default: all with `workflow:act`."),
            "quorum": named("quorum", "The votes that the action needs. Default: a single request performs it."),
            "needs": named("needs", "The parts that a request must have."),
            "condition": named("condition", "The condition under which the action can be performed."),
            "message": {
                "type": "string", "maxLength": DESCRIPTION_CHARS,
                "description": "The message of the refusal if the condition does not hold or, without a condition, if no branch is taken.",
            },
            "to": named(
                "stateName",
                "The state that the action leads to. If it is the current state, the machine leaves it and enters it again. An action has either `to` or `choose`.",
            ),
            "choose": {
                "type": "array", "minItems": 1, "maxItems": limits::ACTION_BRANCHES,
                "items": {"$ref": "#/$defs/branch"},
                "description": "Branches: the first whose condition holds is taken. Only the last can be without a \
                                condition.",
            },
            "set": named("set", "Fields of the context that the action sets, as templates; before those of the branch."),
            "events": named("events", "Side effects of the action, before those of the branch."),
        },
        "additionalProperties": false,
        "oneOf": [{"required": ["to"]}, {"required": ["choose"]}],
        "allOf": [
            {
                "if": {"required": ["message"]},
                "then": {"anyOf": [{"required": ["condition"]}, {"required": ["choose"]}]},
            },
            {
                "if": {"required": ["quorum"]},
                "then": {"properties": {"needs": {"properties": {"data": false}}}},
            },
        ],
        "description": "An action of a state.",
    })
}

fn branch() -> Value {
    json!({
        "type": "object",
        "properties": {
            "condition": named("condition", "The condition under which the branch is taken."),
            "to": named("stateName", "The state that the branch leads to."),
            "set": named("set", "Fields of the context that the branch sets."),
            "events": named("events", "Side effects of the branch."),
        },
        "required": ["to"],
        "additionalProperties": false,
        "description": "A branch of an action.",
    })
}

fn require() -> Value {
    json!({
        "type": "object",
        "properties": {
            "role": {
                "type": "array", "minItems": 1, "maxItems": limits::LISTED_NAMES,
                "items": {"type": "string", "minLength": 1, "maxLength": 128},
                "description": "Roles. The role map gives the permission of each; a caller with one of them passes. \
                                `__assigned__`, and a role that the map does not know, are the assigned persons.",
            },
            "user": {
                "anyOf": [
                    {"$ref": "#/$defs/person"},
                    {"type": "array", "minItems": 1, "maxItems": limits::LISTED_NAMES, "items": {"$ref": "#/$defs/person"}},
                ],
                "description": "A person or a list of persons who pass.",
            },
            "assigned": {"const": true, "description": "The persons to whom the state is assigned pass."},
            "notBy": {
                "type": "array", "minItems": 1, "maxItems": limits::LISTED_NAMES,
                "items": {"type": "string", "pattern": "^(@start|[A-Za-z][A-Za-z0-9_-]{0,63})$"},
                "description": "Excludes the persons who started or forked the run (`@start`), and those who performed one \
                                of these actions in it. It applies to every caller.",
            },
        },
        "minProperties": 1,
        "additionalProperties": false,
        "description": "The callers that may act. One of `role`, `user` and `assigned` must pass, if any is given; then \
                        `notBy` excludes.",
    })
}

fn quorum() -> Value {
    let number = json!({"type": "integer", "minimum": 1, "maximum": limits::QUORUM_VOTES});
    json!({
        "type": "object",
        "properties": {
            "of": {
                "type": "array", "minItems": 1, "maxItems": limits::LISTED_NAMES, "items": {"$ref": "#/$defs/person"},
                "description": "The voters. They are determined when the state is entered. Default: every authorized caller.",
            },
            "need": {
                "anyOf": [
                    {"enum": ["ALL", "MAJORITY", "ANY"]},
                    number,
                    {"type": "string", "pattern": "^([1-9][0-9]?|100)%$"},
                ],
                "description": "The number of votes: `ALL`, `MAJORITY` (more than half), `ANY` (one), a number, or a \
                                percentage of the voters, rounded up. `ALL`, `MAJORITY` and a percentage need `of`.",
            },
        },
        "required": ["need"],
        "additionalProperties": false,
        "if": {"required": ["of"]},
        "else": {"properties": {"need": {"anyOf": [{"const": "ANY"}, {"type": "integer"}]}}},
        "description": "The votes that an action needs.",
    })
}

fn needs() -> Value {
    json!({
        "type": "object",
        "properties": {
            "comment": {"type": "boolean", "default": false, "description": "A comment."},
            "data": named("paths", "Paths that the data of the request must contain. Not with a quorum: a vote has no data."),
            "files": {
                "type": "integer",
                "minimum": 1,
                "maximum": limits::ACT_FILES,
                "description": "The number of files that the request must have at least.",
            },
            "shown": {"type": "boolean", "default": false, "description": "The digest of the values that were shown to the person."},
        },
        "additionalProperties": false,
        "description": "The parts that a request for an action must have.",
    })
}

fn condition() -> Value {
    let operators: Vec<_> = OPERATORS.iter().map(|info| info.name).collect();
    json!({
        "type": "object",
        "properties": {
            "type": {"const": "json-logic", "description": "The language of the rule."},
            "rule": {
                "anyOf": [
                    {"type": "boolean"},
                    {"type": "object", "minProperties": 1, "maxProperties": 1, "propertyNames": {"enum": operators}},
                ],
                "description": "An operation of JSON Logic, at most 64 KiB and 32 levels deep; or true or false.",
            },
        },
        "required": ["type", "rule"],
        "additionalProperties": false,
        "description": "A condition over the context, the request and the person.",
    })
}

fn timer() -> Value {
    json!({
        "type": "object",
        "properties": {
            "in": {
                "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$",
                "description": "The time after the state was entered, such as `30m`, `4h` or `2d`; at most 36525 days.",
            },
            "at": {
                "anyOf": [{"type": "string"}, {"$ref": "#/$defs/expression"}],
                "description": "The time at which the timer is due, in RFC 3339, or a template for it.",
            },
            "to": named("stateName", "The state that the timer leads to."),
            "do": named(
                "actionName",
                "The action of the state that the timer performs. Its `require` and `quorum` do not apply, its condition \
                 does: if it does not hold, nothing happens.",
            ),
            "events": named("events", "Side effects of the timer. A timer with neither `to` nor `do` has only these."),
            "every": {
                "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$",
                "description": "The time after which a timer with only `events` is due again, such as `1d`. Without `in` and \
                                `at` it is also the time until the timer is due first.",
            },
            "times": {
                "type": "integer", "minimum": 1, "maximum": limits::TIMER_REPEATS,
                "description": "How often a timer with `every` is due, the first time included. Default: 100.",
            },
        },
        "additionalProperties": false,
        "oneOf": [
            {"required": ["in"]},
            {"required": ["at"]},
            {"required": ["every"], "not": {"anyOf": [{"required": ["in"]}, {"required": ["at"]}]}},
        ],
        "not": {
            "anyOf": [
                {"required": ["to", "do"]},
                {"required": ["every", "to"]},
                {"required": ["every", "do"]},
            ],
        },
        "dependentRequired": {"times": ["every"]},
        "anyOf": [
            {"required": ["to"]},
            {"required": ["do"]},
            {"properties": {"events": {"minItems": 1}}, "required": ["events"]},
        ],
        "description": "A timer of a state. It has `in` or `at`, and at most one of `to` and `do`.",
    })
}

fn run() -> Value {
    json!({
        "type": "object",
        "properties": {
            "workflow": name("^[a-z0-9][a-z0-9_-]{0,127}$", "The name of a workflow of any style."),
            "version": {
                "type": "integer", "minimum": 1, "maximum": i32::MAX,
                "description": "The version of the workflow. Default: the active one.",
            },
            "input": {"description": "The input of the run, as a template. Default: the context."},
            "saveAs": named("fieldName", "The field of the context that receives the output of the run."),
            "done": named("stateName", "The state after the run has completed."),
            "error": named("stateName", "The state after the run has failed. Default: the machine's run fails as well."),
        },
        "required": ["workflow", "done"],
        "additionalProperties": false,
        "description": "A run that a state starts and waits for. Leaving the state earlier cancels it.",
    })
}

fn event() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": named("eventId", "The id of the side effect, used once in its list. Default: its type and position, such as `webhook-0`."),
            "type": {
                "enum": ["assign", "auto_action", "notify", "webhook", "workflow"],
                "description": "`assign` replaces the persons to whom the entered state is assigned; `auto_action` performs \
                                an action in the entered state, as `@auto`, in the same commit; `notify` sends a mail, \
                                `webhook` sends a signed request and `workflow` starts a run, after the commit.",
            },
            "target": {
                "description": "Of `assign`: a person or a list of persons. Of `auto_action`: the name of the action. Of \
                                `notify`: a recipient or a list of recipients. Of `webhook`: a URL. Of `workflow`: \
                                the name of a workflow.",
            },
            "template": {"$ref": "#/$defs/mail", "description": "Of `notify`: the texts."},
            "payload": {
                "description": "Of `auto_action`: the data of the action. Of `webhook`: a part of the message. Of `workflow`: \
                                the input of the run; default: the context. A template.",
            },
            "headers": {
                "type": "object", "maxProperties": limits::LISTED_NAMES,
                "propertyNames": {"pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"},
                "additionalProperties": {
                    "anyOf": [
                        {"type": ["string", "number", "boolean"]},
                        {"$ref": "#/$defs/expression"},
                        {"$ref": "#/$defs/secret"},
                    ],
                },
                "description": "Of `webhook`: headers of the request.",
            },
            "secret": {"$ref": "#/$defs/secret", "description": "Of `webhook`: the secret that signs the message."},
            "retry": {
                "$ref": "#/$defs/retry",
                "description": "Of `notify`, `webhook` and `workflow`: the attempts. Default: three, 500 ms and 1 s apart.",
            },
            "timeoutSeconds": {
                "type": "integer", "minimum": 1, "maximum": Delivery::TIMEOUT_SECONDS_MAX,
                "description": format!(
                    "Of `notify` and `webhook`: the time limit of an attempt. Default: {}.",
                    Delivery::TIMEOUT_SECONDS_DEFAULT,
                ),
            },
        },
        "required": ["type", "target"],
        "additionalProperties": false,
        "allOf": event_types(),
        "description": "A side effect.",
    })
}

/// The fields of each type of side effect.
fn event_types() -> Vec<Value> {
    let of_type = |kind: &str, then: Value| json!({"if": {"properties": {"type": {"const": kind}}}, "then": then});
    vec![
        of_type(
            "assign",
            json!({
                "properties": {
                    "target": {
                        "anyOf": [
                            {"$ref": "#/$defs/person"},
                            {
                                "type": "array", "minItems": 1, "maxItems": limits::LISTED_NAMES,
                                "items": {"$ref": "#/$defs/person"},
                            },
                        ],
                    },
                    "template": false, "payload": false, "headers": false, "secret": false, "retry": false,
                    "timeoutSeconds": false,
                },
            }),
        ),
        of_type(
            "auto_action",
            json!({
                "properties": {
                    "target": {"$ref": "#/$defs/actionName"},
                    "payload": {"anyOf": [{"type": "object"}, {"$ref": "#/$defs/expression"}]},
                    "template": false, "headers": false, "secret": false, "retry": false, "timeoutSeconds": false,
                },
            }),
        ),
        of_type(
            "notify",
            json!({
                "properties": {
                    "target": {
                        "anyOf": [
                            {"$ref": "#/$defs/recipient"},
                            {
                                "type": "array", "minItems": 1, "maxItems": limits::RECIPIENTS,
                                "items": {"$ref": "#/$defs/recipient"},
                            },
                        ],
                    },
                    "payload": false, "headers": false, "secret": false,
                },
                "required": ["template"],
            }),
        ),
        of_type(
            "webhook",
            json!({
                "properties": {
                    "template": false,
                    "target": {
                        "anyOf": [
                            {"type": "string", "pattern": "^https?://[^/?#@\\s]+([/?#]\\S*)?$"},
                            {"$ref": "#/$defs/expression"},
                        ],
                    },
                },
            }),
        ),
        of_type(
            "workflow",
            json!({
                "properties": {
                    "target": {
                        "anyOf": [
                            {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,127}$"},
                            {"$ref": "#/$defs/expression"},
                        ],
                    },
                    "template": false, "headers": false, "secret": false, "timeoutSeconds": false,
                },
            }),
        ),
    ]
}

fn mail() -> Value {
    json!({
        "type": "object",
        "properties": {
            "subject": {
                "anyOf": [
                    {"type": "string", "pattern": "\\S", "not": {"pattern": "[\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]"}, "maxLength": SUBJECT_CHARS_MAX},
                    {"$ref": "#/$defs/expression"},
                ],
                "description": "The subject: one line, without control characters.",
            },
            "text": {
                "anyOf": [{"type": "string"}, {"$ref": "#/$defs/expression"}],
                "description": "The text. It is sent as plain text.",
            },
        },
        "required": ["subject", "text"],
        "additionalProperties": false,
        "description": "The texts of a mail, as templates.",
    })
}

fn retry() -> Value {
    let millis = |description: &str| json!({"type": "integer", "minimum": 100, "maximum": 86_400_000, "description": description});
    json!({
        "type": "object",
        "properties": {
            "maxAttempts": {
                "type": "integer", "minimum": 1, "maximum": 20, "default": 3,
                "description": "All attempts, the first included.",
            },
            "backoff": {
                "type": "string", "enum": ["fixed", "linear", "exp"], "default": "exp",
                "description": "How the delay grows from attempt to attempt.",
            },
            "baseMs": millis("The first delay, in milliseconds. Default: 500."),
            "maxMs": millis("The longest delay, in milliseconds. Default: 300000."),
            "multiplier": {
                "type": "number", "minimum": 1, "maximum": 10, "default": 2,
                "description": "The factor of an exponential backoff.",
            },
            "jitter": {
                "type": "number", "minimum": 0, "maximum": 1, "default": 0,
                "description": "The fraction of a delay by which it varies at random.",
            },
            "nonRetryable": {
                "type": "array", "items": {"type": "string"},
                "description": "Codes of failures after which no other attempt follows.",
            },
        },
        "additionalProperties": false,
        "description": "When a failed attempt is tried again. Any failure is.",
    })
}

fn start() -> Value {
    json!({
        "type": "object",
        "properties": {
            "require": {
                "$ref": "#/$defs/require",
                "properties": {"assigned": false, "notBy": false},
                "description": "The callers with `workflow:act` that may start a run, by `role` or `user`.",
            },
        },
        "required": ["require"],
        "additionalProperties": false,
        "description": "The callers that may start a run although they have no permission to manage runs.",
    })
}

fn options() -> Value {
    json!({
        "type": "object",
        "properties": {
            "retentionDays": {
                "type": "integer", "minimum": 1, "maximum": 3650,
                "description": "Days for which a run is kept after its end. Default: 30.",
            },
            "index": {
                "type": "array", "maxItems": limits::SEARCH_ATTRIBUTES, "uniqueItems": true,
                "items": {"type": "string", "minLength": 1, "maxLength": limits::SEARCH_PATH_CHARS},
                "description": "Search attributes: paths of the input, such as `customer` or `order.id`, by which \
                                runs are found in an index.",
            },
        },
        "additionalProperties": false,
        "description": "Options of the workflow.",
    })
}

fn person() -> Value {
    json!({
        "title": "a person",
        "description": "The id of a person at the identity provider, `key:` and the id of an API key, or a template for an id \
                        or for a list of ids.",
        "anyOf": [
            {"type": "string", "pattern": "\\S", "maxLength": limits::PERSON_CHARS},
            {"$ref": "#/$defs/expression"},
        ],
    })
}

fn recipient() -> Value {
    json!({
        "title": "a recipient",
        "description": "An email address, or another name that the `notifyUrl` of the workspace accepts; or a \
                        template for one or for a list of them.",
        "anyOf": [
            {"type": "string", "pattern": "\\S", "not": {"pattern": "[,;<>\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]"}, "maxLength": RECIPIENT_CHARS_MAX},
            {"$ref": "#/$defs/expression"},
        ],
    })
}

fn expression() -> Value {
    json!({
        "title": "an expression",
        "description": "A value that is computed when it is needed: text with {{ … }}, or {\"$expr\": …}.",
        "anyOf": [
            {"type": "string", "pattern": "\\{\\{"},
            {
                "type": "object",
                "properties": {"$expr": {"type": "string"}},
                "required": ["$expr"],
                "additionalProperties": false,
            },
        ],
    })
}
