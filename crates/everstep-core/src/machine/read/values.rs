//! The values inside a definition: templates, conditions, names, paths, and references to states and actions.

use serde_json::{Map, Value};

use super::{NOWHERE, Reader};
use crate::definition::{Problem, escape, name_of, secrets};
use crate::evaluate::Reference;
use crate::graph::{EXPRESSION_ROOTS, META_FIELDS, UNKNOWN_VARIABLE};
use crate::limits;
use crate::logic::{Rule, VARIABLES};
use crate::machine::context::{INPUT, is_person};
use crate::machine::model::Requirement;
use crate::machine::problem_code as code;

/// The longest name of a role.
const ROLE_CHARS: usize = 128;
/// The longest path into the context.
const PATH_CHARS: usize = 256;

pub(super) const STATE_NAME_HINT: &str = "1 to 64 letters, digits, `_` or `-`";
pub(super) const ACTION_NAME_HINT: &str = "1 to 64 letters, digits, `_` or `-`, beginning with a letter";
const FIELD_NAME_HINT: &str = "1 to 100 letters, digits and `_`, not beginning with a digit or `__`";
pub(super) const WHO_HINT: &str = "write for example \"ann\", \"{{ctx.manager}}\" or \"{{ctx.reviewers}}\"";

const INPUT_MESSAGE: &str = "`input` is the input of the run and cannot be set";

/// The fields of `meta` that only machines have.
const META: &[&str] = &["startedBy", "state", "versionNo", "action", "user", "now"];
/// The fields of `$user` in a condition.
const USER_FIELDS: &[&str] = &["id", "name", "roles"];

pub(super) fn is_state_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

pub(super) fn is_action_name(name: &str) -> bool {
    is_state_name(name) && name.as_bytes()[0].is_ascii_alphabetic()
}

/// Whether a name is valid for a field that a machine writes into its context.
fn is_field_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    (1..=100).contains(&bytes.len())
        && !bytes[0].is_ascii_digit()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        && !name.starts_with("__")
}

