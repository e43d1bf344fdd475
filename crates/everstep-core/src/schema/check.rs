//! Checks a value against the rules of a schema, with a pointer to every fault.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde_json::{Map, Number, Value};

use super::Schema;
use super::number::{are_equal, canonical, compare, is_multiple, is_whole};
use super::rule::{ArrayRule, NumberRule, ObjectRule, Rule, RuleId, TextRule, Type};
use super::words::{count, escape, found, shown, type_name};
use crate::evaluate::Fault;

/// Steps of one check. More would occupy a thread for a second or longer: alternatives inside alternatives multiply the
/// work. A step is a rule that is applied, or a part of a long text, list or rule.
pub(super) const STEPS_MAX: u64 = 2_000_000;
/// Bytes that are read or written for the price of one step.
const BYTES_PER_STEP: usize = 64;
/// The nesting depth of rules that one check follows. It bounds the stack.
const DEPTH_MAX: u32 = 400;
/// Faults that one check reports.
const FAULTS_MAX: usize = 100;

/// Whether a template or the name of a secret may replace a part of the value, and which numbers are integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckMode<'r> {
    /// A config as it is saved: a template may take the place of any value outside raw fields, and the name of a
    /// secret the place of a value that is marked `x-secret`. An integer is written without a fraction.
    Saved { raw_fields: &'r [String] },
    /// A config as it is performed: templates are resolved and secrets are revealed.
    Resolved,
    /// Any JSON value, as JSON Schema defines it: 3.0 is an integer.
    Json,
    /// As `Json`, for an object to which fields are added later: required fields may be missing.
    Partial,
}

pub(super) fn check(rules: &[Rule], value: &Value, mode: CheckMode<'_>, steps_max: u64) -> Vec<Fault> {
    let mut checker = Checker {
        rules,
        mode,
        pointer: String::new(),
        faults: Vec::new(),
        faults_max: FAULTS_MAX,
        steps_left: steps_max,
        depth: 0,
        is_exhausted: false,
    };
    checker.check(Schema::ROOT, value);
    if checker.is_exhausted {
        let message = "the schema takes too many steps to check this value; simplify its alternatives".to_owned();
        return vec![Fault { pointer: String::new(), message }];
    }
    checker.faults
}

struct Checker<'s> {
    rules: &'s [Rule],
    mode: CheckMode<'s>,
    /// The place of the present value.
    pointer: String,
    faults: Vec<Fault>,
    faults_max: usize,
    steps_left: u64,
    depth: u32,
    is_exhausted: bool,
}

impl<'s> Checker<'s> {
    /// 1. A template is any value, the name of a secret is a text.
    /// 2. The type comes first: a value of a wrong type is not examined further.
    /// 3. If no alternative fits, the faults of the one whose tag fits are reported.
    fn check(&mut self, id: RuleId, value: &Value) {
        let rule = &self.rules[id.index()];
        self.charge(1 + rule.weight);
        self.depth += 1;
        self.is_exhausted |= self.depth > DEPTH_MAX;
        if !self.is_done() {
            self.apply(rule, value);
        }
        self.depth -= 1;
    }

    /// Charges for steps that are about to be taken.
    fn charge(&mut self, steps: usize) {
        match self.steps_left.checked_sub(steps as u64) {
            Some(left) => self.steps_left = left,
            None => self.is_exhausted = true,
        }
    }

    fn is_done(&self) -> bool {
        self.is_exhausted || self.faults.len() >= self.faults_max
    }

