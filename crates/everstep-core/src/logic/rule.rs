//! A rule: the tree that its JSON was parsed into.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::code;
use super::datum::Datum;
use super::evaluate::Evaluator;
use super::fuel::{Error, Fuel};
use super::operator::Operator;
use super::{Explanation, explain, parse};
use crate::definition::Problem;

/// The variables that conditions of state machines read beside the context, each with a sentence for the reference.
pub const VARIABLES: &[(&str, &str)] = &[
    ("$user", "The person who acts: `{id, name, roles}`."),
    ("$action", "The name of the action."),
    ("$data", "The data of the request."),
    ("$comment", "The comment of the request."),
    ("$state", "The name of the current state."),
    ("$versionNo", "The number of the transitions so far, with the start."),
    ("$now", "The time of the decision, in RFC 3339."),
    ("$startedBy", "The person or program that started the run."),
    ("$votes", "The votes of the current state."),
];

/// A rule of JSON Logic, checked and ready to be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub(super) root: Part,
    pub(super) references: Vec<FieldReference>,
}

/// The values that a rule reads.
#[derive(Clone, Copy, Debug)]
pub struct RuleInput<'a> {
    /// The data that `var` reads at the top of a rule.
    pub context: &'a Value,
    /// Values beside the context, by names such as `$user`. `var` finds them at every level, before any field of the
    /// same name in the data.
    pub variables: &'a BTreeMap<&'static str, Value>,
}

/// Whether a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Holds,
    /// The result of the rule is false.
    Fails,
    /// The evaluation ended at one of its bounds, so the rule does not hold.
    TooCostly,
}

/// A path that a rule reads from the data at its top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldReference {
    /// As written in the rule: `order.total`, `$user.id`.
    pub path: String,
    /// Where in the definition, as a JSON pointer.
    pub pointer: String,
}

/// A part of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    /// A literal value.
    Literal(Value),
    List(Vec<Part>),
    /// A `var` whose path is written in the rule.
    Variable(Variable),
    Operation(Operator, Vec<Part>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variable {
    /// As written in the rule: a text, a number or null.
    pub(super) path: Value,
    /// The names on the path, none if all data is meant.
    pub(super) names: Vec<String>,
    pub(super) default: Option<Box<Part>>,
}

impl Rule {
    /// Parses a rule. Any value is one: a value without operators is its own result. `path` is where the rule is in its
    /// definition, as a JSON pointer.
    pub fn parse(rule: &Value, path: &str) -> Result<Self, Vec<Problem>> {
        parse::parse(rule, path)
    }

    /// Parses the rule of a condition, `{type: "json-logic", rule}`. The rule must be an operation, true or false: any
    /// other value would be a condition that always or never holds.
    pub fn from_condition(condition: &Value, path: &str) -> Result<Self, Vec<Problem>> {
        parse::parse_condition(condition, path)
    }

    /// Whether the rule holds: whether its result is true, within the bounds of one evaluation.
    pub fn judge(&self, input: RuleInput<'_>) -> Verdict {
        self.judge_with(input, &mut Fuel::full())
    }

    /// As `judge`, with the fuel that is given; afterwards it states what the evaluation used.
    pub fn judge_with(&self, input: RuleInput<'_>, fuel: &mut Fuel) -> Verdict {
        let result = Evaluator::new(input.variables, fuel).evaluate(&self.root, &Datum::Json(input.context));
        match result {
            Ok(datum) if datum.is_truthy() => Verdict::Holds,
            Ok(_) => Verdict::Fails,
            Err(Error) => Verdict::TooCostly,
        }
    }

    /// The result of the rule as JSON.
    pub fn evaluate(&self, input: RuleInput<'_>, fuel: &mut Fuel) -> Result<Value, Error> {
        let datum = Evaluator::new(input.variables, fuel).evaluate(&self.root, &Datum::Json(input.context))?;
        datum.to_json(fuel)
    }

    /// Why a rule does not hold: its innermost parts that are false, each with the values that it reads. Empty if the
    /// rule holds, or if its evaluation exceeds a bound.
    pub fn explain(&self, input: RuleInput<'_>) -> Vec<Explanation> {
        self.explain_with(input, &mut Fuel::full())
    }

    /// As `explain`, with the fuel that is given; afterwards it states what the explanation used.
    pub fn explain_with(&self, input: RuleInput<'_>, fuel: &mut Fuel) -> Vec<Explanation> {
        explain::explain(&self.root, input, fuel)
    }

    /// The paths that `var` and `missing` read from the data at the top of the rule, in the order of the rule. Paths
    /// that the rule computes, and paths inside the items of a list, are not among them; `$user` and the like are.
    pub fn references(&self) -> &[FieldReference] {
        &self.references
    }
}

impl Verdict {
    pub fn holds(self) -> bool {
        self == Self::Holds
    }

    /// The code of the reason why the rule does not hold.
    pub fn code(self) -> Option<&'static str> {
        match self {
            Self::Holds => None,
            Self::Fails => Some(code::CONDITION_FAILED),
            Self::TooCostly => Some(code::CONDITION_TOO_COSTLY),
        }
    }
}

impl Part {
    /// The part as JSON. A single argument is written without a list around it, unless it is a list itself.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Literal(value) => value.clone(),
            Self::List(parts) => parts.iter().map(Self::to_json).collect(),
            Self::Variable(Variable { path, default, .. }) => match default {
                None => json!({"var": path}),
                Some(default) => json!({"var": [path, default.to_json()]}),
            },
            Self::Operation(operator, arguments) => {
                let mut arguments: Vec<_> = arguments.iter().map(Self::to_json).collect();
                let arguments = match arguments.pop() {
                    Some(argument) if arguments.is_empty() && !argument.is_array() => argument,
                    argument => Value::Array(arguments.into_iter().chain(argument).collect()),
                };
                json!({ operator.name(): arguments })
            }
        }
    }
}
