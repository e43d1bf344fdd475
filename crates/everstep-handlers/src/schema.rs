//! Checks a config against its JSON Schema, with a pointer to every fault.
//!
//! It knows the words that our own schemas use, and no others.

use everstep_core::evaluate::Fault;
use regex::Regex;
use serde_json::{Map, Value};

/// Whether a value may still hold what is put in later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckMode<'r> {
    /// As it is saved: a template may stand for any value, and a secret's name for one that is marked `x-secret`.
    /// Raw fields are what they are.
    Saved { raw_fields: &'r [String] },
    /// As it is performed: everything is resolved and revealed.
    Resolved,
}

/// What is wrong with a value.
pub fn check(schema: &Value, value: &Value, mode: CheckMode<'_>) -> Vec<Fault> {
    let mut checker = Checker { root: schema, mode, faults: Vec::new() };
    checker.check(schema, value, "");
    checker.faults
}

/// The places that may name a secret, as JSON pointers: `*` is any one part, `**` any number of them.
pub fn secret_pointers(schema: &Value) -> Vec<String> {
    let mut places = Vec::new();
    find_secrets(schema, schema, "", &mut places);
    places.dedup();
    places
}

struct Checker<'s> {
    root: &'s Value,
    mode: CheckMode<'s>,
    faults: Vec<Fault>,
}

impl Checker<'_> {
    fn report(&mut self, pointer: &str, message: impl Into<String>) {
        self.faults.push(Fault { pointer: pointer.to_owned(), message: message.into() });
    }

    fn may_come_later(&self, pointer: &str) -> bool {
        let field = pointer.split('/').nth(1);
        match self.mode {
            CheckMode::Saved { raw_fields } => field.is_none_or(|field| raw_fields.iter().all(|raw| raw != field)),
            CheckMode::Resolved => false,
        }
    }

    /// 1. A template is any value, a secret's name is a text.
    /// 2. The type comes first: what has the wrong one is not looked into.
    /// 3. Of several shapes the one whose tag fits is meant.
    fn check(&mut self, schema: &Value, value: &Value, pointer: &str) {
        let schema = resolve(self.root, schema);
        let is_later = is_template(value) || (schema["x-secret"] == true && is_secret(value));
        if is_later && self.may_come_later(pointer) {
            return;
        }
        if let Some(message) = wrong_type(schema, value).or_else(|| not_one_of(schema, value)) {
            return self.report(pointer, message);
        }
        match value {
            Value::Object(object) => self.check_object(schema, object, pointer),
            Value::Array(items) => self.check_array(schema, items, pointer),
            Value::String(text) => {
                if let Some(message) = wrong_text(schema, text) {
                    self.report(pointer, message);
                }
            }
            Value::Number(number) => {
                if let Some(message) = out_of_range(schema, number.as_f64().unwrap_or(f64::NAN)) {
                    self.report(pointer, message);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
        for part in list(schema, "allOf") {
            self.check(part, value, pointer);
        }
        if schema.get("not").is_some_and(|not| self.faults_of(not, value, pointer).is_empty()) {
            let message = schema["not"]["description"].as_str().unwrap_or("it must not be this");
            self.report(pointer, message);
        }
        if let Some(condition) = schema.get("if") {
            let holds = self.faults_of(condition, value, pointer).is_empty();
            if let Some(branch) = schema.get(if holds { "then" } else { "else" }) {
                self.check(branch, value, pointer);
            }
        }
        self.check_shapes(&list(schema, "anyOf").collect::<Vec<_>>(), value, pointer);
        let shapes: Vec<_> = list(schema, "oneOf").collect();
        self.check_shapes(&shapes, value, pointer);
        let fitting = shapes.iter().filter(|shape| self.faults_of(shape, value, pointer).is_empty());
        let fitting: Vec<_> = fitting.map(|shape| title(resolve(self.root, shape))).collect();
        if fitting.len() > 1 {
            self.report(pointer, format!("only one may be there: {}", fitting.join(" or ")));
        }
    }

    fn check_object(&mut self, schema: &Value, object: &Map<String, Value>, pointer: &str) {
        let empty = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&empty);
        let others = &schema["additionalProperties"];
        for (field, value) in object {
            let inner = format!("{pointer}/{}", escape(field));
            match properties.get(field) {
                Some(property) => self.check(property, value, &inner),
                None if *others == Value::Bool(false) => {
                    let known = properties.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
                    self.report(&inner, format!("there is no field `{field}`; there are {known}"));
                }
                None if others.is_object() => self.check(others, value, &inner),
                None => {}
            }
        }
        for field in list(schema, "required").filter_map(Value::as_str) {
            if !object.contains_key(field) {
                self.report(&format!("{pointer}/{}", escape(field)), format!("`{field}` is missing"));
            }
        }
    }

    fn check_array(&mut self, schema: &Value, items: &[Value], pointer: &str) {
        if schema["minItems"].as_u64().is_some_and(|least| (items.len() as u64) < least) {
            self.report(pointer, "it must not be empty");
        }
        if schema["maxItems"].as_u64().is_some_and(|most| items.len() as u64 > most) {
            self.report(pointer, format!("it has at most {} items", schema["maxItems"]));
        }
        if schema["items"].is_object() {
            for (index, item) in items.iter().enumerate() {
                self.check(&schema["items"], item, &format!("{pointer}/{index}"));
            }
        }
    }

    /// Of several shapes one must fit. What is wrong is told of the shape that was meant, where that is plain.
    fn check_shapes(&mut self, shapes: &[&Value], value: &Value, pointer: &str) {
        if shapes.is_empty() || shapes.iter().any(|shape| self.faults_of(shape, value, pointer).is_empty()) {
            return;
        }
        let meant: Vec<_> = shapes.iter().filter(|shape| fits_tag(resolve(self.root, shape), value)).collect();
        match meant.as_slice() {
            [shape] => {
                let faults = self.faults_of(shape, value, pointer);
                self.faults.extend(faults);
            }
            _ => {
                let titles = shapes.iter().map(|shape| title(resolve(self.root, shape)));
                self.report(pointer, format!("expected {}", titles.collect::<Vec<_>>().join(" or ")));
            }
        }
    }

    fn faults_of(&self, schema: &Value, value: &Value, pointer: &str) -> Vec<Fault> {
        let mut checker = Checker { root: self.root, mode: self.mode, faults: Vec::new() };
        checker.check(schema, value, pointer);
        checker.faults
    }
}

/// Follows a reference to another part of the schema.
fn resolve<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let target = schema["$ref"].as_str().and_then(|path| root.pointer(path.trim_start_matches('#')));
    target.map_or(schema, |target| resolve(root, target))
}

