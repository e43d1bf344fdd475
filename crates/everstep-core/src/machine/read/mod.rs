//! Reads the definition of a machine. A definition with problems is read to its end, so that all of them are reported;
//! the machine that results from it is then not used.

mod action;
mod side_effect;
mod state;
mod timer;
mod values;

pub(super) use values::is_template;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::context_fields::ContextFields;
use super::model::{MachineState, Requirement};
use super::problem_code as code;
use crate::definition::{
    Care, DESCRIPTION_CHARS, Fields, HINTED_PROBLEMS_MAX, NAME_CHARS, Problem, check_length, insert, name_of, nearest,
    read_options,
};
use crate::evaluate::Evaluate;
use crate::limits;
use crate::payload::json_depth;
use crate::schema::{FaultKind, Schema};
use crate::topics::read_triggers;

/// The index of a state that does not exist; the problem is reported.
const NOWHERE: u32 = u32::MAX;

const STATES_HINT: &str = "write for example [{\"name\": \"open\", \"initial\": true, \
     \"on\": {\"CLOSE\": {\"to\": \"closed\"}}}, {\"name\": \"closed\", \"terminal\": true}]";

/// A definition, parsed but not yet checked as a whole.
pub(super) struct Definition {
    pub(super) states: Vec<MachineState>,
    /// The states by name; the first of several with one name.
    pub(super) index: BTreeMap<String, u32>,
    pub(super) actions: BTreeSet<String>,
    /// The indices of the states that are marked as initial.
    pub(super) initial: Vec<u32>,
    pub(super) context_schema: Option<Schema>,
    pub(super) start: Option<Requirement>,
    pub(super) retention_days: Option<u32>,
    /// Whether every state could be read.
    pub(super) is_whole: bool,
    /// The states with a transition that could not be read.
    pub(super) unread: BTreeSet<u32>,
    /// The same definition in canonical form.
    pub(super) normal: Value,
}

/// What reading the parts of a definition needs.
struct Reader<'a> {
    evaluate: &'a dyn Evaluate,
    care: Care,
    fields: ContextFields<'a>,
    index: &'a BTreeMap<String, u32>,
    /// The names of the actions of each state, as written.
    actions: &'a [Vec<&'a str>],
    problems: &'a mut Vec<Problem>,
    /// The index of the state that is being read.
    state: u32,
    /// The states with a transition that could not be read.
    unread: BTreeSet<u32>,
}

pub(super) fn read(
    value: &Value,
    evaluate: &dyn Evaluate,
    care: Care,
    problems: &mut Vec<Problem>,
) -> Option<Definition> {
    if json_depth(value) > limits::JSON_DEPTH {
        let message = format!("the definition is nested deeper than {} levels", limits::JSON_DEPTH);
        problems.push(Problem::at("", message).hint("flatten the definition"));
        return None;
    }
    let mut fields = Fields::from_value(value, "", None, problems)?;
    // For editors: it names the schema of this file.
    let schema = fields.text(&["$schema"]);
    let workflow = fields.text(&["workflow"]);
    let version = fields.any(&["version"]);
    let description = fields.text(&["description"]);
    let context_schema = fields.any(&["contextSchema", "context_schema"]);
    let start = fields.any(&["start"]);
    let trigger = fields.any(&["trigger"]);
    let triggers = fields.list(&["triggers"]);
    let options = fields.any(&["options"]);
    let states = fields.list(&["states"]);
    if states.is_none() {
        fields.missing(&["states"], "a machine needs a list of states", STATES_HINT);
    }
    let version = version.and_then(|version| read_label(version, &mut fields));
    fields.finish();
    check_length(workflow, "/workflow", NAME_CHARS, problems);
    check_length(version.as_deref(), "/version", NAME_CHARS, problems);
    check_length(description, "/description", DESCRIPTION_CHARS, problems);
    let is_older_name = value.get("contextSchema").is_none_or(Value::is_null);
    let schema_path = if is_older_name { "/context_schema" } else { "/contextSchema" };
    let compiled_schema = context_schema.and_then(|schema| read_schema(schema, schema_path, problems));
    let retention_days = options.and_then(|options| read_options(options, problems));
    let triggers = read_triggers(trigger, triggers, evaluate, problems);
    let states = states?;
    if states.len() > limits::MACHINE_STATES {
        let message = format!("the machine has {} states, more than {}", states.len(), limits::MACHINE_STATES);
        let hint = "move a part of it to another workflow, and start that with run";
        problems.push(Problem::at("/states", message).hint(hint));
        return None;
    }
    let mut index = BTreeMap::new();
    let mut actions = Vec::with_capacity(states.len());
    for (number, state) in (0..).zip(states) {
        if let Some(name) = state.get("name").and_then(Value::as_str) {
            index.entry(name.to_owned()).or_insert(number);
        }
        let on = state.get("on").and_then(Value::as_object);
        actions.push(on.into_iter().flat_map(Map::keys).map(String::as_str).collect());
    }
    let fields = ContextFields::new(compiled_schema.as_ref().and(context_schema));
    let mut reader = Reader {
        evaluate,
        care,
        fields,
        index: &index,
        actions: &actions,
        problems,
        state: 0,
        unread: BTreeSet::new(),
    };
    let start = start.and_then(|start| reader.start(start));
    let mut read_states = Vec::with_capacity(states.len());
    let mut normal_states = Vec::with_capacity(states.len());
    let mut initial = Vec::new();
    for (number, state) in (0..).zip(states) {
        reader.state = number;
        let Some((state, is_initial, normal)) = reader.state(state, number) else { continue };
        read_states.push(state);
        normal_states.push(normal);
        initial.extend(is_initial.then_some(number));
    }
    let unread = reader.unread;
    let mut normal = Map::new();
    insert(&mut normal, "$schema", schema.map(Value::from));
    insert(&mut normal, "workflow", workflow.map(Value::from));
    insert(&mut normal, "version", version.map(Value::from));
    insert(&mut normal, "description", description.map(Value::from));
    insert(&mut normal, "contextSchema", context_schema.cloned());
    let (start, normal_start) = start.unzip();
    insert(&mut normal, "start", normal_start);
    insert(&mut normal, "triggers", triggers);
    insert(&mut normal, "options", options.cloned());
    normal.insert("states".into(), normal_states.into());
    let actions = actions.iter().flatten().map(|name| (*name).to_owned()).collect();
    let is_whole = read_states.len() == states.len();
    Some(Definition {
        states: read_states,
        index,
        actions,
        initial,
        context_schema: compiled_schema,
        start,
        retention_days,
        is_whole,
        unread,
        normal: normal.into(),
    })
}