    fn apply(&mut self, rule: &'s Rule, value: &Value) {
        if self.may_come_later() && (is_template(value) || rule.is_secret && is_secret(value)) {
            return;
        }
        if let Some(reference) = rule.reference {
            self.check(reference, value);
        }
        if rule.fits_nothing {
            return self.report("no value is allowed here");
        }
        if let Some(message) = self.wrong_type(rule, value).or_else(|| not_one_of(rule, value)) {
            return self.report(message);
        }
        match value {
            Value::Object(fields) => {
                if let Some(object) = &rule.object {
                    self.check_object(object, fields, value);
                }
            }
            Value::Array(items) => {
                if let Some(array) = &rule.array {
                    self.check_array(array, items);
                }
            }
            Value::String(text) => {
                let of_pattern = rule.text.pattern.as_ref().map_or(0, |pattern| pattern.steps(text));
                self.charge(text.len() / BYTES_PER_STEP + of_pattern);
                if self.is_done() {
                    return;
                }
                if let Some(message) = wrong_text(&rule.text, text) {
                    self.report(message);
                }
            }
            Value::Number(number) => {
                if let Some(message) = wrong_number(&rule.number, number) {
                    self.report(message);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
        for part in &rule.all {
            self.check(*part, value);
        }
        if rule.not.is_some_and(|not| self.fits(not, value)) {
            let not = rule.not.map(|not| &self.rules[not.index()]);
            let message = not.and_then(|not| not.description.as_deref()).unwrap_or("this value is excluded");
            self.report(message);
        }
        if let Some(condition) = rule.condition {
            let branch = if self.fits(condition.test, value) { condition.then } else { condition.otherwise };
            if let Some(branch) = branch {
                self.check(branch, value);
            }
        }
        if !rule.any.is_empty() && !rule.any.iter().any(|shape| self.fits(*shape, value)) {
            self.report_alternatives(&rule.any, value);
        }
        if !rule.one.is_empty() {
            let fitting: Vec<_> = rule.one.iter().copied().filter(|shape| self.fits(*shape, value)).collect();
            match fitting.as_slice() {
                [] => self.report_alternatives(&rule.one, value),
                [_] => {}
                several => {
                    let titles: Vec<_> = several.iter().map(|shape| self.title(*shape)).collect();
                    self.report(format!("only one of these fields is allowed: {}", titles.join(" or ")));
                }
            }
        }
    }

    fn report(&mut self, message: impl Into<String>) {
        if !self.is_done() {
            self.faults.push(Fault { pointer: self.pointer.clone(), message: message.into() });
        }
    }

    /// Calls `act` with the pointer at a part of the present value.
    fn at(&mut self, part: &str, act: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        self.pointer.push('/');
        if part.contains(['~', '/']) {
            self.pointer.push_str(&escape(part));
        } else {
            self.pointer.push_str(part);
        }
        act(self);
        self.pointer.truncate(length);
    }

    fn may_come_later(&self) -> bool {
        match self.mode {
            CheckMode::Saved { raw_fields } => {
                let field = self.pointer.split('/').nth(1);
                field.is_none_or(|field| raw_fields.iter().all(|raw| raw != field))
            }
            CheckMode::Resolved | CheckMode::Json | CheckMode::Partial => false,
        }
    }

    /// Whether a value fits a rule. Its faults are not reported.
    fn fits(&mut self, rule: RuleId, value: &Value) -> bool {
        let faults = std::mem::take(&mut self.faults);
        let faults_max = std::mem::replace(&mut self.faults_max, 1);
        self.check(rule, value);
        let fits = self.faults.is_empty() && !self.is_exhausted;
        self.faults = faults;
        self.faults_max = faults_max;
        fits
    }

    fn check_object(&mut self, rule: &'s ObjectRule, fields: &Map<String, Value>, whole: &Value) {
        let size = fields.len() as u64;
        if let Some(min) = rule.min_fields.filter(|min| size < *min) {
            self.report(format!("it must have at least {}", count(min, "field")));
        }
        if let Some(max) = rule.max_fields.filter(|max| size > *max) {
            self.report(format!("it must have at most {}", count(max, "field")));
        }
        for (field, value) in fields {
            let of_patterns: usize = rule.patterns.iter().map(|(pattern, _)| 1 + pattern.steps(field)).sum();
            self.charge(field.len() / BYTES_PER_STEP + of_patterns);
            if self.is_done() {
                return;
            }
            let property = rule.properties.get(field);
            self.at(field, |this| {
                let mut is_known = false;
                for inner in property
                    .into_iter()
                    .chain(rule.patterns.iter().filter(|(pattern, _)| pattern.is_match(field)).map(|(_, inner)| inner))
                {
                    is_known = true;
                    this.check(*inner, value);
                }
                let others = rule.others.filter(|_| !is_known);
                match others.map(|others| (others, this.rules[others.index()].fits_nothing)) {
                    Some((_, true)) => {
                        let known = if rule.names.is_empty() { "none".to_owned() } else { rule.names.join(", ") };
                        this.report(format!("the field `{field}` does not exist; the fields are {known}"));
                    }
                    Some((others, false)) => this.check(others, value),
                    None => {}
                }
                if let Some(names) = rule.field_names
                    && !this.fits(names, &Value::from(field.as_str()))
                {
                    this.report(format!("a field cannot be named `{}`", shown(&Value::from(field.as_str()))));
                }
            });
        }
        let required = if self.mode == CheckMode::Partial { &[][..] } else { &rule.required };
        for field in required {
            if !fields.contains_key(field) {
                self.at(field, |this| this.report(format!("`{field}` is missing")));
            }
        }
        for (field, needed) in rule.dependent.iter().filter(|(field, _)| fields.contains_key(field)) {
            for needed in needed.iter().filter(|needed| !fields.contains_key(*needed)) {
                self.at(needed, |this| this.report(format!("`{needed}` is missing; `{field}` needs it")));
            }
        }
        for (_, inner) in rule.dependent_rules.iter().filter(|(field, _)| fields.contains_key(field)) {
            self.check(*inner, whole);
        }
    }

    fn check_array(&mut self, rule: &'s ArrayRule, items: &[Value]) {
        let size = items.len() as u64;
        if let Some(min) = rule.min_items.filter(|min| size < *min) {
            let message =
                if min == 1 { "it must not be empty".to_owned() } else { format!("it must have at least {min} items") };
            self.report(message);
        }
        if let Some(max) = rule.max_items.filter(|max| size > *max) {
            self.report(format!("it must have at most {}", count(max, "item")));
        }
        if rule.is_unique {
            let mut seen = BTreeSet::new();
            let repeated = items.iter().position(|item| {
                let text = canonical(item);
                self.charge(1 + text.len() / BYTES_PER_STEP);
                self.is_exhausted || !seen.insert(text)
            });
            if let Some(at) = repeated {
                self.at(&at.to_string(), |this| this.report("this item occurs twice"));
            }
        }
        for (index, item) in items.iter().enumerate() {
            let Some(inner) = rule.first.get(index).copied().or(rule.items) else { break };
            if self.is_done() {
                return;
            }
            self.at(&index.to_string(), |this| this.check(inner, item));
        }
        if let Some(contains) = rule.contains {
            let fitting = items.iter().filter(|item| self.fits(contains.rule, item)).count() as u64;
            if fitting < contains.min {
                let wanted = self.title(contains.rule);
                self.report(format!("it must contain at least {} that fit: {wanted}", count(contains.min, "item")));
            }
            if let Some(max) = contains.max.filter(|max| fitting > *max) {
                let wanted = self.title(contains.rule);
                self.report(format!("it must contain at most {} that fit: {wanted}", count(max, "item")));
            }
        }
    }

    /// No alternative fits. If the tags of exactly one alternative fit, its faults are reported.
    fn report_alternatives(&mut self, shapes: &[RuleId], value: &Value) {
        // In a trial only the verdict counts. Without this, each alternative inside another doubles the work.
        if self.faults_max == 1 {
            return self.report("no alternative fits");
        }
        let meant: Vec<_> = shapes.iter().copied().filter(|shape| self.fits_tag(*shape, value)).collect();
        match meant.as_slice() {
            [shape] => self.check(*shape, value),
            _ => {
                let titles: Vec<_> = shapes.iter().map(|shape| self.title(*shape)).collect();
                self.report(format!("expected {}", titles.join(" or ")));
            }
        }
    }

    /// The rule at the end of a chain of references.
    fn resolve(&self, id: RuleId) -> &'s Rule {
        let mut rule = &self.rules[id.index()];
        // A reference never leads back to itself: that is checked when the schema is compiled.
        while let Some(reference) = rule.reference {
            rule = &self.rules[reference.index()];
        }
        rule
    }

    /// Whether a value has the tags of an alternative.
    fn fits_tag(&self, shape: RuleId, value: &Value) -> bool {
        let shape = self.resolve(shape);
        let Some(fields) = value.as_object() else { return self.wrong_type(shape, value).is_none() };
        let Some(object) = &shape.object else { return false };
        let mut tags = self.tags(object).peekable();
        if tags.peek().is_some() {
            return tags.all(|(field, tag)| fields.get(field) == Some(tag));
        }
        object.required.iter().any(|field| fields.contains_key(field))
    }

    /// The fields of an alternative that have only one value.
    fn tags<'o>(&self, object: &'o ObjectRule) -> impl Iterator<Item = (&'o str, &'s Value)> {
        let rules = self.rules;
        let fields = object.names.iter().map(|name| (name.as_str(), object.properties[name]));
        fields.filter_map(move |(name, rule)| Some((name, rules[rule.index()].constant.as_ref()?)))
    }

    /// An alternative in a few words.
    fn title(&self, shape: RuleId) -> String {
        let resolved = self.resolve(shape);
        let inner = if resolved.any.is_empty() { &resolved.one } else { &resolved.any };
        if inner.is_empty() || resolved.title.is_some() {
            return self.title_of_one(shape);
        }
        // Alternatives inside an alternative are listed, but not those inside them, which may be recursive.
        inner.iter().map(|shape| self.title_of_one(*shape)).collect::<Vec<_>>().join(" or ")
    }

    fn title_of_one(&self, shape: RuleId) -> String {
        let own = &self.rules[shape.index()];
        let shape = self.resolve(shape);
        if let Some(title) = own.title.as_ref().or(shape.title.as_ref()) {
            return title.clone();
        }
        if let Some((field, tag)) = shape.object.as_ref().and_then(|object| self.tags(object).next()) {
            return format!("{{\"{field}\": {tag}, …}}");
        }
        if let Some(constant) = &shape.constant {
            return shown(constant);
        }
        if let Some(types) = &shape.types {
            return types.iter().map(|kind| type_name(*kind)).collect::<Vec<_>>().join(" or ");
        }
        match shape.object.as_ref().and_then(|object| object.required.first()) {
            Some(field) => format!("`{field}`"),
            None => "another value".to_owned(),
        }
    }

    fn wrong_type(&self, rule: &Rule, value: &Value) -> Option<String> {
        let types = rule.types.as_ref()?;
        let is = |kind: &Type| match kind {
            Type::Null => value.is_null(),
            Type::Boolean => value.is_boolean(),
            Type::Integer if matches!(self.mode, CheckMode::Json | CheckMode::Partial) => {
                value.as_number().is_some_and(is_whole)
            }
            Type::Integer => value.is_u64() || value.is_i64(),
            Type::Number => value.is_number(),
            Type::String => value.is_string(),
            Type::Array => value.is_array(),
            Type::Object => value.is_object(),
        };
        if types.iter().any(is) {
            return None;
        }
        let is_only_null = types.iter().all(|kind| *kind == Type::Null);
        let wanted = types.iter().filter(|kind| is_only_null || **kind != Type::Null).map(|kind| type_name(*kind));
        let wanted = wanted.collect::<Vec<_>>().join(" or ");
        let found = match value {
            Value::Number(number) if types.contains(&Type::Integer) => number.to_string(),
            value => found(value).to_owned(),
        };
        Some(format!("expected {wanted}, found {found}"))
    }
}

fn not_one_of(rule: &Rule, value: &Value) -> Option<String> {
    for choices in [rule.choices.as_deref(), rule.constant.as_ref().map(std::slice::from_ref)].into_iter().flatten() {
        if !choices.iter().any(|choice| are_equal(choice, value)) {
            let words: Vec<_> = choices.iter().map(shown).collect();
            return Some(match words.as_slice() {
                [word] => format!("it must be {word}"),
                words => format!("expected one of {}", words.join(", ")),
            });
        }
    }
    None
}

fn wrong_text(rule: &TextRule, text: &str) -> Option<String> {
    if rule.min_length.is_some() || rule.max_length.is_some() {
        let length = text.chars().count() as u64;
        if let Some(min) = rule.min_length.filter(|min| length < *min) {
            return Some(match min {
                1 => "it must not be empty".to_owned(),
                min => format!("it must have at least {min} characters"),
            });
        }
        if let Some(max) = rule.max_length.filter(|max| length > *max) {
            return Some(format!("it must have at most {}", count(max, "character")));
        }
    }
    if let Some(pattern) = rule.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        return Some(match pattern.source.as_str() {
            r"\S" => "it must not be empty".to_owned(),
            source => format!("it does not match the pattern {source}"),
        });
    }
    let format = rule.format.filter(|format| !format.fits(text))?;
    Some(format!("expected {}", format.describe()))
}

