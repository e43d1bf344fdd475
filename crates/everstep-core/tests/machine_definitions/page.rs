//! The reference page of definitions of state machines, `docs/reference/machine.md`, made from the schema.
//!
//! `BLESS=1 cargo test -p everstep-core machine_definitions::page` writes it.

use std::fmt::Write as _;
use std::path::Path;

use everstep_core::limits;
use everstep_core::machine::{definition_schema, problem_code};
use serde_json::Value;

const HEAD: &str = "\
# State machines

<!-- Made from the schema; `BLESS=1 cargo test -p everstep-core machine_definitions::page` writes it. -->

A definition with `states` is a state machine; it is a JSON or YAML document.
[State machines](../guides/machines.md) shows how to write and use one.

```yaml
states:
  - name: open
    initial: true
    on:
      CLOSE: {to: closed, require: {role: [Clerk]}}
  - name: closed
    terminal: true
```

Unknown fields are rejected at every level.
[machine.schema.json](machine.schema.json) describes this format as a JSON Schema (2020-12), for editors; a server returns the same document at `GET /v1/schemas/machine`, to any API key.
Name it as `$schema` in the file.
The server also accepts null for an absent field, and a whole number as text; it stores the definition in canonical form, without them.
";

/// The sections: a title, and the definition in the schema.
const SECTIONS: &[(&str, &str)] = &[
    ("State", "state"),
    ("Action", "action"),
    ("Branch", "branch"),
    ("Require", "require"),
    ("Quorum", "quorum"),
    ("Needs", "needs"),
    ("Condition", "condition"),
    ("Timer", "timer"),
    ("Run", "run"),
    ("Event", "event"),
    ("Mail", "mail"),
    ("Start", "start"),
    ("Trigger", "trigger"),
    ("Options", "options"),
];

const TEMPLATES: &str = "
## Templates

These fields are [templates](expressions.md): persons in `assign`, `of`, `user` and the `target` of `assign`, the values of `set`, `at`, `output`, the `input` of a run, and the `target`, `payload`, `headers` and `template` of other events.

| name | value |
|---|---|
| `ctx` | the context: the input of the run, the data of requests that was merged, and the values that were set; `ctx.input` is the input, unless the input itself has a field with this name; requests and definitions cannot replace it |
| `payload` | the input of the run |
| `meta.runId`, `meta.workflow`, `meta.version`, `meta.startedAt`, `meta.startedBy` | the run, and the person or program that started it |
| `meta.trigger` | the trigger that started the run, or null: `{type, id, topic, subscription, source, depth}` |
| `meta.state`, `meta.versionNo` | the state that is left, and its number |
| `meta.action`, `meta.user` | the action, and the caller that performs it: `{id, name, roles}` |
| `meta.now` | the time of the decision, in RFC 3339 |

A person in a template is an id or a list of ids.
If the context schema is closed (`additionalProperties: false`), the server rejects a definition that reads or writes another field, with `UNKNOWN_VARIABLE` for a template and `CONDITION_UNKNOWN_FIELD` for a condition.

A value that cannot be evaluated has this effect: a start fails its run, a request of a person is rejected with 422 and nothing is written, and a transition of a timer, of a run or of `auto_action` pauses the run.
";

const PROBLEMS: &[(&str, &str)] = &[
    ("MACHINE_NO_INITIAL", "No state is initial."),
    ("MACHINE_SEVERAL_INITIAL", "Several states are initial."),
    ("MACHINE_DUPLICATE_STATE", "Two states have the same name."),
    ("MACHINE_UNKNOWN_TARGET", "A transition leads to a state that does not exist."),
    ("MACHINE_UNREACHABLE_STATE", "No transition leads from the initial state to a state."),
    ("MACHINE_DEAD_END", "A state is not terminal, and no transition leaves it."),
    ("MACHINE_TERMINAL_LEAVES", "A terminal state has `on`, `after` or `run`."),
    ("MACHINE_BAD_NAME", "The name of a state or of an action is missing or not valid."),
    (
        "MACHINE_UNKNOWN_ACTION",
        "`notBy`, `onStalemate`, `do` or an `auto_action` names an action that does not exist there.",
    ),
    ("CONDITION_NOT_JSON_LOGIC", "A condition is a text, has another type, or is not a valid rule."),
    ("CONDITION_UNKNOWN_OPERATOR", "A rule has an unknown operator."),
    ("CONDITION_TOO_LARGE", "A rule has more than 64 KiB or 32 levels."),
    (
        "CONDITION_UNKNOWN_FIELD",
        "A rule reads a field that a closed context schema does not have, or an unknown variable.",
    ),
    ("SCHEMA_INVALID", "The context schema is not a valid JSON Schema."),
    ("SCHEMA_KEYWORD", "The context schema has a keyword that the server does not check."),
    ("QUORUM_BAD_NEED", "`need` is not valid; or it is `ALL`, `MAJORITY` or a percentage, and there is no `of`."),
    (
        "QUORUM_STALEMATE",
        "All voters may have voted without any quorum reached, and there is neither `onStalemate` nor a timer that moves the machine.",
    ),
    ("AUTO_LOOP", "Actions perform each other by `auto_action` without end and without a condition."),
    ("EVENT_UNKNOWN_TYPE", "An event has an unknown type."),
];