/// The label of a version, which is for people. A number is a label too.
fn read_label(value: &Value, fields: &mut Fields<'_, '_>) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        other => {
            let message = format!("expected a version label (a string or a number), found {}", name_of(other));
            let hint = "write for example \"2.1\"; the server numbers the saved versions itself";
            fields.problem("version", message, hint);
            None
        }
    }
}

/// Compiles the schema of the context. Its faults are problems at their places.
fn read_schema(value: &Value, path: &str, problems: &mut Vec<Problem>) -> Option<Schema> {
    let faults = match Schema::for_context(value) {
        Ok(schema) => return Some(schema),
        Err(faults) => faults,
    };
    problems.extend(faults.into_iter().map(|(kind, fault)| {
        let (code, hint) = match kind {
            FaultKind::Invalid => (code::SCHEMA_INVALID, "contextSchema is a JSON Schema (2020-12)"),
            FaultKind::Keyword => (code::SCHEMA_KEYWORD, "remove it; the reference of graphs lists the keywords"),
        };
        Problem::at(format!("{path}{}", fault.pointer), fault.message).code(code).hint(hint)
    }));
    None
}

impl Reader<'_> {
    /// Reads `start`: the callers that may start a run.
    fn start(&mut self, value: &Value) -> Option<(Requirement, Value)> {
        let mut fields = Fields::from_value(value, "/start", None, self.problems)?;
        let require = fields.any(&["require"]);
        if require.is_none() {
            let hint = "write for example {\"require\": {\"role\": [\"Clerk\"]}}";
            fields.missing(&["require"], "`start` needs `require`, the callers that may start a run", hint);
        }
        fields.finish();
        let (requirement, normal) = self.requirement(require?, "/start/require")?;
        for (field, is_used) in [("assigned", requirement.is_assigned), ("notBy", !requirement.not_by.is_empty())] {
            if is_used {
                let message = format!("{field} has no effect before a run exists");
                self.report(Problem::at(format!("/start/require/{field}"), message).hint("use role or user"));
            }
        }
        Some((requirement, serde_json::json!({ "require": normal })))
    }

    fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Passes on a transition, and records one that could not be read.
    fn transition<T>(&mut self, read: Option<T>) -> Option<T> {
        if read.is_none() {
            self.unread.insert(self.state);
        }
        read
    }

    /// The nearest known name.
    fn nearest<'n>(&self, name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
        if self.problems.len() < HINTED_PROBLEMS_MAX { nearest(name, known) } else { None }
    }
}