fn wrong_number(rule: &NumberRule, number: &Number) -> Option<String> {
    let NumberRule { minimum, maximum, above, below, multiple_of } = rule;
    let is_within = minimum.as_ref().is_none_or(|least| compare(number, least) != Ordering::Less)
        && maximum.as_ref().is_none_or(|most| compare(number, most) != Ordering::Greater)
        && above.as_ref().is_none_or(|above| compare(number, above) == Ordering::Greater)
        && below.as_ref().is_none_or(|below| compare(number, below) == Ordering::Less);
    if !is_within {
        let range = match (minimum, maximum) {
            (Some(least), Some(most)) => Some(format!("between {least} and {most}")),
            (Some(least), None) => Some(format!("at least {least}")),
            (None, Some(most)) => Some(format!("at most {most}")),
            (None, None) => None,
        };
        let above = above.as_ref().map(|above| format!("more than {above}"));
        let below = below.as_ref().map(|below| format!("less than {below}"));
        let ranges: Vec<_> = [range, above, below].into_iter().flatten().collect();
        return Some(format!("{number} is out of range: it must be {}", ranges.join(" and ")));
    }
    let unit = multiple_of.as_ref().filter(|unit| !is_multiple(number, unit))?;
    Some(format!("{number} is not a multiple of {unit}"))
}

/// Whether a value is computed when the step runs.
fn is_template(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{"),
        Value::Object(object) => object.len() == 1 && object.contains_key("$expr"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    }
}

fn is_secret(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.len() == 1 && object.contains_key("$secret"))
}
