//! The rules of a schema. A rule refers to others by their numbers.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use super::format::Format;
use super::pattern::Pattern;

/// The number of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RuleId(pub(super) u32);

impl RuleId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// One schema, or a schema inside it.
#[derive(Clone, Debug, Default)]
pub(super) struct Rule {
    /// The steps that its values and names add to each check.
    pub(super) weight: usize,
    /// The schema `false`, which no value fits.
    pub(super) fits_nothing: bool,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    /// Whether a saved config may name a secret in place of the value.
    pub(super) is_secret: bool,
    pub(super) reference: Option<RuleId>,
    /// Without one, any type fits.
    pub(super) types: Option<Vec<Type>>,
    pub(super) choices: Option<Vec<Value>>,
    pub(super) constant: Option<Value>,
    pub(super) text: TextRule,
    pub(super) number: NumberRule,
    pub(super) object: Option<Box<ObjectRule>>,
    pub(super) array: Option<Box<ArrayRule>>,
    pub(super) all: Vec<RuleId>,
    pub(super) any: Vec<RuleId>,
    pub(super) one: Vec<RuleId>,
    pub(super) not: Option<RuleId>,
    pub(super) condition: Option<Condition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TextRule {
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) pattern: Option<Pattern>,
    pub(super) format: Option<Format>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct NumberRule {
    pub(super) minimum: Option<Number>,
    pub(super) maximum: Option<Number>,
    pub(super) above: Option<Number>,
    pub(super) below: Option<Number>,
    pub(super) multiple_of: Option<Number>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ObjectRule {
    pub(super) properties: BTreeMap<String, RuleId>,
    /// The names of the properties, as the schema lists them.
    pub(super) names: Vec<String>,
    pub(super) patterns: Vec<(Pattern, RuleId)>,
    /// For fields that neither `properties` nor `patternProperties` names.
    pub(super) others: Option<RuleId>,
    pub(super) field_names: Option<RuleId>,
    pub(super) required: Vec<String>,
    pub(super) dependent: Vec<(String, Vec<String>)>,
    pub(super) dependent_rules: Vec<(String, RuleId)>,
    pub(super) min_fields: Option<u64>,
    pub(super) max_fields: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ArrayRule {
    pub(super) first: Vec<RuleId>,
    /// For the items after `first`.
    pub(super) items: Option<RuleId>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) is_unique: bool,
    pub(super) contains: Option<Contains>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Contains {
    pub(super) rule: RuleId,
    pub(super) min: u64,
    pub(super) max: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Condition {
    pub(super) test: RuleId,
    pub(super) then: Option<RuleId>,
    pub(super) otherwise: Option<RuleId>,
}

/// Bytes of the values and names of a rule for the price of one step.
const BYTES_PER_STEP: usize = 64;

impl Rule {
    /// Computes the weight: a check compares a value with every choice, and an object with every name.
    pub(super) fn weigh(&mut self) {
        let choices = self.choices.iter().flatten().chain(&self.constant).map(|choice| choice.to_string().len() + 8);
        let names = self.object.iter().flat_map(|object| {
            let dependent = object.dependent.iter().flat_map(|(field, needed)| std::iter::once(field).chain(needed));
            object.names.iter().chain(&object.required).chain(dependent)
        });
        let bytes = choices.chain(names.map(|name| name.len() + 8)).sum::<usize>();
        self.weight = bytes / BYTES_PER_STEP;
    }

    /// The rules that are applied to the same value.
    pub(super) fn in_place(&self) -> impl Iterator<Item = RuleId> {
        let condition = self.condition.into_iter().flat_map(|it| [Some(it.test), it.then, it.otherwise]).flatten();
        let dependent = self.object.iter().flat_map(|object| object.dependent_rules.iter().map(|(_, rule)| *rule));
        let lists = [&self.all, &self.any, &self.one].into_iter().flatten().copied();
        self.reference.into_iter().chain(lists).chain(self.not).chain(condition).chain(dependent)
    }
}
