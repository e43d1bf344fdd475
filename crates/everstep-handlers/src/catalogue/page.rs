//! The reference page of a kind.

use std::fmt::Write;

use serde_json::Value;

use super::entry::{CatalogueEntry, Timeout};

/// The reference page of a kind, in Markdown with one sentence per line.
pub fn page(entry: &CatalogueEntry) -> String {
    let mut text = String::new();
    let mut line = |line: &str| {
        let _ = writeln!(text, "{line}");
    };
    line(&format!("# {}", entry.name));
    line("");
    line("<!-- Generated from the catalogue by `BLESS=1 cargo test -p everstep-handlers the_pages`. -->");
    line("");
    line(&format!("{}: {}", entry.title, lowered(&entry.summary)));
    if entry.is_internal {
        line("This kind is for tests and benchmarks; editors do not offer it.");
    }
    line("");
    line("## Config");
    line("");
    let rows = fields("", &entry.schema);
    if rows.is_empty() {
        line("None.");
    } else {
        line("| field | type | meaning |");
        line("|---|---|---|");
        for row in rows {
            line(&row);
        }
    }
    line("");
    line("## Handles");
    line("");
    if entry.handles.is_empty() {
        line("None: no edge leaves this node.");
    } else {
        line("| handle | when |");
        line("|---|---|");
        for handle in &entry.handles {
            line(&format!("| `{}` | {} |", handle.name, handle.summary));
        }
        for pointer in &entry.handles_from {
            line(&format!("| the value at `{pointer}` | Each is a handle. |"));
        }
        line("");
        match &entry.default_handle {
            Some(handle) => line(&format!("An edge without a handle uses `{handle}`.")),
            None => line("Every edge must name its handle."),
        }
    }
    line("");
    line("## Output");
    line("");
    line(&entry.output);
    if let Some(variable) = &entry.output_variable {
        line(&format!("The engine stores it in `ctx.{variable}` unless the node sets another `outputVariable`."));
    }
    line("");
    line("## Time and failure");
    line("");
    line(match entry.can_retry {
        true => "A failed attempt is retried according to the node's `retry`.",
        false => "The node is not retried: `retry` is rejected.",
    });
    match entry.timeout {
        None => line("The node has no time limit: `timeoutSeconds` is rejected."),
        Some(Timeout { default_seconds: None, longest_seconds }) => {
            line(&format!("There is no time limit unless `timeoutSeconds` sets one, of at most {longest_seconds}."));
        }
        Some(Timeout { default_seconds: Some(seconds), longest_seconds }) => {
            line(&format!("The default of `timeoutSeconds` is {seconds}; the maximum is {longest_seconds}."));
        }
    }
    line("");
    line("## Examples");
    for example in &entry.examples {
        line("");
        line(&format!("{}:", example.title));
        line("");
        line("```json");
        line(&serde_json::to_string_pretty(&example.config).unwrap_or_default());
        line("```");
    }
    text
}

/// A row per field, those of inner objects under their path.
fn fields(prefix: &str, schema: &Value) -> Vec<String> {
    let mut rows = Vec::new();
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{name}");
        // A constant that only distinguishes a shape has the meaning of the shape.
        let description = property["description"].as_str().or(schema["description"].as_str());
        let mut meaning = description.unwrap_or_default().replace('\n', " ");
        if required.contains(&name.as_str()) {
            meaning = format!("Required. {meaning}");
        }
        if let Some(default) = property.get("default").filter(|default| !default.is_null()) {
            let _ = write!(meaning, " Default: `{default}`.");
        }
        if property["x-secret"] == true || property["additionalProperties"]["x-secret"] == true {
            meaning.push_str(" It accepts a secret: `{\"$secret\": \"name\"}`.");
        }
        rows.push(format!("| `{path}` | {} | {meaning} |", kind(property)));
        for (inner, suffix) in inner_objects(property) {
            rows.extend(fields(&format!("{path}{suffix}."), inner));
        }
    }
    rows.dedup();
    rows
}

/// The objects inside a field, and the suffixes of their paths.
fn inner_objects(property: &Value) -> Vec<(&Value, &'static str)> {
    let mut found = Vec::new();
    if property["properties"].is_object() {
        found.push((property, ""));
    }
    if property["items"]["properties"].is_object() {
        found.push((&property["items"], "[]"));
    }
    let shapes = ["oneOf", "anyOf"].into_iter().filter_map(|word| property[word].as_array()).flatten();
    found.extend(shapes.filter(|shape| shape["properties"].is_object()).map(|shape| (shape, "")));
    found
}

/// A type in a few words.
fn kind(property: &Value) -> String {
    let words = |values: &Vec<Value>| {
        values
            .iter()
            .filter(|value| !value.is_null())
            .map(|value| format!("`{value}`").replace('"', ""))
            .collect::<Vec<_>>()
    };
    if let Some(choices) = property["enum"].as_array() {
        return words(choices).join(", ");
    }
    if let Some(word) = property.get("const") {
        return format!("`{word}`").replace('"', "");
    }
    let names = match &property["type"] {
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let names: Vec<_> = names.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect();
            if names.len() >= 5 { "any".to_owned() } else { names.join(" or ") }
        }
        _ if property["oneOf"].is_array() || property["anyOf"].is_array() => "object".to_owned(),
        _ => "any".to_owned(),
    };
    match (&property["minimum"], &property["maximum"]) {
        (Value::Number(least), Value::Number(most)) => format!("{names}, {least} to {most}"),
        _ => names,
    }
}

fn lowered(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
