//! The kinds that the core performs itself: the meaning of their configs.

use std::time::Duration;

use serde_json::Value;

use super::condition;
use super::model::{Branch, Call, Condition, Delay, Loop, NodeKind, OnItemError, Publish, Test, WaitSince};
use super::read::{Ports, is_variable};
use super::variables::Name;
use crate::definition::secrets::{self, Named};
use crate::definition::{Care, Fields, Problem};
use crate::kinds::KindInfo;
use crate::topics::{check_topic, is_reserved};
use crate::workflow::is_name;

pub(crate) const CORE_KINDS: &[&str] =
    &["start", "end", "condition", "transform", "delay", "wait", "publish", "workflow", "loop", "scope"];

/// The variables that receive the outputs of these kinds when a node names none.
pub(crate) const OUTPUT_VARIABLES: &[(&str, &str)] = &[
    ("loop", "loopResults"),
    ("transform", "transformResult"),
    ("scope", "scopeResult"),
    ("wait", "waitResult"),
    ("publish", "publishResult"),
    ("workflow", "workflowResult"),
];

/// The rule for names of variables, as the hint of a problem.
pub(crate) const VARIABLE_HINT: &str =
    "letters, digits and `_`, not beginning with a digit or `__`; `input` is reserved";

/// The rule for names of workflows, as the hint of a problem.
const NAME_HINT: &str = "1 to 128 lowercase letters, digits, `_` or `-`, beginning with a letter or digit";

const BRANCH_HINT: &str = "write for example {\"id\": \"yes\", \"expression\": \"ctx.total > 100\"}";

/// The longest delay of one node.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest look-back of a wait: events are kept for at most 90 days.
const SINCE_SECONDS_MAX: u64 = 90 * 24 * 60 * 60;

/// A node of a kind that the core performs, with its parsed config.
pub(crate) struct ControlNode {
    /// `None` if the config is wrong; its problems are reported.
    pub(crate) kind: Option<NodeKind>,
    pub(crate) handles: Vec<String>,
    pub(crate) info: Option<KindInfo>,
    /// The names that its expressions read, with their places in the definition.
    pub(crate) reads: Vec<Name>,
}

/// Reads a node's config according to its type; `None` for an unknown type.
pub(crate) fn read(
    name: &str,
    config: &Value,
    timeout: Option<u64>,
    path: &str,
    node: &str,
    ports: Ports<'_>,
    problems: &mut Vec<Problem>,
) -> Option<ControlNode> {
    let before = problems.len();
    let mut reader = Reader { config, path, node, ports, problems, reads: Vec::new() };
    let places = ports.kinds.find(name).map_or(&[][..], |info| &info.secret_places);
    let secrets = reader.secrets(name, places);
    let (kind, handles): (Option<NodeKind>, Vec<String>) = match name {
        "start" => (reader.empty().map(|()| NodeKind::Start), words(&["output"])),
        "scope" => (reader.empty().map(|()| NodeKind::Scope), words(&["body", "success", "error"])),
        "end" => (reader.end(), Vec::new()),
        "condition" => {
            let kind = reader.condition();
            let mut handles = words(&["error"]);
            if let Some(NodeKind::Condition { branches, default }) = &kind {
                handles.extend(branches.iter().map(|branch| branch.id.clone()));
                handles.push(default.clone());
            }
            (kind, handles)
        }
        "transform" => (reader.transform(), words(&["success", "error"])),
        "delay" => (reader.delay(), words(&["output", "error"])),
        "wait" => {
            let kind = reader.wait(timeout);
            let mut handles = words(&["success", "timeout", "error"]);
            if matches!(kind, Some(NodeKind::Wait { is_approval: true, .. })) {
                handles.insert(1, "rejected".to_owned());
            }
            (kind, handles)
        }
        "publish" => (reader.publish(), words(&["success", "error"])),
        "workflow" => (reader.call(timeout), words(&["success", "error"])),
        "loop" => (reader.repeat(), words(&["loop", "done", "error"])),
        _ => {
            let info = ports.kinds.find(name)?.clone();
            let kind = reader.task(&info, secrets);
            let mut handles = words(&["success", "error"]);
            handles.extend(info.handles.iter().cloned());
            let reads = reader.reads;
            let is_sound = problems.len() == before;
            return Some(ControlNode { kind: is_sound.then_some(kind), handles, info: Some(info), reads });
        }
    };
    let reads = reader.reads;
    let is_sound = problems.len() == before;
    Some(ControlNode { kind: kind.filter(|_| is_sound), handles, info: None, reads })
}

