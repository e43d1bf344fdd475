//! Reads a definition: nodes, edges and options, in our format or in the format of the engines that Everstep replaces.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::control;
use super::model::{Join, NodeKind, OnError};
use super::variables::{Name, Unread};
use crate::definition::{
    Care, DESCRIPTION_CHARS, Fields, NAME_CHARS, Problem, check_length, insert, nearest, read_options, read_retry,
    secrets,
};
use crate::evaluate::Evaluate;
use crate::kinds::Kinds;
use crate::limits;
use crate::payload::json_depth;
use crate::retry::RetryPolicy;
use crate::schema::Schema;
use crate::topics::read_triggers;

/// A definition, parsed but not yet connected.
pub(crate) struct Definition {
    pub(crate) nodes: Vec<NodeText>,
    pub(crate) edges: Vec<EdgeText>,
    pub(crate) retention_days: Option<u32>,
    pub(crate) input_schema: Option<Schema>,
    /// Whether every node and edge of the text could be read.
    pub(crate) is_whole: bool,
    /// The variables of nodes that could not be read.
    pub(crate) unread: Unread,
    /// The same definition in canonical form.
    pub(crate) normal: Value,
}

pub(crate) struct NodeText {
    pub(crate) id: String,
    pub(crate) path: String,
    /// `None` if the type is unknown.
    pub(crate) type_name: Option<String>,
    pub(crate) name: Option<String>,
    /// `None` if the kind or its config is wrong; the problem is reported.
    pub(crate) kind: Option<NodeKind>,
    pub(crate) handles: Vec<String>,
    pub(crate) join: Option<Join>,
    pub(crate) retry: RetryPolicy,
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_error: OnError,
    pub(crate) output_variable: Option<String>,
    /// The names that its expressions read.
    pub(crate) reads: Vec<Name>,
    /// The item and index names of a loop, or of a node of an unknown type; known even where the config is wrong.
    pub(crate) locals: Vec<String>,
}

impl NodeText {
    /// The handle that leads into the body of a loop or scope; known even if the config is wrong.
    pub(crate) fn body_handle(&self) -> Option<&'static str> {
        match self.type_name.as_deref() {
            Some("loop") => Some("loop"),
            Some("scope") => Some("body"),
            _ => None,
        }
    }
}

pub(crate) struct EdgeText {
    pub(crate) path: String,
    pub(crate) source: String,
    pub(crate) target: String,
    pub(crate) handle: Option<String>,
}

/// The ports that reading needs.
#[derive(Clone, Copy)]
pub(crate) struct Ports<'a> {
    pub(crate) kinds: &'a dyn Kinds,
    pub(crate) evaluate: &'a dyn Evaluate,
    pub(crate) care: Care,
}

