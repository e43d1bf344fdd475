//! Compiles a schema. Every keyword is checked when values are checked, is an annotation, or is refused.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use super::format::Format;
use super::pattern::Pattern;
use super::rule::{ArrayRule, Condition, Contains, ObjectRule, Rule, RuleId, Type};
use super::words::{escape, found};
use super::{Schema, number};
use crate::evaluate::Fault;

/// Keywords that do not restrict the values that fit.
const ANNOTATIONS: &[&str] =
    &["$comment", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"];
/// The dialect, as `$schema` names it.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// Regular expressions of one schema. Each compiled one takes memory.
const PATTERNS_MAX: usize = 100;

/// What is wrong with a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It is not well-formed.
    Invalid,
    /// It uses a keyword that this server does not check.
    Keyword,
}

/// The origin of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    User,
    /// This build. Such a schema marks fields that may name a secret with `x-secret`, and numbers with their Rust type.
    BuiltIn,
}

pub(super) fn compile(source: &Value, dialect: Dialect) -> Result<Schema, Vec<(FaultKind, Fault)>> {
    let mut compiler = Compiler {
        source,
        dialect,
        rules: Vec::new(),
        places: BTreeMap::new(),
        todo: Vec::new(),
        faults: Vec::new(),
        patterns: 0,
    };
    compiler.place(String::new());
    // Schemas inside the schema are compiled one after the other: recursion could exhaust the stack.
    while let Some((pointer, id)) = compiler.todo.pop() {
        let mut rule = match source.pointer(&pointer) {
            Some(value) => compiler.rule(&pointer, value),
            None => Rule::default(),
        };
        rule.weigh();
        compiler.rules[id.index()] = rule;
    }
    if compiler.faults.is_empty() {
        compiler.check_cycles();
    }
    if !compiler.faults.is_empty() {
        compiler.faults.sort_by(|(_, one), (_, other)| one.pointer.cmp(&other.pointer));
        return Err(compiler.faults);
    }
    Ok(Schema { source: source.clone(), rules: compiler.rules })
}

struct Compiler<'s> {
    source: &'s Value,
    dialect: Dialect,
    rules: Vec<Rule>,
    /// The rules of the places that were visited.
    places: BTreeMap<String, RuleId>,
    /// Places whose rules are not yet compiled.
    todo: Vec<(String, RuleId)>,
    faults: Vec<(FaultKind, Fault)>,
    patterns: usize,
}

