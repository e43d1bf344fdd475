//! A rule from its JSON. All problems are reported at once.

use serde_json::Value;

use super::code::{CONDITION_NOT_JSON_LOGIC, CONDITION_TOO_LARGE, CONDITION_UNKNOWN_OPERATOR};
use super::coerce::number_text;
use super::operator::{OPERATORS, Operator, OperatorInfo};
use super::rule::{FieldReference, Part, Rule, Variable};
use crate::definition::{Problem, escape, nearest};
use crate::limits;

/// Problems that are reported of one rule. A hint costs a comparison with every operator.
const PROBLEMS_MAX: usize = 50;

const CONDITION_HINT: &str = r#"write for example {"type": "json-logic", "rule": {">": [{"var": "amount"}, 100]}}"#;

pub(super) fn parse_condition(condition: &Value, path: &str) -> Result<Rule, Vec<Problem>> {
    let refuse = |at: &str, message: String, hint: &str| {
        Problem::at(format!("{path}{at}"), message).code(CONDITION_NOT_JSON_LOGIC).hint(hint)
    };
    let Value::Object(fields) = condition else {
        let message = format!("a condition is an object, not {}", noun(condition));
        return Err(vec![refuse("", message, CONDITION_HINT)]);
    };
    if fields.len() == 1 && fields.keys().all(|field| Operator::find(field).is_some()) {
        let message = "the rule of a condition belongs in its field `rule`".to_owned();
        return Err(vec![refuse("", message, CONDITION_HINT)]);
    }
    let mut problems = Vec::new();
    match fields.get("type") {
        None => problems.push(refuse("/type", "the type of the condition is missing".to_owned(), CONDITION_HINT)),
        Some(Value::String(name)) if name == "json-logic" => {}
        Some(other) => {
            problems.push(refuse("/type", format!("unknown type of condition {other}"), r#"write "json-logic""#));
        }
    }
    for field in fields.keys().filter(|field| !["type", "rule"].contains(&&***field)) {
        let problem = Problem::at(format!("{path}/{}", escape(field)), format!("unknown field {field:?}"));
        problems.push(match nearest(field, ["type", "rule"]) {
            Some(near) => problem.hint(format!("did you mean {near:?}?")),
            None => problem.hint("a condition has the fields type and rule"),
        });
    }
    let rule = match fields.get("rule") {
        None => Err(vec![refuse("/rule", "the rule is missing".to_owned(), CONDITION_HINT)]),
        Some(rule @ (Value::Object(_) | Value::Bool(_))) => {
            parse(rule, &format!("{path}/rule")).and_then(|parsed| match parsed.root {
                Part::Literal(Value::Object(_)) => {
                    let message = "an object without fields is not an operation".to_owned();
                    Err(vec![refuse("/rule", message, CONDITION_HINT)])
                }
                _ => Ok(parsed),
            })
        }
        Some(other) => {
            let message = format!("a rule is an operation, true or false, not {}", noun(other));
            Err(vec![refuse("/rule", message, CONDITION_HINT)])
        }
    };
    match rule {
        Ok(rule) if problems.is_empty() => Ok(rule),
        Ok(_) => Err(problems),
        Err(more) => {
            problems.extend(more);
            Err(problems)
        }
    }
}

pub(super) fn parse(rule: &Value, path: &str) -> Result<Rule, Vec<Problem>> {
    let size = rule.to_string().len();
    if size > limits::RULE_BYTES {
        let message = format!("the rule has {size} bytes; at most {} are allowed", limits::RULE_BYTES);
        let hint = "move large lists into the context and read them with var";
        return Err(vec![Problem::at(path, message).code(CONDITION_TOO_LARGE).hint(hint)]);
    }
    let mut parser = Parser { problems: Vec::new(), references: Vec::new(), items: 0, is_too_deep: false };
    let root = parser.part(rule, path, 0);
    let Parser { problems, references, .. } = parser;
    if problems.is_empty() { Ok(Rule { root, references }) } else { Err(problems) }
}

struct Parser {
    problems: Vec<Problem>,
    references: Vec<FieldReference>,
    /// How many rules for items of a list are around the current part.
    items: usize,
    is_too_deep: bool,
}

impl Parser {
    /// Parses a part; of a part with a problem the result is not used.
    fn part(&mut self, value: &Value, path: &str, level: usize) -> Part {
        if level > limits::RULE_LEVELS {
            if !self.is_too_deep {
                let message = format!("the rule is nested deeper than {} levels", limits::RULE_LEVELS);
                self.problems.push(Problem::at(path, message).code(CONDITION_TOO_LARGE));
            }
            self.is_too_deep = true;
            return Part::Literal(Value::Null);
        }
        match value {
            Value::Array(items) => {
                let at = |(index, item): (usize, &Value)| self.part(item, &format!("{path}/{index}"), level + 1);
                let parts: Vec<_> = items.iter().enumerate().map(at).collect();
                let is_literal = parts.iter().all(|part| matches!(part, Part::Literal(_)));
                if is_literal { Part::Literal(value.clone()) } else { Part::List(parts) }
            }
            Value::Object(fields) => {
                let mut pairs = fields.iter();
                match (pairs.next(), pairs.next()) {
                    (Some((name, arguments)), None) => self.operation(name, arguments, path, level),
                    _ => self.object(value, path),
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Part::Literal(value.clone()),
        }
    }

    /// An object with several fields is a literal, which is always true: operators in it are a mistake.
    fn object(&mut self, value: &Value, path: &str) -> Part {
        let operator = value.as_object().and_then(|fields| fields.keys().find(|field| Operator::find(field).is_some()));
        if let Some(operator) = operator {
            let message = format!("an object with the operator {operator:?} has no further fields");
            self.refuse(path, message, r#"combine several operations with "and" or "or""#);
        }
        Part::Literal(value.clone())
    }

    fn operation(&mut self, name: &str, arguments: &Value, path: &str, level: usize) -> Part {
        let Some(info) = Operator::find(name) else {
            self.unknown_operator(name, path);
            return Part::Literal(Value::Null);
        };
        let path = format!("{path}/{}", escape(name));
        let list = std::slice::from_ref(arguments);
        let (values, is_list) = arguments.as_array().map_or((list, false), |list| (&**list, true));
        self.check_count(info, values.len(), &path);
        let at = |index: usize| if is_list { format!("{path}/{index}") } else { path.clone() };
        let has_items = matches!(
            info.operator,
            Operator::Map | Operator::Filter | Operator::Reduce | Operator::All | Operator::None | Operator::Some
        );
        let mut parts = Vec::with_capacity(values.len());
        for (index, value) in values.iter().enumerate() {
            let is_for_items = has_items && index == 1;
            self.items += usize::from(is_for_items);
            parts.push(self.part(value, &at(index), level + 1));
            self.items -= usize::from(is_for_items);
        }
        self.note_references(info.operator, &parts, &at);
        if info.operator == Operator::Var { variable(parts) } else { Part::Operation(info.operator, parts) }
    }

    fn check_count(&mut self, info: &OperatorInfo, count: usize, path: &str) {
        if count >= info.arguments_min && info.arguments_max.is_none_or(|most| count <= most) {
            return;
        }
        let expected = match (info.arguments_min, info.arguments_max) {
            (least, Some(most)) if least == most => format!("{least}"),
            (least, Some(most)) => format!("{least} to {most}"),
            (least, None) => format!("at least {least}"),
        };
        let hint = format!("its arguments are: {}", info.arguments);
        self.refuse(path, format!("{:?} takes {expected} arguments, not {count}", info.name), &hint);
    }

    /// Records the paths that are written in the rule.
    fn note_references(&mut self, operator: Operator, parts: &[Part], at: &dyn Fn(usize) -> String) {
        let mut note = |path: &Value, pointer: String| {
            let Some(path) = literal_path(path).filter(|path| !path.is_empty()) else { return };
            if self.items == 0 || path.starts_with('$') {
                self.references.push(FieldReference { path, pointer });
            }
        };
        let keys = match operator {
            Operator::Var => &parts[..parts.len().min(1)],
            Operator::Missing => parts,
            Operator::MissingSome => parts.get(1..).unwrap_or_default(),
            _ => return,
        };
        let offset = usize::from(operator == Operator::MissingSome);
        for (index, part) in keys.iter().enumerate() {
            let pointer = at(index + offset);
            match part {
                Part::Literal(Value::Array(keys)) if operator != Operator::Var => {
                    for (index, key) in keys.iter().enumerate() {
                        note(key, format!("{pointer}/{index}"));
                    }
                }
                Part::Literal(path) => note(path, pointer),
                Part::List(_) | Part::Variable(_) | Part::Operation(..) => {}
            }
        }
    }

    fn unknown_operator(&mut self, name: &str, path: &str) {
        if self.problems.len() >= PROBLEMS_MAX {
            return;
        }
        let hint = match nearest(name, OPERATORS.iter().map(|info| info.name)) {
            Some(near) => format!("did you mean {near:?}?"),
            None => {
                format!("known operators: {}", OPERATORS.iter().map(|info| info.name).collect::<Vec<_>>().join(" "))
            }
        };
        let problem = Problem::at(path, format!("unknown operator {name:?}"));
        self.problems.push(problem.code(CONDITION_UNKNOWN_OPERATOR).hint(hint));
    }

    fn refuse(&mut self, path: &str, message: String, hint: &str) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem::at(path, message).code(CONDITION_NOT_JSON_LOGIC).hint(hint));
        }
    }
}

/// A `var`: with the names of its path, if the path is written in the rule.
fn variable(mut parts: Vec<Part>) -> Part {
    let default = if parts.len() > 1 { parts.pop().map(Box::new) } else { None };
    match parts.pop() {
        None => Part::Variable(Variable { path: Value::String(String::new()), names: Vec::new(), default }),
        Some(Part::Literal(path)) if literal_path(&path).is_some() => {
            let text = literal_path(&path).unwrap_or_default();
            let names = if text.is_empty() { Vec::new() } else { text.split('.').map(str::to_owned).collect() };
            Part::Variable(Variable { path, names, default })
        }
        Some(path) => Part::Operation(Operator::Var, std::iter::once(path).chain(default.map(|part| *part)).collect()),
    }
}

/// The path that a literal text, number or null denotes; null denotes all data.
fn literal_path(path: &Value) -> Option<String> {
    match path {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number_text(number.as_f64()?)),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn noun(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