pub(crate) fn read(value: &Value, ports: Ports<'_>, problems: &mut Vec<Problem>) -> Option<Definition> {
    if json_depth(value) > limits::JSON_DEPTH {
        problems.push(
            Problem::at("", format!("the definition is nested deeper than {} levels", limits::JSON_DEPTH))
                .hint("flatten the config, or compute the value in a javascript node"),
        );
        return None;
    }
    let mut fields = Fields::from_value(value, "", None, problems)?;
    // For editors: it names the schema of this file.
    let schema = fields.text(&["$schema"]);
    let name = fields.text(&["name", "title"]);
    let description = fields.text(&["description"]);
    let nodes = fields.list(&["nodes"]);
    let edges = fields.list(&["edges"]).unwrap_or_default();
    let options = fields.any(&["options", "workflowOptions"]);
    let input_schema = fields.any(&["inputSchema"]);
    let trigger = fields.any(&["trigger"]);
    let triggers = fields.list(&["triggers"]);
    if nodes.is_none() {
        let hint = "write for example [{\"id\": \"start\", \"type\": \"start\"}, {\"id\": \"end\", \"type\": \"end\"}]";
        fields.missing(&["nodes"], "a graph needs a list of nodes", hint);
    }
    fields.finish();
    check_length(name, "/name", NAME_CHARS, problems);
    check_length(description, "/description", DESCRIPTION_CHARS, problems);
    let compiled_schema = input_schema.and_then(|schema| read_input_schema(schema, problems));
    let triggers = read_triggers(trigger, triggers, ports.evaluate, problems);
    let nodes = nodes?;
    if nodes.len() > limits::GRAPH_NODES {
        problems.push(
            Problem::at("/nodes", format!("the graph has {} nodes, more than {}", nodes.len(), limits::GRAPH_NODES))
                .hint("split the workflow, or use a loop"),
        );
        return None;
    }
    let retention_days = options.and_then(|options| read_options(options, problems));
    let mut normal_nodes = Vec::new();
    let mut normal_edges = Vec::new();
    let mut read_nodes = Vec::new();
    let mut read_edges = Vec::new();
    let mut unread = Unread::default();
    for (index, node) in nodes.iter().enumerate() {
        match read_node(node, index, ports, problems) {
            Some((text, normal)) => {
                unread.has_unknown_type |= text.type_name.is_none();
                read_nodes.push(text);
                normal_nodes.push(normal);
            }
            None => unread.add_node(node),
        }
    }
    unread.add_defaults(ports.kinds);
    for (index, edge) in edges.iter().enumerate() {
        if let Some((text, normal)) = read_edge(edge, index, problems) {
            read_edges.push(text);
            normal_edges.push(normal);
        }
    }
    let mut normal = Map::new();
    insert(&mut normal, "$schema", schema.map(Value::from));
    insert(&mut normal, "name", name.map(Value::from));
    insert(&mut normal, "description", description.map(Value::from));
    insert(&mut normal, "inputSchema", input_schema.cloned());
    insert(&mut normal, "triggers", triggers);
    normal.insert("nodes".into(), normal_nodes.into());
    normal.insert("edges".into(), normal_edges.into());
    insert(&mut normal, "options", options.cloned());
    let is_whole = read_nodes.len() == nodes.len() && read_edges.len() == edges.len();
    Some(Definition {
        nodes: read_nodes,
        edges: read_edges,
        retention_days,
        input_schema: compiled_schema,
        is_whole,
        unread,
        normal: normal.into(),
    })
}

/// Compiles the schema of the input. Its faults are problems at their places.
fn read_input_schema(value: &Value, problems: &mut Vec<Problem>) -> Option<Schema> {
    let faults = match Schema::for_input(value) {
        Ok(schema) => return Some(schema),
        Err(faults) => faults,
    };
    problems.extend(faults.into_iter().map(|fault| {
        let hint = "inputSchema is a JSON Schema (2020-12); the guide to graphs lists the keywords";
        Problem::at(format!("/inputSchema{}", fault.pointer), fault.message).hint(hint)
    }));
    None
}

