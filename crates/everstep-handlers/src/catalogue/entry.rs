//! The description of a kind of node.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::handler::{Description, Example};

/// A kind of node.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Kind")]
pub struct CatalogueEntry {
    /// The node's `type`.
    pub name: String,
    /// A title for people.
    pub title: String,
    /// The group in which an editor lists it.
    pub group: String,
    /// The name of an icon.
    pub icon: String,
    /// Its purpose, in one sentence.
    pub summary: String,
    /// Its handles.
    pub handles: Vec<Handle>,
    /// Where in the config more handles are named, as a JSON pointer in which `*` is any one part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handles_from: Vec<String>,
    /// The handle of an edge that names none; without it every edge must name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_handle: Option<String>,
    /// A description of the output.
    pub output: String,
    /// The variable that receives the output if a node names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_variable: Option<String>,
    /// Whether a failed attempt may be retried.
    pub can_retry: bool,
    /// Whether an attempt may have a time limit, and its bounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,
    /// The defaults of the config.
    pub defaults: Value,
    /// The JSON Schema of the config. Fields that accept a secret are marked with `x-secret`.
    pub schema: Value,
    pub examples: Vec<Example>,
    /// Whether it is for tests and benchmarks only.
    pub is_internal: bool,
}

/// An exit of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Handle {
    pub name: String,
    /// When the node completes with it.
    pub summary: String,
}

/// The time limit of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeout {
    /// Without one there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_seconds: Option<u32>,
    pub longest_seconds: u32,
}

impl Handle {
    pub(super) fn new(name: &str, summary: &str) -> Self {
        Self { name: name.to_owned(), summary: summary.to_owned() }
    }
}

impl CatalogueEntry {
    /// The entry of a kind that a handler performs.
    pub(super) fn from_description(description: &Description) -> Self {
        let Description { info, title, group, icon, summary, output, schema, examples, is_internal, .. } = description;
        let mut handles =
            vec![Handle::new("success", "The task has a result."), Handle::new("error", "The last attempt failed.")];
        handles.extend(info.handles.iter().map(|handle| Handle::new(handle, "The result selects this handle.")));
        let default_seconds = Some(info.timeout_seconds).filter(|seconds| *seconds > 0);
        let longest_seconds = match info.longest_timeout_seconds {
            0 => TIMEOUT_SECONDS_MAX,
            longest => longest,
        };
        Self {
            name: info.name.clone(),
            title: (*title).to_owned(),
            group: (*group).to_owned(),
            icon: (*icon).to_owned(),
            summary: (*summary).to_owned(),
            handles,
            handles_from: Vec::new(),
            default_handle: Some("success".to_owned()),
            output: (*output).to_owned(),
            output_variable: info.output_variable.clone(),
            can_retry: true,
            timeout: Some(Timeout { default_seconds, longest_seconds }),
            defaults: defaults(schema.source()),
            schema: schema.source().clone(),
            examples: examples.clone(),
            is_internal: *is_internal,
        }
    }
}

/// The longest time limit that any node may name: a year.
pub(super) const TIMEOUT_SECONDS_MAX: u32 = 31_536_000;

/// The defaults of a schema for missing fields.
pub(super) fn defaults(schema: &Value) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let known = properties.filter_map(|(field, property)| Some((field, property.get("default")?)));
    let stated = known.filter(|(_, value)| !value.is_null());
    Value::Object(stated.map(|(field, value)| (field.clone(), value.clone())).collect::<Map<_, _>>())
}
