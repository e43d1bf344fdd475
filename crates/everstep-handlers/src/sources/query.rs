//! A saved query: a statement or a request for a source, with the arguments that it declares.

use std::collections::BTreeMap;
use std::time::Duration;

use everstep_core::decode::describe_error;
use everstep_core::graph::Problem;
use everstep_core::limits::PAYLOAD_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::source::Source;
use super::statement::{Dialect, Statement};
use super::{arguments, fields};

const ROWS_DEFAULT: u32 = 1_000;
const ROWS_MAX: u32 = 10_000;
const ARGUMENTS_MAX: usize = 100;
/// The first words of a read-only statement.
const READ_VERBS: &[&str] = &["select", "with", "values", "table", "show", "explain"];
/// The additional first words of a statement that may write.
const WRITE_VERBS: &[&str] = &["insert", "update", "delete", "merge"];

/// A statement or a request for a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Query {
    /// The name of the data source.
    #[schemars(length(min = 1, max = 128))]
    pub source: String,
    /// A description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// One statement for a database; arguments are written as `:name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100_000))]
    pub sql: Option<String>,
    /// One request for an HTTP source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpRequest>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Argument>,
    /// Whether nothing may be written. Writing needs `false` here and on the source.
    #[serde(default = "fields::yes")]
    pub read_only: bool,
    #[serde(default)]
    pub limits: Limits,
    /// The time limit; a shorter limit of the step applies as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: Option<u32>,
}

/// A request of an HTTP source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpRequest {
    #[serde(default)]
    pub method: HttpMethod,
    /// The path after the source's base URL, such as `/customers/{id}/orders`; `{id}` is the argument `id`.
    #[schemars(length(min = 1, max = 2048))]
    pub path: String,
    /// The parameters after the `?`: strings, numbers, booleans, or `{"$arg": "name"}`. An argument that is null is
    /// left out.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub query: Map<String, Value>,
    /// Sent as JSON; `{"$arg": "name"}` anywhere in it is replaced by that argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// The place of the rows in the response, as a JSON pointer; by default the whole response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

/// An argument that a query declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Argument {
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    #[serde(rename = "type", default)]
    pub kind: ArgumentType,
    /// Whether the argument must be given and must not be null; true unless there is a default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    /// Its value if it is not given; null for an argument that is not required.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub default: Value,
    /// A description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ArgumentType {
    String,
    Number,
    Integer,
    Boolean,
    /// Any value, sent to the database as JSON.
    Json,
    #[default]
    Any,
}

/// The limits of the result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    #[schemars(range(min = 1, max = 10_000))]
    pub rows: u32,
    /// Bytes of the rows as JSON.
    #[schemars(range(min = 1024, max = 1_048_576))]
    pub bytes: u32,
    pub on_limit: OnLimit,
}

/// The effect of a larger result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnLimit {
    /// The query fails.
    #[default]
    Error,
    /// The first rows are returned, with `truncated: true`.
    Cut,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rows: ROWS_DEFAULT, bytes: PAYLOAD_BYTES as u32, on_limit: OnLimit::Error }
    }
}

impl Argument {
    pub(super) fn is_required(&self) -> bool {
        self.required.unwrap_or(self.default.is_null())
    }
}

impl HttpMethod {
    pub(super) fn reads(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }
}

impl Query {
    /// Reads a query to be saved. All its errors, except those about its source, are reported together.
    pub fn read(body: &Value) -> Result<Self, Vec<Problem>> {
        let problems = fields::check::<Self>(body);
        if !problems.is_empty() {
            return Err(problems);
        }
        let query: Self = match serde_json::from_value(body.clone()) {
            Ok(query) => query,
            Err(error) => return Err(vec![Problem::at("", describe_error(&error))]),
        };
        let problems = query.problems();
        if problems.is_empty() { Ok(query) } else { Err(problems) }
    }

    /// The errors of this query with this source. There are none if it was saved for the source.
    pub fn check_source(&self, source: &Source) -> Vec<Problem> {
        let mut problems = Vec::new();
        if !self.read_only && source.is_read_only() {
            let message = format!("the source {:?} is read-only, so the query cannot write", self.source);
            let hint = match source {
                Source::Sqlite(_) => "remove `readOnly`: a SQLite file is read-only",
                Source::Postgres(_) | Source::Http(_) => "remove `readOnly` here, or set it to false on the source too",
            };
            problems.push(Problem::at("/readOnly", message).hint(hint));
        }
        let dialect = match source {
            Source::Postgres(_) => Dialect::Postgres,
            Source::Sqlite(_) => Dialect::Sqlite,
            Source::Http(_) => {
                match &self.http {
                    None => problems.push(wrong_form("/http", source, "http", "sql")),
                    Some(request) => problems.extend(request.problems(self)),
                }
                return problems;
            }
        };
        let Some(sql) = &self.sql else {
            problems.push(wrong_form("/sql", source, "sql", "http"));
            return problems;
        };
        match Statement::read(sql, dialect) {
            Err(message) => problems.push(Problem::at("/sql", message)),
            Ok(statement) => {
                problems.extend(self.check_verb(&statement, dialect));
                problems.extend(self.check_names("/sql", &statement.names, |name| format!(":{name}")));
            }
        }
        problems
    }