fn read_node(value: &Value, index: usize, ports: Ports<'_>, problems: &mut Vec<Problem>) -> Option<(NodeText, Value)> {
    let path = format!("/nodes/{index}");
    let id = value.get("id").or_else(|| value.get("nodeID")).and_then(Value::as_str).map(str::to_owned);
    let mut fields = Fields::from_value(value, path.clone(), id.as_deref(), problems)?;
    let id = fields.text(&["id", "nodeID"]);
    let kind_name = fields.text(&["type", "nodeType"]);
    let name = fields.text(&["name", "title"]);
    let config = fields.any(&["config", "nodeConfig"]).cloned().unwrap_or_else(|| json!({}));
    let joins = [("all", Join::All), ("any", Join::Any)];
    let mut join = fields.choice(&["joinMode"], &joins);
    let retry = fields.any(&["retry"]);
    let position = fields.any(&["position"]);
    let on_errors = [("continue", OnError::Continue), ("fail_workflow", OnError::FailWorkflow)];
    let mut on_error = fields.choice(&["errorHandling"], &on_errors);
    let mut timeout = fields.number(&["timeoutSeconds"], 1, 31_536_000);
    let mut output_variable = fields.text(&["outputVariable"]).map(str::to_owned);
    match id {
        None => fields.missing(&["id", "nodeID"], "a node needs an id", ID_HINT),
        Some(id) if !is_id(id) => fields.problem("id", format!("{id:?} is not a valid id of a node"), ID_HINT),
        Some(_) => {}
    }
    if kind_name.is_none() {
        fields.missing(&["type", "nodeType"], "a node needs a type", kind_hint("", ports));
    }
    fields.finish();
    // A node without an id is read to its end, so that its other problems are reported too.
    let has_id = id.is_some();
    let id = id.unwrap_or_default();

    // Older definitions have these fields in the config.
    let mut config = config;
    let config_path = format!("{path}/config");
    let at_node = |field: &str| value.get(field).filter(|value| !value.is_null());
    let place = |field: &str| format!("{}/{field}", if at_node(field).is_some() { &path } else { &config_path });
    if let Some(object) = config.as_object_mut() {
        let mut moved = Map::new();
        for field in ["errorHandling", "timeoutSeconds", "outputVariable", "joinMode"] {
            let Some(inner) = object.shift_remove(field) else { continue };
            if at_node(field).is_some_and(|outer| *outer != inner) && !inner.is_null() {
                let problem = Problem::at(
                    format!("{config_path}/{field}"),
                    "the field is set in the node and in its config, to different values",
                );
                problems.push(problem.of_node(id).hint("keep one of them"));
            }
            moved.insert(field.into(), inner);
        }
        let moved = Value::Object(moved);
        let mut fields = Fields::from_value(&moved, config_path.clone(), Some(id), problems)?;
        on_error = on_error.or(fields.choice(&["errorHandling"], &on_errors));
        timeout = timeout.or(fields.number(&["timeoutSeconds"], 1, 31_536_000));
        join = join.or(fields.choice(&["joinMode"], &joins));
        output_variable = output_variable.or(fields.text(&["outputVariable"]).map(str::to_owned));
    }
    if let Some(variable) = output_variable.as_deref().filter(|variable| !is_variable(variable)) {
        let problem = Problem::at(place("outputVariable"), format!("{variable:?} is not a valid name of a variable"));
        problems.push(problem.of_node(id).hint(control::VARIABLE_HINT));
    }
    for named in position.map(secrets::find).unwrap_or_default() {
        let problem = Problem::at(format!("{path}/position{}", named.pointer), "a secret is not accepted here");
        problems.push(problem.of_node(id).hint("name secrets in the config of a node"));
    }
    let policy = RetryPolicy::graph();
    let policy = match retry {
        Some(retry) => read_retry(retry, &format!("{path}/retry"), Some(id), policy, problems),
        None => policy,
    };
    let read = kind_name.and_then(|name| control::read(name, &config, timeout, &config_path, id, ports, problems));
    let type_name = kind_name.filter(|_| read.is_some());
    if let (Some(name), None) = (kind_name, &read) {
        let problem = Problem::at(format!("{path}/type"), format!("unknown node type {name:?}"));
        problems.push(problem.of_node(id).hint(kind_hint(name, ports)));
    }
    let (kind, handles, info, reads) = read.map_or_else(Default::default, |read| {
        let control::ControlNode { kind, handles, info, reads } = read;
        (kind, handles, info, reads)
    });
    if let (Some(name), None) = (type_name, &info) {
        // A field without effect is rejected, because its author would rely on it.
        let acts = "remove it: only nodes with a handler have this field";
        let has_timeout = matches!(name, "wait" | "workflow");
        for (field, is_there, has_meaning) in
            [("retry", retry.is_some(), name == "workflow"), ("timeoutSeconds", timeout.is_some(), has_timeout)]
        {
            if is_there && !has_meaning {
                let message = format!("{field} has no effect for a node of type {name:?}");
                problems.push(Problem::at(place(field), message).of_node(id).hint(acts));
            }
        }
    }
    let longest = info.as_ref().map_or(0, |info| u64::from(info.longest_timeout_seconds));
    // The maximum may have been longer when a definition was saved: its handler then uses the present one.
    let is_saving = ports.care == Care::Saving;
    if is_saving && longest > 0 && timeout.is_some_and(|timeout| timeout > longest) {
        let message = format!("a timeout of this type is at most {longest} seconds");
        let hint = "choose a shorter timeout; the catalog shows the longest one of each type";
        problems.push(Problem::at(place("timeoutSeconds"), message).of_node(id).hint(hint));
    }
    if !has_id {
        return None;
    }
    let of_core = control::OUTPUT_VARIABLES.iter().find(|(kind, _)| type_name == Some(*kind));
    let default_variable = match of_core {
        Some((_, variable)) => Some((*variable).to_owned()),
        None => info.as_ref().and_then(|info| info.output_variable.clone()),
    };
    let locals = match type_name {
        // A node of an unknown type may be meant as a loop.
        Some("loop") | None => control::loop_locals(&config).map(str::to_owned).into(),
        Some(_) => Vec::new(),
    };
    let mut normal = Map::new();
    normal.insert("id".into(), id.into());
    normal.insert("type".into(), kind_name.into());
    insert(&mut normal, "name", name.map(Value::from));
    normal.insert("config".into(), config);
    insert(&mut normal, "joinMode", join.map(|join| if join == Join::Any { "any" } else { "all" }.into()));
    insert(&mut normal, "retry", retry.cloned());
    insert(&mut normal, "timeoutSeconds", timeout.map(Value::from));
    insert(
        &mut normal,
        "errorHandling",
        on_error.filter(|e| *e == OnError::FailWorkflow).map(|_| "fail_workflow".into()),
    );
    insert(&mut normal, "outputVariable", output_variable.clone().map(Value::from));
    insert(&mut normal, "position", position.cloned());
    let text = NodeText {
        id: id.to_owned(),
        path,
        type_name: type_name.map(str::to_owned),
        name: name.map(str::to_owned),
        kind,
        handles,
        join,
        retry: policy,
        timeout: timeout
            .or(info.map(|info| u64::from(info.timeout_seconds)).filter(|seconds| *seconds > 0))
            .map(Duration::from_secs),
        on_error: on_error.unwrap_or(OnError::Continue),
        output_variable: output_variable.or(default_variable),
        reads,
        locals,
    };
    Some((text, normal.into()))
}