impl Compiler<'_> {
    fn fault(&mut self, pointer: impl Into<String>, message: impl Into<String>) {
        let fault = Fault { pointer: pointer.into(), message: message.into() };
        self.faults.push((FaultKind::Invalid, fault));
    }

    /// The rule of the schema at a place.
    fn place(&mut self, pointer: String) -> RuleId {
        if let Some(id) = self.places.get(&pointer) {
            return *id;
        }
        let id = RuleId(u32::try_from(self.rules.len()).expect("a schema is small"));
        self.rules.push(Rule::default());
        self.places.insert(pointer.clone(), id);
        self.todo.push((pointer, id));
        id
    }

    fn rule(&mut self, pointer: &str, value: &Value) -> Rule {
        let mut rule = Rule::default();
        let keywords = match value {
            Value::Bool(fits) => return Rule { fits_nothing: !fits, ..rule },
            Value::Object(keywords) => keywords,
            other => {
                self.fault(pointer, format!("expected a schema, found {}", found(other)));
                return rule;
            }
        };
        let mut object = ObjectRule::default();
        let mut array = ArrayRule::default();
        let mut largest = None;
        let mut has_object = false;
        let mut has_array = false;
        for (keyword, value) in keywords {
            let at = format!("{pointer}/{}", escape(keyword));
            match keyword.as_str() {
                "title" => rule.title = value.as_str().map(str::to_owned),
                "description" => rule.description = value.as_str().map(str::to_owned),
                "$ref" => rule.reference = self.reference(&at, value),
                "$defs" => drop(self.named(&at, value)),
                "$schema" | "$id" if pointer.is_empty() => self.check_identity(keyword, &at, value),
                "type" => rule.types = self.types(&at, value),
                "enum" => rule.choices = self.list(&at, value).map(<[Value]>::to_vec),
                "const" => rule.constant = Some(value.clone()),
                "minLength" => rule.text.min_length = self.count(&at, value),
                "maxLength" => rule.text.max_length = self.count(&at, value),
                "pattern" => rule.text.pattern = self.text(&at, value).and_then(|text| self.pattern(&at, text)),
                "format" => self.format(&at, value, &mut rule, &mut largest),
                "minimum" => rule.number.minimum = self.number(&at, value),
                "maximum" => rule.number.maximum = self.number(&at, value),
                "exclusiveMinimum" => rule.number.above = self.number(&at, value),
                "exclusiveMaximum" => rule.number.below = self.number(&at, value),
                "multipleOf" => rule.number.multiple_of = self.unit(&at, value),
                "allOf" => rule.all = self.schemas(&at, value),
                "anyOf" => rule.any = self.schemas(&at, value),
                "oneOf" => rule.one = self.schemas(&at, value),
                "not" => rule.not = Some(self.place(at)),
                "if" => {
                    let branch = |name: &str| keywords.contains_key(name).then(|| format!("{pointer}/{name}"));
                    let (then, otherwise) = (branch("then"), branch("else"));
                    let test = self.place(at);
                    let then = then.map(|place| self.place(place));
                    let otherwise = otherwise.map(|place| self.place(place));
                    rule.condition = Some(Condition { test, then, otherwise });
                }
                "then" | "else" => self.needs(keywords, "if", keyword, &at),
                "x-secret" if self.dialect == Dialect::BuiltIn => rule.is_secret = *value == Value::Bool(true),
                _ if ANNOTATIONS.contains(&keyword.as_str()) => {}
                _ if keyword.starts_with("x-") && keyword != "x-secret" => {}
                _ if self.object_keyword(keyword, &at, value, &mut object) => has_object = true,
                _ if self.array_keyword(keyword, &at, value, keywords, &mut array) => has_array = true,
                _ => self.refuse(keyword, &at),
            }
        }
        // A bound that the schema states itself is the narrower one.
        rule.number.maximum = rule.number.maximum.take().or(largest);
        rule.object = has_object.then(|| Box::new(object));
        rule.array = has_array.then(|| Box::new(array));
        rule
    }

    /// Reads a keyword for objects; false for any other keyword.
    fn object_keyword(&mut self, keyword: &str, at: &str, value: &Value, rule: &mut ObjectRule) -> bool {
        match keyword {
            "properties" => {
                for (name, id) in self.named(at, value) {
                    rule.names.push(name.clone());
                    rule.properties.insert(name, id);
                }
            }
            "patternProperties" => {
                for (source, id) in self.named(at, value) {
                    let place = format!("{at}/{}", escape(&source));
                    if let Some(pattern) = self.pattern(&place, &source) {
                        rule.patterns.push((pattern, id));
                    }
                }
            }
            "additionalProperties" => rule.others = Some(self.place(at.to_owned())),
            "propertyNames" => rule.field_names = Some(self.place(at.to_owned())),
            "required" => rule.required = self.texts(at, value),
            "dependentRequired" => {
                for (field, needed) in self.fields(at, value).into_iter().flatten() {
                    let needed = self.texts(&format!("{at}/{}", escape(field)), needed);
                    rule.dependent.push((field.clone(), needed));
                }
            }
            "dependentSchemas" => rule.dependent_rules = self.named(at, value),
            "minProperties" => rule.min_fields = self.count(at, value),
            "maxProperties" => rule.max_fields = self.count(at, value),
            _ => return false,
        }
        true
    }

    /// Reads a keyword for arrays; false for any other keyword.
    fn array_keyword(
        &mut self,
        keyword: &str,
        at: &str,
        value: &Value,
        keywords: &Map<String, Value>,
        rule: &mut ArrayRule,
    ) -> bool {
        match keyword {
            "items" if value.is_array() => self.fault(at, "expected a schema; a list of schemas is `prefixItems`"),
            "items" => rule.items = Some(self.place(at.to_owned())),
            "prefixItems" => rule.first = self.schemas(at, value),
            "minItems" => rule.min_items = self.count(at, value),
            "maxItems" => rule.max_items = self.count(at, value),
            "uniqueItems" => match value.as_bool() {
                Some(is_unique) => rule.is_unique = is_unique,
                None => self.fault(at, format!("expected true or false, found {}", found(value))),
            },
            "contains" => {
                let bound = |name: &str| keywords.get(name).and_then(Value::as_u64);
                let (min, max) = (bound("minContains").unwrap_or(1), bound("maxContains"));
                rule.contains = Some(Contains { rule: self.place(at.to_owned()), min, max });
            }
            "minContains" | "maxContains" => {
                self.count(at, value);
                self.needs(keywords, "contains", keyword, at);
            }
            _ => return false,
        }
        true
    }

    fn refuse(&mut self, keyword: &str, at: &str) {
        let message = match keyword {
            "definitions" => "`definitions` is called `$defs` in JSON Schema 2020-12".to_owned(),
            "dependencies" => "`dependencies` is `dependentRequired` or `dependentSchemas`".to_owned(),
            "$schema" | "$id" => format!("`{keyword}` belongs to the top level of the schema"),
            keyword => format!("`{keyword}` is not a keyword that this server checks"),
        };
        self.faults.push((FaultKind::Keyword, Fault { pointer: at.to_owned(), message }));
    }

    fn needs(&mut self, keywords: &Map<String, Value>, other: &str, keyword: &str, at: &str) {
        if !keywords.contains_key(other) {
            self.fault(at, format!("`{keyword}` has no meaning without `{other}`"));
        }
    }

    fn check_identity(&mut self, keyword: &str, at: &str, value: &Value) {
        let Some(text) = self.text(at, value) else { return };
        if keyword == "$schema" && text.trim_end_matches('#') != DIALECT {
            self.fault(at, format!("this server checks JSON Schema 2020-12: {DIALECT}"));
        }
    }

    fn reference(&mut self, at: &str, value: &Value) -> Option<RuleId> {
        let text = self.text(at, value)?;
        let pointer = match text.strip_prefix('#') {
            Some(pointer) if pointer.is_empty() || pointer.starts_with('/') => pointer,
            _ => {
                self.fault(at, "a reference is a JSON pointer in the same schema, such as #/$defs/address");
                return None;
            }
        };
        match self.source.pointer(pointer) {
            Some(_) => Some(self.place(pointer.to_owned())),
            None => {
                self.fault(at, format!("the schema has nothing at {text}"));
                None
            }
        }
    }

    fn types(&mut self, at: &str, value: &Value) -> Option<Vec<Type>> {
        let names = match value {
            Value::Array(names) => names.as_slice(),
            name => std::slice::from_ref(name),
        };
        let types: Option<Vec<Type>> = names.iter().map(type_from_name).collect();
        match types {
            Some(types) if !types.is_empty() => Some(types),
            _ => {
                let known = "null, boolean, integer, number, string, array, object";
                self.fault(at, format!("a type is one of {known}"));
                None
            }
        }
    }

    fn format(&mut self, at: &str, value: &Value, rule: &mut Rule, largest: &mut Option<Number>) {
        let Some(name) = self.text(at, value) else { return };
        if let Some(format) = Format::find(name) {
            rule.text.format = Some(format);
        } else if let Some(of_type) = largest_of(name).filter(|_| self.dialect == Dialect::BuiltIn) {
            *largest = of_type.map(Number::from);
        } else {
            let known = Format::names();
            self.fault(at, format!("{name:?} is not a format that this server checks; it checks {known}"));
        }
    }

    /// The schemas of an object, by their names.
    fn named(&mut self, at: &str, value: &Value) -> Vec<(String, RuleId)> {
        let fields = self.fields(at, value).into_iter().flatten();
        fields.map(|(name, _)| (name.clone(), self.place(format!("{at}/{}", escape(name))))).collect()
    }

    fn schemas(&mut self, at: &str, value: &Value) -> Vec<RuleId> {
        let items = self.list(at, value).unwrap_or_default();
        (0..items.len()).map(|index| self.place(format!("{at}/{index}"))).collect()
    }

    fn fields<'v>(&mut self, at: &str, value: &'v Value) -> Option<&'v Map<String, Value>> {
        if !value.is_object() {
            self.fault(at, format!("expected an object, found {}", found(value)));
        }
        value.as_object()
    }

    fn list<'v>(&mut self, at: &str, value: &'v Value) -> Option<&'v [Value]> {
        match value.as_array() {
            Some(items) if !items.is_empty() => Some(items),
            Some(_) => {
                self.fault(at, "the list is empty");
                None
            }
            None => {
                self.fault(at, format!("expected an array, found {}", found(value)));
                None
            }
        }
    }

    fn text<'v>(&mut self, at: &str, value: &'v Value) -> Option<&'v str> {
        if !value.is_string() {
            self.fault(at, format!("expected a string, found {}", found(value)));
        }
        value.as_str()
    }

    fn texts(&mut self, at: &str, value: &Value) -> Vec<String> {
        let texts = value.as_array().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)));
        match texts.and_then(Iterator::collect::<Option<Vec<_>>>) {
            Some(texts) => texts,
            None => {
                self.fault(at, "expected a list of names");
                Vec::new()
            }
        }
    }

    fn number(&mut self, at: &str, value: &Value) -> Option<Number> {
        if !value.is_number() {
            self.fault(at, format!("expected a number, found {}", found(value)));
        }
        value.as_number().cloned()
    }

    fn unit(&mut self, at: &str, value: &Value) -> Option<Number> {
        let unit = self.number(at, value)?;
        if number::compare(&unit, &Number::from(0)) != std::cmp::Ordering::Greater {
            self.fault(at, "expected a number above 0");
            return None;
        }
        Some(unit)
    }

    fn count(&mut self, at: &str, value: &Value) -> Option<u64> {
        let whole = value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0).map(|number| number as u64);
        let count = value.as_u64().or(whole);
        if count.is_none() {
            self.fault(at, "expected a whole number from 0");
        }
        count
    }

    fn pattern(&mut self, at: &str, source: &str) -> Option<Pattern> {
        self.patterns += 1;
        if self.patterns == PATTERNS_MAX + 1 {
            self.fault(at, format!("a schema has at most {PATTERNS_MAX} regular expressions"));
        }
        if self.patterns > PATTERNS_MAX {
            return None;
        }
        match Pattern::compile(source) {
            Ok(pattern) => Some(pattern),
            Err(message) => {
                self.fault(at, message);
                None
            }
        }
    }

    /// Refuses rules that apply themselves to the same value: checking would not end.
    fn check_cycles(&mut self) {
        let mut applied = vec![0_u32; self.rules.len()];
        for inner in self.rules.iter().flat_map(Rule::in_place) {
            applied[inner.index()] += 1;
        }
        let mut free: Vec<usize> = (0..applied.len()).filter(|rule| applied[*rule] == 0).collect();
        let mut sorted = 0;
        while let Some(rule) = free.pop() {
            sorted += 1;
            for inner in self.rules[rule].in_place() {
                applied[inner.index()] -= 1;
                if applied[inner.index()] == 0 {
                    free.push(inner.index());
                }
            }
        }
        if sorted < self.rules.len() {
            let in_cycle = self.places.iter().find(|(_, id)| applied[id.index()] > 0);
            let pointer = in_cycle.map(|(pointer, _)| pointer.clone()).unwrap_or_default();
            self.fault(pointer, "the schema refers to itself without descending into the value");
        }
    }
}

/// The largest number of a Rust type, for types that the reader of a config checks; `None` for another format.
fn largest_of(name: &str) -> Option<Option<u64>> {
    match name {
        "uint8" => Some(Some(u64::from(u8::MAX))),
        "uint16" => Some(Some(u64::from(u16::MAX))),
        "uint32" => Some(Some(u64::from(u32::MAX))),
        "uint" | "uint64" | "int" | "int32" | "int64" | "float" | "double" => Some(None),
        _ => None,
    }
}

fn type_from_name(name: &Value) -> Option<Type> {
    Some(match name.as_str()? {
        "null" => Type::Null,
        "boolean" => Type::Boolean,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "string" => Type::String,
        "array" => Type::Array,
        "object" => Type::Object,
        _ => return None,
    })
}