fn list<'s>(schema: &'s Value, word: &str) -> impl Iterator<Item = &'s Value> {
    schema[word].as_array().into_iter().flatten()
}

fn wrong_type(schema: &Value, value: &Value) -> Option<String> {
    let types: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let is = |name: &&str| match *name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    if types.iter().any(is) {
        return None;
    }
    let wanted = types.iter().filter(|name| **name != "null").map(|name| name_of(name));
    Some(format!("expected {}, found {}", wanted.collect::<Vec<_>>().join(" or "), found(value)))
}

fn not_one_of(schema: &Value, value: &Value) -> Option<String> {
    let choices: Vec<&Value> = list(schema, "enum").chain(schema.get("const")).collect();
    if choices.is_empty() || choices.contains(&value) {
        return None;
    }
    let words = choices.iter().map(|choice| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned));
    Some(format!("it is one of {}", words.collect::<Vec<_>>().join(", ")))
}

fn wrong_text(schema: &Value, text: &str) -> Option<String> {
    if schema["minLength"].as_u64().is_some_and(|least| least > text.chars().count() as u64) {
        return Some("it must not be empty".to_owned());
    }
    if schema["maxLength"].as_u64().is_some_and(|most| text.chars().count() as u64 > most) {
        return Some(format!("it has at most {} characters", schema["maxLength"]));
    }
    let pattern = schema["pattern"].as_str()?;
    let fits = Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text));
    (!fits).then(|| match pattern {
        r"\S" => "it must not be empty".to_owned(),
        pattern => format!("it does not fit {pattern}"),
    })
}

fn out_of_range(schema: &Value, number: f64) -> Option<String> {
    let largest = match schema["format"].as_str() {
        Some("uint8") => Some(f64::from(u8::MAX)),
        Some("uint16") => Some(f64::from(u16::MAX)),
        Some("uint32") => Some(f64::from(u32::MAX)),
        _ => None,
    };
    let (least, most) = (schema["minimum"].as_f64(), schema["maximum"].as_f64().or(largest));
    let range = match (least, most) {
        (Some(least), Some(most)) => format!("between {least} and {most}"),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (None, None) => return None,
    };
    let is_within = least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most);
    (!is_within).then(|| format!("{number} is out of range: it is {range}"))
}

/// Whether a value carries the words by which a shape is known.
fn fits_tag(shape: &Value, value: &Value) -> bool {
    let Some(object) = value.as_object() else { return wrong_type(shape, value).is_none() };
    let properties = shape["properties"].as_object().into_iter().flatten();
    let mut tags = properties.filter(|(_, property)| property.get("const").is_some()).peekable();
    match tags.peek() {
        Some(_) => tags.all(|(field, property)| object.get(field) == property.get("const")),
        None => {
            let mut required = list(shape, "required").filter_map(Value::as_str).peekable();
            required.peek().is_some() && required.any(|field| object.contains_key(field))
        }
    }
}

/// A shape in a few words.
fn title(shape: &Value) -> String {
    if let Some(title) = shape["title"].as_str() {
        return title.to_owned();
    }
    let properties = shape["properties"].as_object().into_iter().flatten();
    let tag = properties.filter_map(|(field, property)| Some((field, property.get("const")?))).next();
    match (tag, shape["type"].as_str()) {
        (Some((field, word)), _) => format!("{{\"{field}\": {word}, …}}"),
        (None, Some(name)) => name_of(name).to_owned(),
        (None, None) => match list(shape, "required").filter_map(Value::as_str).next() {
            Some(field) => format!("`{field}`"),
            None => "another value".to_owned(),
        },
    }
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

fn name_of(name: &str) -> &'static str {
    match name {
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a string",
        "array" => "an array",
        "object" => "an object",
        _ => "nothing",
    }
}

fn found(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// A field's name as a part of a JSON pointer.
fn escape(field: &str) -> String {
    field.replace('~', "~0").replace('/', "~1")
}

fn find_secrets(root: &Value, schema: &Value, pointer: &str, places: &mut Vec<String>) {
    let schema = resolve(root, schema);
    if schema["x-secret"] == true {
        // What may be anything may hold a secret anywhere.
        if schema.get("type").is_none() {
            places.push(format!("{pointer}/**"));
        }
        places.push(pointer.to_owned());
    }
    for (field, property) in schema["properties"].as_object().into_iter().flatten() {
        find_secrets(root, property, &format!("{pointer}/{}", escape(field)), places);
    }
    for inner in [&schema["additionalProperties"], &schema["items"]].into_iter().filter(|inner| inner.is_object()) {
        find_secrets(root, inner, &format!("{pointer}/*"), places);
    }
    for word in ["oneOf", "anyOf", "allOf"] {
        for shape in list(schema, word) {
            find_secrets(root, shape, pointer, places);
        }
    }
}