/// Whether a value contains an expression at its top: a text with `{{`, or `{"$expr": …}`.
pub(in crate::machine) fn is_template(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{"),
        Value::Object(object) => object.contains_key("$expr"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    }
}

impl Reader<'_> {
    /// Reports the errors in the templates inside a value, and the unknown names that they read.
    pub(super) fn check_template(&mut self, value: &Value, path: &str) {
        for named in secrets::find(value) {
            let problem = Problem::at(format!("{path}{}", named.pointer), "a secret is not accepted here");
            self.report(
                problem.hint("name secrets in `secret` or `headers` of a webhook, or in the config of a graph's node"),
            );
        }
        for fault in self.evaluate.check(value) {
            let problem = Problem::at(format!("{path}{}", fault.pointer), fault.message);
            self.report(problem.hint("write for example {{ctx.order.total * 2}}"));
        }
        if self.care.is_saving() {
            let mut reported = Vec::new();
            for reference in self.evaluate.references(value) {
                if !reported.contains(&reference) {
                    self.check_reference(&reference, path);
                    reported.push(reference);
                }
            }
        }
    }

    fn check_reference(&mut self, reference: &Reference, path: &str) {
        let Reference { pointer, root, name, has_fallback } = reference;
        let is_context = matches!(root.as_str(), "ctx" | "vars");
        let (message, hint) = match name.as_deref() {
            _ if !EXPRESSION_ROOTS.contains(&root.as_str()) => {
                let hint = "begin the expression with one of ctx, vars, payload, meta".to_owned();
                (format!("`{root}` does not exist here"), hint)
            }
            // The input of the run is always known.
            Some(INPUT) if is_context => return,
            Some(name) if is_context && !has_fallback => {
                let Some(unknown) = self.fields.find_unknown(name) else { return };
                let hint = self.field_hint(name, &unknown.known);
                (format!("the context schema has no field `{root}.{name}`"), hint)
            }
            Some(name) if root == "meta" && !META_FIELDS.iter().chain(META).any(|known| *known == name) => {
                let known: Vec<_> = META_FIELDS.iter().chain(META).copied().collect();
                (format!("`meta` has no field {name:?}"), format!("use one of {}", known.join(", ")))
            }
            Some(name) if root == "null" => {
                (format!("`null` has no field {name:?}"), "remove the expression".to_owned())
            }
            Some(_) | None => return,
        };
        self.report(Problem::at(format!("{path}{pointer}"), message).code(UNKNOWN_VARIABLE).hint(hint));
    }

    fn field_hint(&self, name: &str, known: &[&str]) -> String {
        match self.nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean {near:?}?"),
            None if known.is_empty() => "the schema allows no field there".to_owned(),
            None => format!("known fields: {}", known.iter().take(10).copied().collect::<Vec<_>>().join(", ")),
        }
    }

    /// Reads a condition, and reports the fields that it reads and that cannot exist.
    pub(super) fn condition(&mut self, value: &Value, path: &str) -> Option<Rule> {
        let rule = match Rule::from_condition(value, path) {
            Ok(rule) => rule,
            Err(problems) => {
                self.problems.extend(problems);
                return None;
            }
        };
        if self.care.is_saving() {
            for reference in rule.references() {
                self.check_field(&reference.path, &reference.pointer);
            }
        }
        Some(rule)
    }

    /// Checks a path that a condition reads.
    fn check_field(&mut self, path: &str, pointer: &str) {
        let mut names = path.split('.');
        let first = names.next().unwrap_or_default();
        let (message, hint) = if first.starts_with('$') {
            let known: Vec<_> = VARIABLES.iter().map(|(name, _)| *name).collect();
            let second = names.next();
            match second {
                _ if !known.contains(&first) => {
                    (format!("there is no variable {first:?}"), self.field_hint(first, &known))
                }
                Some(field) if first == "$user" && !USER_FIELDS.contains(&field) => {
                    (format!("`$user` has no field {field:?}"), self.field_hint(field, USER_FIELDS))
                }
                Some(_) | None => return,
            }
        } else {
            let Some(unknown) = self.fields.find_unknown(path) else { return };
            let hint = self.field_hint(&unknown.name, &unknown.known);
            (format!("the context schema has no field {path:?}"), hint)
        };
        self.report(Problem::at(pointer, message).code(code::CONDITION_UNKNOWN_FIELD).hint(hint));
    }

    /// Reads a list of persons. Each is the id of a person, `key:` and the id of an API key, or a template for an id or
    /// for a list of ids.
    pub(super) fn persons(&mut self, list: &[Value], path: &str) -> Vec<Value> {
        self.check_count(list.len(), limits::LISTED_NAMES, path, "persons");
        let persons = list.iter().enumerate().take(limits::LISTED_NAMES);
        persons.filter_map(|(number, who)| self.person(who, &format!("{path}/{number}"))).collect()
    }

    pub(super) fn person(&mut self, who: &Value, path: &str) -> Option<Value> {
        if is_template(who) {
            self.check_template(who, path);
            return Some(who.clone());
        }
        let message = match who.as_str() {
            Some(name) if is_person(name) => return Some(who.clone()),
            Some(_) => format!("the name of a person has 1 to {} characters", limits::PERSON_CHARS),
            None => format!("expected the name of a person, found {}", name_of(who)),
        };
        self.report(Problem::at(path, message).hint(WHO_HINT));
        None
    }

    /// Reads one person or a list of persons.
    pub(super) fn person_or_persons(&mut self, value: &Value, path: &str) -> Vec<Value> {
        match value {
            Value::Array(list) if list.is_empty() => {
                self.report(Problem::at(path, "the list is empty").hint(WHO_HINT));
                Vec::new()
            }
            Value::Array(list) => self.persons(list, path),
            who => self.person(who, path).into_iter().collect(),
        }
    }

    /// Reads `require`.
    pub(super) fn requirement(&mut self, value: &Value, path: &str) -> Option<(Requirement, Value)> {
        let mut fields = crate::definition::Fields::from_value(value, path, None, self.problems)?;
        let role = fields.list(&["role"]);
        let user = fields.any(&["user"]);
        let is_assigned = fields.flag(&["assigned"]);
        let not_by = fields.list(&["notBy"]);
        if is_assigned == Some(false) {
            fields.problem("assigned", "`assigned: false` has no effect", "write true, or remove it");
        }
        if value.as_object().is_some_and(|object| object.values().all(Value::is_null)) {
            let problem = Problem::at(path, "the requirement is empty, so every caller meets it");
            let hint = "add at least one of role, user, assigned and notBy, or remove it";
            fields.finish();
            self.report(problem.hint(hint));
            return None;
        }
        fields.finish();
        let mut requirement = Requirement { is_assigned: is_assigned == Some(true), ..Requirement::default() };
        let mut normal = Map::new();
        if let Some(list) = role {
            requirement.roles = self.names(list, &format!("{path}/role"), ROLE_CHARS, "role");
            normal.insert("role".into(), requirement.roles.clone().into());
        }
        if let Some(user) = user {
            requirement.users = self.person_or_persons(user, &format!("{path}/user"));
            normal.insert("user".into(), requirement.users.clone().into());
        }
        if requirement.is_assigned {
            normal.insert("assigned".into(), true.into());
        }
        if let Some(list) = not_by {
            let path = format!("{path}/notBy");
            requirement.not_by = self.names(list, &path, 64, "action");
            for (number, name) in requirement.not_by.iter().enumerate().filter(|(_, name)| *name != "@start") {
                self.check_action_of_machine(name, &format!("{path}/{number}"));
            }
            normal.insert("notBy".into(), requirement.not_by.clone().into());
        }
        Some((requirement, normal.into()))
    }

    /// Reads a list of words with at least one item.
    fn names(&mut self, list: &[Value], path: &str, chars_max: usize, noun: &str) -> Vec<String> {
        if list.is_empty() {
            let problem = Problem::at(path, "the list is empty");
            self.report(problem.hint(format!("add at least one {noun}, or remove the list")));
        }
        self.check_count(list.len(), limits::LISTED_NAMES, path, &format!("{noun}s"));
        let mut names = Vec::new();
        for (number, value) in list.iter().enumerate().take(limits::LISTED_NAMES) {
            match value.as_str() {
                Some(name) if !name.is_empty() && name.chars().count() <= chars_max => names.push(name.to_owned()),
                _ => {
                    let message = format!("expected the name of a {noun} with 1 to {chars_max} characters");
                    self.report(Problem::at(format!("{path}/{number}"), message).hint("put the name in quotes"));
                }
            }
        }
        names
    }

    /// Reads a list of paths into the context, such as `order.total`.
    pub(super) fn paths(&mut self, list: &[Value], path: &str) -> Vec<String> {
        let hint = "write for example [\"amount\", \"order.total\"]";
        if list.is_empty() {
            self.report(Problem::at(path, "the list is empty").hint(hint));
        }
        self.check_count(list.len(), limits::LISTED_NAMES, path, "paths");
        let mut paths = Vec::new();
        for (number, value) in list.iter().enumerate().take(limits::LISTED_NAMES) {
            let place = format!("{path}/{number}");
            let is_path =
                |text: &&str| text.chars().count() <= PATH_CHARS && text.split('.').all(|name| !name.is_empty());
            let Some(text) = value.as_str().filter(is_path) else {
                let message = "expected a path into the context: names separated by dots";
                self.report(Problem::at(place, message).hint(hint));
                continue;
            };
            if let Some(unknown) = self.fields.find_unknown(text).filter(|_| self.care.is_saving()) {
                let hint = self.field_hint(&unknown.name, &unknown.known);
                self.report(Problem::at(place, format!("the context schema has no field {text:?}")).hint(hint));
            }
            paths.push(text.to_owned());
        }
        paths
    }

    /// Reads the paths that the data of a request must contain.
    pub(super) fn data_paths(&mut self, list: &[Value], path: &str) -> Vec<String> {
        let paths = self.paths(list, path);
        for (number, place) in list.iter().enumerate().take(limits::LISTED_NAMES) {
            if place.as_str().is_some_and(|place| place.split('.').next() == Some(INPUT)) {
                self.report(Problem::at(format!("{path}/{number}"), INPUT_MESSAGE).hint("name another field"));
            }
        }
        paths
    }

    /// Reads `set`: fields of the context, and templates for their values.
    pub(super) fn assignments(&mut self, object: &Map<String, Value>, path: &str) -> Map<String, Value> {
        self.check_count(object.len(), limits::LISTED_NAMES, path, "fields");
        for (name, value) in object.iter().take(limits::LISTED_NAMES) {
            let place = format!("{path}/{}", escape(name));
            self.check_written_field(name, &place);
            self.check_template(value, &place);
        }
        object.clone()
    }

    /// Checks the name of a field that the machine writes into its context.
    pub(super) fn check_written_field(&mut self, name: &str, path: &str) {
        if name == INPUT {
            self.report(Problem::at(path, INPUT_MESSAGE).hint("choose another name"));
        } else if !is_field_name(name) {
            let message = format!("{name:?} is not a valid name of a field of the context");
            self.report(Problem::at(path, message).hint(FIELD_NAME_HINT));
        } else if let Some(unknown) = self.fields.find_unknown(name).filter(|_| self.care.is_saving()) {
            let hint = self.field_hint(name, &unknown.known);
            self.report(Problem::at(path, format!("the context schema has no field {name:?}")).hint(hint));
        }
    }

    /// The index of the state that a transition leads to.
    pub(super) fn target(&mut self, name: &str, path: &str) -> u32 {
        if let Some(index) = self.index.get(name) {
            return *index;
        }
        let near = self.nearest(name, self.index.keys().map(String::as_str));
        let hint = match near {
            Some(near) => format!("did you mean {near:?}?"),
            None => {
                let known: Vec<_> = self.index.keys().take(10).map(String::as_str).collect();
                format!("known states: {}", known.join(", "))
            }
        };
        let index = self.transition(near.and_then(|near| self.index.get(near)).copied());
        let problem = Problem::at(path, format!("there is no state {name:?}"));
        self.report(problem.code(code::MACHINE_UNKNOWN_TARGET).hint(hint));
        // A mistyped name is replaced by the nearest one, so that one mistake is reported once.
        index.unwrap_or(NOWHERE)
    }

    /// Reports an action that a state does not have.
    pub(super) fn check_action(&mut self, action: &str, state: u32, path: &str) {
        let Some(known) = self.actions.get(state as usize) else { return };
        if known.contains(&action) {
            return;
        }
        let hint = match self.nearest(action, known.iter().copied()) {
            Some(near) => format!("did you mean {near:?}?"),
            None if known.is_empty() => "the state has no actions".to_owned(),
            None => format!("its actions: {}", known.join(", ")),
        };
        let name = self.index.iter().find(|(_, index)| **index == state).map(|(name, _)| name.as_str());
        let message = format!("the state {:?} has no action {action:?}", name.unwrap_or_default());
        self.report(Problem::at(path, message).code(code::MACHINE_UNKNOWN_ACTION).hint(hint));
    }

    /// Reports an action that no state has.
    fn check_action_of_machine(&mut self, action: &str, path: &str) {
        let actions = self.actions;
        let known = || actions.iter().flatten().copied();
        if known().any(|known| known == action) {
            return;
        }
        let hint = match self.nearest(action, known().chain(["@start"])) {
            Some(near) => format!("did you mean {near:?}?"),
            None => "use @start, or an action of a state".to_owned(),
        };
        let problem = Problem::at(path, format!("no state has an action {action:?}"));
        self.report(problem.code(code::MACHINE_UNKNOWN_ACTION).hint(hint));
    }

    /// Reports a list that is too long.
    pub(super) fn check_count(&mut self, count: usize, count_max: usize, path: &str, noun: &str) {
        if count > count_max {
            let message = format!("{count} {noun}, more than {count_max}");
            self.report(Problem::at(path, message).hint("shorten the list"));
        }
    }
}