/// How a value of a field is described.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/$defs/");
        return match name {
            "stateName" => "name of a state".to_owned(),
            "eventId" => "text".to_owned(),
            "actionName" => "name of an action".to_owned(),
            "fieldName" => "name of a field".to_owned(),
            "person" => "person".to_owned(),
            "recipient" => "recipient".to_owned(),
            "persons" => "list of persons".to_owned(),
            "paths" => "list of paths".to_owned(),
            "events" => "list of [events](#event)".to_owned(),
            "set" => "object".to_owned(),
            "expression" => "template".to_owned(),
            section => format!("[{section}](#{section})"),
        };
    }
    if let Some(constant) = schema.get("const") {
        return format!("`{}`", plain(constant));
    }
    if let Some(choices) = schema["enum"].as_array() {
        return choices.iter().map(|choice| format!("`{}`", plain(choice))).collect::<Vec<_>>().join(", ");
    }
    if let Some(parts) = schema["anyOf"].as_array() {
        let mut kinds: Vec<_> = parts.iter().map(kind).collect();
        kinds.dedup();
        return kinds.join(" or ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => match &schema["items"] {
            Value::Null => "list".to_owned(),
            items => match kind(items).as_str() {
                "person" => "list of persons".to_owned(),
                "text" => "list of texts".to_owned(),
                item => format!("list of {item}"),
            },
        },
        Value::String(name) if name == "object" => match schema.get("additionalProperties") {
            Some(inner) if inner.is_object() => format!("object of {}", kind(inner)),
            Some(_) | None => "object".to_owned(),
        },
        Value::String(name) => match name.as_str() {
            "string" => "text",
            "integer" => "whole number",
            name => name,
        }
        .to_owned(),
        Value::Array(names) => {
            names.iter().map(|name| kind(&serde_json::json!({ "type": name }))).collect::<Vec<_>>().join(" or ")
        }
        _ => "any value".to_owned(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn table(page: &mut String, schema: &Value) {
    *page += "\n| field | value | meaning |\n|---|---|---|\n";
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, field) in schema["properties"].as_object().unwrap() {
        let mark = if required.contains(&name.as_str()) { " (required)" } else { "" };
        let meaning = field["description"].as_str().unwrap_or_else(|| panic!("{name} has no description"));
        let kind = kind(field).replace("boolean", "true or false");
        let _ = writeln!(page, "| `{name}`{mark} | {kind} | {meaning} |");
    }
}

fn page() -> String {
    let schema = definition_schema();
    let mut page = HEAD.to_owned();
    page += "\n## Contents\n\n* [Definition](#definition)\n";
    for (title, name) in SECTIONS {
        let _ = writeln!(page, "* [{title}](#{name})");
    }
    page += "* [Templates](#templates)\n* [Limits](#limits)\n* [Problems](#problems)\n";
    page += "\n## Definition\n";
    let mut definition = schema.clone();
    for field in ["start", "options"] {
        let meaning = schema["$defs"][field]["description"].clone();
        definition["properties"][field]["description"] = meaning;
    }
    table(&mut page, &definition);
    page += "\nThe context schema uses the [keywords of input schemas](graph.md#input-schema).\n";
    for (title, name) in SECTIONS {
        let part = &schema["$defs"][*name];
        let _ = writeln!(page, "\n## {title}\n\n{}", part["description"].as_str().unwrap());
        if *name == "condition" {
            page += "[JSON Logic](json-logic.md) lists the operators and variables.\n";
        }
        table(&mut page, part);
    }
    page += TEMPLATES;
    let _ = write!(
        page,
        "
## Limits

| part | limit |
|---|---|
| states | {} |
| actions of a state | {} |
| timers of a state | {} |
| branches of an action | {} |
| events of a list | {} |
| persons, roles or paths of a list | {} |
| persons that templates of a list resolve to | {} |
| name of a state or an action | 64 letters, digits, `_` or `-`; an action begins with a letter |
| name of a person | {} characters |
| transitions of `auto_action` in a row | {}, then the run is paused |
| steps of a check of the context schema | {}; a step is a value that is checked, or a part of a long text |

## Problems

All problems of a definition are reported at once, each with a path and a hint; those that programs may want to distinguish have a code.

| code | meaning |
|---|---|
",
        limits::MACHINE_STATES,
        limits::STATE_ACTIONS,
        limits::STATE_TIMERS,
        limits::ACTION_BRANCHES,
        limits::SIDE_EFFECTS,
        limits::LISTED_NAMES,
        limits::PERSONS,
        limits::PERSON_CHARS,
        limits::AUTO_TRANSITIONS,
        limits::CONTEXT_CHECK_STEPS,
    );
    for (code, meaning) in PROBLEMS {
        let _ = writeln!(page, "| `{code}` | {meaning} |");
    }
    page +=
        "| `NOTIFY_NOT_CONFIGURED` | The server and the workspace have no way to send mails, and an event does so. |\n";
    page
}

#[test]
fn the_page_of_machines_is_what_the_schema_says() {
    let page = page();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/machine.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "docs/reference/machine.md is out of date: write it with BLESS=1");
}

#[test]
fn the_page_of_machines_lists_every_code() {
    let listed: Vec<_> = PROBLEMS.iter().map(|(code, _)| *code).collect();
    let missing: Vec<_> = problem_code::ALL.iter().filter(|code| !listed.contains(*code)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(listed.len(), problem_code::ALL.len());
}