    /// The statement that is sent, if the query has one.
    pub(super) fn statement(&self, dialect: Dialect) -> Result<Statement, String> {
        Statement::read(self.sql.as_deref().unwrap_or_default(), dialect)
    }

    /// The time limit for a caller with this much time.
    pub(crate) fn timeout(&self, most: Duration) -> Duration {
        self.timeout_seconds.map_or(most, |seconds| most.min(Duration::from_secs(seconds.into())))
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        match (&self.sql, &self.http) {
            (None, None) => {
                let hint = "`sql` for a database, `http` for an HTTP source";
                problems.push(Problem::at("", "the query is empty: `sql` or `http` is missing").hint(hint));
            }
            (Some(_), Some(_)) => problems.push(Problem::at("/http", "a query has either `sql` or `http`, not both")),
            _ => {}
        }
        if !(1..=ROWS_MAX).contains(&self.limits.rows) {
            problems.push(Problem::at("/limits/rows", format!("it must be between 1 and {ROWS_MAX}")));
        }
        if !(1024..=PAYLOAD_BYTES as u32).contains(&self.limits.bytes) {
            problems.push(Problem::at("/limits/bytes", format!("it must be between 1024 and {PAYLOAD_BYTES}")));
        }
        if self.arguments.len() > ARGUMENTS_MAX {
            problems.push(Problem::at("/arguments", format!("there are more than {ARGUMENTS_MAX}")));
        }
        for (index, argument) in self.arguments.iter().enumerate() {
            let at = |field: &str| format!("/arguments/{index}/{field}");
            let Argument { name, kind, required, default, .. } = argument;
            let is_start = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
            let is_usual = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            if !name.starts_with(is_start) || !name.chars().all(is_usual) || name.len() > 64 {
                let hint = "letters, digits and _, at most 64, not beginning with a digit";
                problems
                    .push(Problem::at(at("name"), format!("{name:?} is not a valid name of an argument")).hint(hint));
            }
            if self.arguments[..index].iter().any(|other| other.name == *name) {
                problems.push(Problem::at(at("name"), format!("two arguments have the name {name:?}")));
            }
            if *required == Some(true) && !default.is_null() {
                let message = "a required argument cannot have a default";
                problems.push(Problem::at(at("default"), message).hint("remove `required` or `default`"));
            }
            if let (false, Some(message)) = (default.is_null(), arguments::misfit(*kind, default)) {
                problems.push(Problem::at(at("default"), message));
            }
        }
        problems
    }

    fn check_verb(&self, statement: &Statement, dialect: Dialect) -> Option<Problem> {
        let verb = statement.verb.as_str();
        let reads = READ_VERBS.contains(&verb) && (dialect == Dialect::Postgres || !matches!(verb, "table" | "show"));
        if reads || (!self.read_only && WRITE_VERBS.contains(&verb)) {
            return None;
        }
        if WRITE_VERBS.contains(&verb) {
            let message = format!("the query is read-only, and its statement begins with {verb:?}");
            let hint = "to write, set `readOnly` to false here and on the source";
            return Some(Problem::at("/sql", message).hint(hint));
        }
        let message = format!("a statement cannot begin with {verb:?}");
        let known: Vec<_> = if self.read_only { READ_VERBS.to_vec() } else { [READ_VERBS, WRITE_VERBS].concat() };
        Some(Problem::at("/sql", message).hint(format!("begin it with one of {}", known.join(", "))))
    }