fn read_edge(value: &Value, index: usize, problems: &mut Vec<Problem>) -> Option<(EdgeText, Value)> {
    let path = format!("/edges/{index}");
    let mut fields = Fields::from_value(value, path.clone(), None, problems)?;
    let id = fields.text(&["id", "edgeID"]);
    let source = fields.text(&["source", "upstreamNodeID"]);
    let target = fields.text(&["target", "downstreamNodeID"]);
    let handle = fields.text(&["sourceHandle"]);
    if source.is_none() {
        let message = "an edge needs the id of its source node";
        fields.missing(&["source", "upstreamNodeID"], message, "write for example \"start\"");
    }
    if target.is_none() {
        let message = "an edge needs the id of its target node";
        fields.missing(&["target", "downstreamNodeID"], message, "write for example \"end\"");
    }
    fields.finish();
    let (source, target) = (source?, target?);
    let mut normal = Map::new();
    insert(&mut normal, "id", id.map(Value::from));
    normal.insert("source".into(), source.into());
    normal.insert("target".into(), target.into());
    insert(&mut normal, "sourceHandle", handle.map(Value::from));
    let text =
        EdgeText { path, source: source.to_owned(), target: target.to_owned(), handle: handle.map(str::to_owned) };
    Some((text, normal.into()))
}

/// The known types, or the one that was probably meant.
fn kind_hint(name: &str, ports: Ports<'_>) -> String {
    let names: Vec<String> =
        control::CORE_KINDS.iter().map(|name| (*name).to_owned()).chain(ports.kinds.names()).collect();
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("known types: {}", names.join(", ")),
    }
}

/// The rule for ids of nodes, as the hint of a problem.
const ID_HINT: &str = "1 to 100 letters, digits, `_` or `-`";

/// Ids are part of step keys, so the punctuation of step keys is not allowed in them.
fn is_id(id: &str) -> bool {
    (1..=100).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

pub(crate) fn is_variable(name: &str) -> bool {
    let bytes = name.as_bytes();
    (1..=100).contains(&bytes.len())
        && !bytes[0].is_ascii_digit()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        && !name.starts_with("__")
        && name != "input"
}