/// The item and index names of a loop. A name of a wrong type is reported when the config is read.
pub(crate) fn loop_locals(config: &Value) -> [&str; 2] {
    let name = |field: &str| config.get(field).and_then(Value::as_str);
    [name("itemVariable").unwrap_or("item"), name("indexVariable").unwrap_or("index")]
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

struct Reader<'a, 'p> {
    config: &'a Value,
    path: &'a str,
    node: &'a str,
    ports: Ports<'a>,
    problems: &'p mut Vec<Problem>,
    reads: Vec<Name>,
}

impl<'a> Reader<'a, '_> {
    fn fields(&mut self) -> Option<Fields<'a, '_>> {
        Fields::from_value(self.config, self.path, Some(self.node), self.problems)
    }

    fn empty(&mut self) -> Option<()> {
        self.fields()?.finish();
        Some(())
    }

    /// The places where the config names secrets. Secrets are rejected everywhere except in the places that accept
    /// them.
    fn secrets(&mut self, kind: &str, places: &[String]) -> Vec<String> {
        let mut pointers = Vec::new();
        for Named { pointer, fault } in secrets::find(self.config) {
            let is_place = secrets::is_place(&pointer, places);
            let problem = match fault {
                _ if !is_place => {
                    let hint = match places {
                        [] => format!("no field of a node of type {kind:?} accepts a secret"),
                        places => format!("a node of type {kind:?} accepts secrets at {}", places.join(", ")),
                    };
                    Some(("a secret is not accepted here".to_owned(), hint))
                }
                fault => fault.map(|(message, hint)| (message.to_owned(), hint.to_owned())),
            };
            match problem {
                None => pointers.push(pointer),
                Some((message, hint)) => {
                    let problem = Problem::at(format!("{}{pointer}", self.path), message);
                    self.problems.push(problem.of_node(self.node).hint(hint));
                }
            }
        }
        pointers
    }

    /// Reports the errors in the templates inside a value of the config.
    fn check(&mut self, value: &Value, pointer: &str) {
        for fault in self.ports.evaluate.check(value) {
            self.problems.push(
                Problem::at(format!("{}{pointer}{}", self.path, fault.pointer), fault.message)
                    .of_node(self.node)
                    .hint("write for example {{ctx.order.total * 2}}"),
            );
        }
        for reference in self.ports.evaluate.references(value) {
            let path = format!("{}{pointer}{}", self.path, reference.pointer);
            self.reads.push(Name {
                path,
                root: reference.root,
                name: reference.name,
                has_fallback: reference.has_fallback,
            });
        }
    }

    fn check_expression(&mut self, source: &str, pointer: &str) {
        if let Some(fault) = self.ports.evaluate.check_expression(source) {
            self.problems.push(
                Problem::at(format!("{}{pointer}", self.path), fault.message)
                    .of_node(self.node)
                    .hint("write for example ctx.order.total > 100"),
            );
        }
        for reference in self.ports.evaluate.expression_references(source) {
            let path = format!("{}{pointer}", self.path);
            self.reads.push(Name {
                path,
                root: reference.root,
                name: reference.name,
                has_fallback: reference.has_fallback,
            });
        }
    }

    fn end(&mut self) -> Option<NodeKind> {
        let mut fields = self.fields()?;
        let list = fields.list(&["outputParameters"]).unwrap_or_default().to_vec();
        let is_error =
            fields.choice(&["status"], &[("success", false), ("error", true), ("failure", true)]).unwrap_or_default();
        let terminate = fields.flag(&["terminate"]).unwrap_or_default();
        fields.finish();
        let mut parameters = Vec::<(String, Value)>::new();
        for (index, parameter) in list.iter().enumerate() {
            let pointer = format!("/outputParameters/{index}");
            let path = format!("{}{pointer}", self.path);
            let Some(mut fields) = Fields::from_value(parameter, path, Some(self.node), self.problems) else {
                continue;
            };
            let name = fields.text(&["name"]).map(str::to_owned);
            let source = fields.any(&["sourceVariable"]).cloned();
            match name.as_deref() {
                None => fields.missing(&["name"], "an output parameter needs a name", "write for example \"total\""),
                Some("") => fields.problem("name", "an output parameter needs a name", "write for example \"total\""),
                Some(name) if parameters.iter().any(|(known, _)| known == name) => {
                    let message = format!("two output parameters have the name {name:?}");
                    fields.problem("name", message, "give each parameter a different name");
                }
                Some(_) => {}
            }
            if source.is_none() {
                let message = "an output parameter needs a source";
                fields.missing(&["sourceVariable"], message, "write for example \"{{ctx.total}}\"");
            }
            fields.finish();
            if let (Some(name), Some(source)) = (name, source) {
                self.check(&source, &format!("{pointer}/sourceVariable"));
                parameters.push((name, source));
            }
        }
        Some(NodeKind::End { parameters, is_error, terminate })
    }

    fn transform(&mut self) -> Option<NodeKind> {
        let mut fields = self.fields()?;
        let value = fields.any(&["value"]).cloned();
        if value.is_none() {
            let hint = "write for example {\"total\": \"{{ctx.price * ctx.count}}\"}";
            fields.missing(&["value"], "a transform needs a value", hint);
        }
        fields.finish();
        let value = value?;
        self.check(&value, "/value");
        Some(NodeKind::Transform { value })
    }

    fn condition(&mut self) -> Option<NodeKind> {
        let mut fields = self.fields()?;
        let list = fields.list(&["branches"]);
        let default = fields.text(&["defaultBranch"]).unwrap_or("default").to_owned();
        if list == Some(&[]) {
            fields.problem("branches", "a condition needs at least one branch", BRANCH_HINT);
        } else if list.is_none() {
            fields.missing(&["branches"], "a condition needs at least one branch", BRANCH_HINT);
        }
        if default == "error" {
            fields.problem(
                "defaultBranch",
                "`error` is reserved for the handle of a failed node",
                "write for example \"default\"",
            );
        }
        let list = list.unwrap_or_default().to_vec();
        fields.finish();
        let mut branches = Vec::<Branch>::new();
        for (index, branch) in list.iter().enumerate() {
            let Some(branch) = self.branch(branch, &format!("/branches/{index}")) else { continue };
            if branches.iter().any(|other| other.id == branch.id) {
                let path = format!("{}/branches/{index}/id", self.path);
                self.problems.push(
                    Problem::at(path, format!("two branches have the id {:?}", branch.id))
                        .of_node(self.node)
                        .hint("give each branch a different id"),
                );
            }
            branches.push(branch);
        }
        Some(NodeKind::Condition { branches, default })
    }

    fn branch(&mut self, value: &Value, pointer: &str) -> Option<Branch> {
        let path = format!("{}{pointer}", self.path);
        let mut fields = Fields::from_value(value, path.clone(), Some(self.node), self.problems)?;
        let id = fields.text(&["id"]).map(str::to_owned);
        let _label = fields.text(&["label"]);
        let any = fields.choice(&["conditionLogic"], &[("AND", false), ("OR", true)]).unwrap_or_default();
        let expression = fields.text(&["expression", "condition"]).map(str::to_owned);
        let list = fields.list(&["conditions"]).map(<[Value]>::to_vec);
        let hint = "edges name it as their sourceHandle";
        match id.as_deref() {
            None => fields.missing(&["id"], "a branch needs an id", hint),
            Some("") => fields.problem("id", "a branch needs an id", hint),
            Some("error") => {
                fields.problem(
                    "id",
                    "`error` is reserved for the handle of a failed node",
                    "write for example \"failed\"",
                );
            }
            Some(_) => {}
        }
        match (&expression, &list) {
            (Some(_), Some(_)) => {
                fields.problem("conditions", "a branch has either `conditions` or an `expression`", "keep one of them");
            }
            (None, None) => {
                fields.missing(&["conditions"], "a branch needs `conditions` or an `expression`", BRANCH_HINT);
            }
            _ => {}
        }
        fields.finish();
        if let Some(source) = expression {
            let field = if value.get("expression").is_some() { "expression" } else { "condition" };
            self.check_expression(&source, &format!("{pointer}/{field}"));
            return Some(Branch { id: id?, test: Test::Expression(source) });
        }
        let mut conditions = Vec::new();
        for (index, condition) in list?.iter().enumerate() {
            let pointer = format!("{pointer}/conditions/{index}");
            let path = format!("{}{pointer}", self.path);
            let Some(mut fields) = Fields::from_value(condition, path, Some(self.node), self.problems) else {
                continue;
            };
            let left = fields.any(&["leftValue"]).cloned().unwrap_or_default();
            let right = fields.any(&["rightValue"]).cloned().unwrap_or_default();
            let operator = fields.choice(&["operator"], condition::OPERATORS);
            if operator.is_none() {
                let operators: Vec<_> = condition::OPERATORS.iter().map(|(name, _)| *name).collect();
                let hint = format!("use one of {}", operators.join(", "));
                fields.missing(&["operator"], "a condition needs an operator", hint);
            }
            fields.finish();
            let Some(operator) = operator else { continue };
            if operator == super::model::Operator::Expression {
                match left.as_str() {
                    Some(source) => self.check_expression(source, &format!("{pointer}/leftValue")),
                    None => self.problems.push(
                        Problem::at(format!("{}{pointer}/leftValue", self.path), "expected an expression as a string")
                            .of_node(self.node)
                            .hint("write for example \"ctx.order.total > 100\""),
                    ),
                }
            } else {
                self.check(&left, &format!("{pointer}/leftValue"));
                self.check(&right, &format!("{pointer}/rightValue"));
            }
            conditions.push(Condition { left, operator, right });
        }
        let test = if any { Test::Any(conditions) } else { Test::All(conditions) };
        Some(Branch { id: id?, test })
    }

    fn delay(&mut self) -> Option<NodeKind> {
        #[derive(Clone, Copy, PartialEq)]
        enum Type {
            Fixed,
            Dynamic,
            Until,
        }
        let mut fields = self.fields()?;
        let types = [("fixed", Type::Fixed), ("dynamic", Type::Dynamic), ("until", Type::Until)];
        let kind = fields.choice(&["delayType"], &types).unwrap_or(Type::Fixed);
        let minutes = fields.number(&["delayMinutes"], 0, 1_440);
        let seconds = fields.number(&["delaySeconds"], 0, 59);
        let millis = fields.number(&["delayMs"], 0, 999);
        let variable = fields.any(&["delayVariable"]).cloned();
        let until = fields.any(&["untilTime"]).cloned();
        let delay = match kind {
            Type::Fixed => {
                if minutes.is_none() && seconds.is_none() && millis.is_none() {
                    let hint = "delayMinutes (up to 1440), delaySeconds (up to 59) and delayMs (up to 999) are summed";
                    fields.missing(&["delaySeconds", "delayMinutes", "delayMs"], "a delay needs a duration", hint);
                }
                let total = minutes.unwrap_or(0) * 60_000 + seconds.unwrap_or(0) * 1_000 + millis.unwrap_or(0);
                if Duration::from_millis(total) > DELAY_MAX {
                    let hint = "use several delay nodes in sequence, or a wait node with timeoutSeconds";
                    fields.problem("delayMinutes", "a delay is at most 24 hours", hint);
                }
                Some(Delay::Fixed(Duration::from_millis(total)))
            }
            Type::Dynamic => {
                if variable.is_none() {
                    let message = "a dynamic delay needs an expression for its milliseconds";
                    fields.missing(&["delayVariable"], message, "write for example \"{{ctx.waitMs}}\"");
                }
                variable.clone().map(Delay::Dynamic)
            }
            Type::Until => {
                if until.is_none() {
                    let hint = "write for example \"2030-01-31T09:00:00Z\" or \"{{ctx.dueAt}}\"";
                    fields.missing(&["untilTime"], "a delay of the type until needs `untilTime`", hint);
                }
                until.clone().map(Delay::Until)
            }
        };
        for (name, is_there, wanted) in [
            ("delayMinutes", minutes.is_some(), Type::Fixed),
            ("delaySeconds", seconds.is_some(), Type::Fixed),
            ("delayMs", millis.is_some(), Type::Fixed),
            ("delayVariable", variable.is_some(), Type::Dynamic),
            ("untilTime", until.is_some(), Type::Until),
        ] {
            // Editors leave the fields of the other types at zero.
            let is_idle = wanted == Type::Fixed && is_zero(name, minutes, seconds, millis);
            if is_there && kind != wanted && !is_idle {
                let message = format!("{name} has no effect with this delayType");
                fields.problem(name, message, "remove it, or change delayType: fixed, dynamic or until");
            }
        }
        fields.finish();
        let delay = delay?;
        match &delay {
            Delay::Fixed(_) => {}
            Delay::Dynamic(value) => self.check(value, "/delayVariable"),
            Delay::Until(value) => self.check(value, "/untilTime"),
        }
        Some(NodeKind::Delay(delay))
    }

    fn wait(&mut self, timeout: Option<u64>) -> Option<NodeKind> {
        let is_saved = self.ports.care == Care::Saving;
        let mut fields = self.fields()?;
        let event = fields.any(&["event"]).cloned();
        let approval = fields.any(&["approval"]).cloned();
        let pattern = fields.any(&["match"]).cloned().unwrap_or_else(|| serde_json::json!({}));
        let since_seconds = fields.number(&["sinceSeconds"], 1, SINCE_SECONDS_MAX);
        let since_start = fields.flag(&["sinceStart"]).unwrap_or_default();
        let (field, is_approval) = if approval.is_some() { ("approval", true) } else { ("event", false) };
        if event.is_some() && is_approval {
            fields.problem("approval", "a wait is either for an `event` or for an `approval`", "keep one of them");
        }
        let event = approval.or(event);
        if event.as_ref().and_then(Value::as_str).is_none_or(str::is_empty) {
            let message = "a wait needs the name of a signal or the topic of an event in `event`";
            fields.problem(field, message, "write for example \"order.paid\"");
        }
        if since_seconds.is_some() && since_start {
            let message = "a wait has either `sinceStart` or `sinceSeconds`";
            fields.problem("sinceSeconds", message, "keep one of them");
        }
        if is_approval && (since_seconds.is_some() || since_start) {
            let message = "an approval accepts no events: it has no look-back";
            fields.problem(if since_start { "sinceStart" } else { "sinceSeconds" }, message, "remove it");
        }
        if is_saved && let Some(name) = event.as_ref().and_then(Value::as_str).filter(|name| is_reserved(name)) {
            let message = format!("{name:?} is reserved: the event of a wait does not begin with `@` or `everstep.`");
            fields.problem(field, message, "write for example \"order.paid\"");
        }
        if !pattern.is_object() {
            let message = "expected an object: the fields that the signal must contain";
            fields.problem("match", message, "write for example {\"orderId\": \"{{ctx.orderId}}\"}");
        }
        fields.finish();
        let event = event?;
        self.check(&event, &format!("/{field}"));
        self.check(&pattern, "/match");
        let since = match since_seconds {
            Some(seconds) => Some(WaitSince::Ago(Duration::from_secs(seconds))),
            None => since_start.then_some(WaitSince::Start),
        };
        Some(NodeKind::Wait { event, pattern, timeout: timeout.map(Duration::from_secs), is_approval, since })
    }

    fn publish(&mut self) -> Option<NodeKind> {
        let mut fields = self.fields()?;
        let topic = fields.any(&["topic"]).cloned();
        let data = fields.any(&["data"]).cloned().unwrap_or_default();
        let id = fields.text(&["id"]);
        let subject = fields.text(&["subject"]);
        for (field, text) in [("id", id), ("subject", subject)] {
            if text == Some("") {
                fields.problem(field, format!("the {field} of an event is not empty"), "remove it, or give it a value");
            }
        }
        let (id, subject) = (id.map(Value::from), subject.map(Value::from));
        let hint = "write for example \"order.paid\"";
        match topic.as_ref().map(Value::as_str) {
            None => fields.missing(&["topic"], "this node needs the topic of the event", hint),
            Some(None) => fields.problem("topic", "expected a topic, as a string", hint),
            // A template is checked when the node runs.
            Some(Some(topic)) if topic.contains("{{") => {}
            Some(Some(topic)) => {
                if let Err(message) = check_topic(topic) {
                    fields.problem("topic", message, hint);
                }
            }
        }
        fields.finish();
        let topic = topic?;
        let parts =
            [("/topic", Some(&topic)), ("/data", Some(&data)), ("/id", id.as_ref()), ("/subject", subject.as_ref())];
        for (pointer, value) in parts {
            if let Some(value) = value {
                self.check(value, pointer);
            }
        }
        Some(NodeKind::Publish(Publish { topic, data, id, subject }))
    }

    fn call(&mut self, timeout: Option<u64>) -> Option<NodeKind> {
        let mut fields = self.fields()?;
        let workflow = fields.text(&["workflow"]);
        let version = fields.number(&["version"], 1, u64::from(u32::MAX));
        let input = fields.any(&["input"]).cloned().unwrap_or_else(|| serde_json::json!({}));
        let waits = fields.flag(&["wait"]).unwrap_or(true);
        match workflow {
            None => fields.missing(&["workflow"], "this node needs the name of the workflow that it runs", NAME_HINT),
            Some(name) if !is_name(name) => {
                fields.problem("workflow", format!("{name:?} is not a valid name of a workflow"), NAME_HINT);
            }
            Some(_) => {}
        }
        if !waits && timeout.is_some() {
            let hint = "remove timeoutSeconds, or wait for the end of the child run";
            fields.problem("wait", "timeoutSeconds has no effect if `wait` is false", hint);
        }
        fields.finish();
        self.check(&input, "/input");
        let workflow = workflow?.to_owned();
        let (version, timeout) = (version.map(|version| version as u32), timeout.map(Duration::from_secs));
        Some(NodeKind::Workflow(Call { workflow, version, input, waits, timeout }))
    }

    fn repeat(&mut self) -> Option<NodeKind> {
        let [item, index] = loop_locals(self.config).map(str::to_owned);
        let mut fields = self.fields()?;
        let source = fields.any(&["sourceVariable"]).cloned();
        let _ = (fields.text(&["itemVariable"]), fields.text(&["indexVariable"]));
        let max_iterations = fields.number(&["maxIterations"], 1, 100_000).unwrap_or(1_000);
        let concurrency = fields.number(&["concurrency"], 1, 10_000).unwrap_or(1);
        let pace = fields.number(&["delayBetweenItems"], 0, 60_000).unwrap_or(0);
        let choices = [("fail", OnItemError::Fail), ("continue", OnItemError::Continue)];
        let on_item_error = fields.choice(&["onItemError"], &choices).unwrap_or(OnItemError::Fail);
        if source.is_none() {
            fields.missing(&["sourceVariable"], "a loop needs items", "write for example \"{{ctx.orders}}\"");
        }
        for (field, name) in [("itemVariable", &item), ("indexVariable", &index)] {
            if !is_variable(name) {
                fields.problem(field, format!("{name:?} is not a valid name of a variable"), VARIABLE_HINT);
            }
        }
        if item == index {
            fields.problem(
                "indexVariable",
                "the item variable and the index variable need different names",
                "write for example \"index\"",
            );
        }
        fields.finish();
        let source = source?;
        self.check(&source, "/sourceVariable");
        Some(NodeKind::Loop(Loop {
            source,
            item,
            index,
            max_iterations: max_iterations as u32,
            concurrency: concurrency as u32,
            pace: Duration::from_millis(pace),
            on_item_error,
        }))
    }

    fn task(&mut self, info: &KindInfo, secrets: Vec<String>) -> NodeKind {
        for fault in self.ports.kinds.check(&info.name, self.config) {
            self.problems.push(
                Problem::at(format!("{}{}", self.path, fault.pointer), fault.message)
                    .of_node(self.node)
                    .hint(format!("the catalog describes the config of {:?}", info.name)),
            );
        }
        if self.ports.care == Care::Saving {
            for fault in self.ports.kinds.check_code(&info.name, self.config) {
                self.problems.push(
                    Problem::at(format!("{}{}", self.path, fault.pointer), fault.message)
                        .code("SYNTAX_ERROR")
                        .of_node(self.node)
                        .hint("correct the code at that line and column"),
                );
            }
        }
        let mut templates = self.config.clone();
        if let Some(object) = templates.as_object_mut() {
            object.retain(|field, _| !info.raw_fields.contains(field));
        }
        self.check(&templates, "");
        NodeKind::Task {
            kind: info.name.clone(),
            config: self.config.clone(),
            secrets,
            raw_fields: info.raw_fields.clone(),
            needs_context: info.needs_context,
        }
    }
}

fn is_zero(name: &str, minutes: Option<u64>, seconds: Option<u64>, millis: Option<u64>) -> bool {
    let value = match name {
        "delayMinutes" => minutes,
        "delaySeconds" => seconds,
        "delayMs" => millis,
        _ => None,
    };
    value == Some(0)
}