    /// Checks that every used argument is declared, and that every declared argument is used.
    fn check_names(&self, path: &str, used: &[String], written: impl Fn(&str) -> String) -> Vec<Problem> {
        let undeclared = used.iter().filter(|name| !self.arguments.iter().any(|known| known.name == **name));
        let undeclared = undeclared.map(|name| {
            let hint = format!("add {{\"name\": {name:?}, \"type\": \"string\"}} to `arguments`");
            Problem::at(path, format!("the argument {} is not declared", written(name))).hint(hint)
        });
        let unused = self.arguments.iter().enumerate().filter(|(_, argument)| !used.contains(&argument.name));
        let unused = unused.map(|(index, argument)| {
            let hint = format!("write {} at its place, or remove it", written(&argument.name));
            let message = format!("the argument {:?} is not used", argument.name);
            Problem::at(format!("/arguments/{index}"), message).hint(hint)
        });
        undeclared.chain(unused).collect()
    }
}

impl HttpRequest {
    /// The names of the arguments in its path, or the error in the path.
    pub(super) fn path_parts(&self) -> Result<Vec<PathPart<'_>>, String> {
        let mut parts = Vec::new();
        let mut rest = self.path.as_str();
        while let Some(begin) = rest.find(['{', '}']) {
            let (before, behind) = rest.split_at(begin);
            let Some((name, after)) = behind.strip_prefix('{').and_then(|behind| behind.split_once('}')) else {
                return Err("a brace is not matched: write an argument as {name}".to_owned());
            };
            parts.push(PathPart::Text(before));
            parts.push(PathPart::Argument(name));
            rest = after;
        }
        parts.push(PathPart::Text(rest));
        Ok(parts)
    }

    fn problems(&self, query: &Query) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut used = Vec::new();
        match self.path_parts() {
            Err(message) => problems.push(Problem::at("/http/path", message)),
            Ok(parts) => used.extend(parts.iter().filter_map(|part| match part {
                PathPart::Argument(name) => Some((*name).to_owned()),
                PathPart::Text(_) => None,
            })),
        }
        let climbs = self.path.split('/').any(|segment| matches!(segment, "." | ".."));
        // A URL loses its tabs and line ends, so that they would hide a `..`.
        let is_odd = |letter: char| letter.is_control() || ['?', '#', '\\', '%', ' '].contains(&letter);
        if !self.path.starts_with('/') || climbs || self.path.contains(is_odd) {
            let hint = "write for example /customers/{id}; parameters belong to `http.query`";
            let message = "it must be a plain path that begins with a slash";
            problems.push(Problem::at("/http/path", message).hint(hint));
        }
        for (name, value) in &self.query {
            let path = format!("/http/query/{}", fields::escape(name));
            match (value, argument_of(value)) {
                (_, Some(name)) => used.push(name.to_owned()),
                (Value::String(_) | Value::Number(_) | Value::Bool(_), None) => {}
                (Value::Null | Value::Array(_) | Value::Object(_), None) => {
                    let hint = "a text, a number, true, false or {\"$arg\": \"name\"}";
                    problems.push(Problem::at(path, "it is not valid as a parameter").hint(hint));
                }
            }
        }
        if let Some(body) = &self.body {
            arguments_in(body, &mut used);
            if self.method.reads() {
                problems.push(Problem::at("/http/body", "GET and HEAD have no body"));
            }
        }
        if self.rows.as_deref().is_some_and(|rows| !rows.is_empty() && !rows.starts_with('/')) {
            let hint = "write for example /data/items";
            problems.push(Problem::at("/http/rows", "it is not a JSON pointer").hint(hint));
        }
        if query.read_only && !self.method.reads() {
            let hint = "use GET, or set `readOnly` to false here and on the source";
            problems.push(Problem::at("/http/method", "the query is read-only").hint(hint));
        }
        problems.extend(query.check_names("/http", &used, |name| format!("{{{name}}} or {{\"$arg\": {name:?}}}")));
        problems
    }
}

/// A part of a request's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathPart<'a> {
    Text(&'a str),
    Argument(&'a str),
}

/// The argument that a value refers to.
pub(super) fn argument_of(value: &Value) -> Option<&str> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    object.get("$arg")?.as_str()
}

fn arguments_in(value: &Value, used: &mut Vec<String>) {
    match (value, argument_of(value)) {
        (_, Some(name)) => used.push(name.to_owned()),
        (Value::Array(values), None) => values.iter().for_each(|value| arguments_in(value, used)),
        (Value::Object(object), None) => object.values().for_each(|value| arguments_in(value, used)),
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_), None) => {}
    }
}

fn wrong_form(path: &str, source: &Source, needs: &str, has: &str) -> Problem {
    let message = format!("a query of a source of type {:?} needs `{needs}`", source.kind());
    Problem::at(path, message).hint(format!("write `{needs}` in place of `{has}`"))
}

/// The values of the arguments, by name.
pub(super) type Values<'a> = BTreeMap<&'a str, (ArgumentType, Value)>;
