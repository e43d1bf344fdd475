//! The schema of a machine's file: it agrees with the reader, and the document is what the code generates.

use std::path::{Path, PathBuf};

use everstep_core::graph::Problem;
use everstep_core::machine::definition_schema;
use everstep_core::schema::{CheckMode, Schema};
use serde_json::{Map, Value, json};

use super::random::{Maker, pool};
use super::whole;
use crate::support::{Random, compile_machine, often};

fn problems(definition: &Value) -> Vec<Problem> {
    compile_machine(definition).err().unwrap_or_default()
}

/// Whether no schema can express a problem: it is about how parts of the definition refer to each other, or about the
/// text of expressions, rules, schemas and times.
fn is_beyond_schemas(problem: &Problem) -> bool {
    const CODES: &[&str] = &[
        "AUTO_LOOP",
        "CONDITION_NOT_JSON_LOGIC",
        "CONDITION_UNKNOWN_FIELD",
        "MACHINE_DEAD_END",
        "MACHINE_DUPLICATE_STATE",
        "MACHINE_UNKNOWN_ACTION",
        "MACHINE_UNKNOWN_TARGET",
        "MACHINE_UNREACHABLE_STATE",
        "QUORUM_STALEMATE",
        "UNKNOWN_VARIABLE",
    ];
    let parts = [
        "two events have the id",
        "only the last branch can be without a condition",
        "message has no effect without a condition",
        "onStalemate has no effect",
        "expected a duration from",
        "expected a time, found \"",
        "exceeds the number of voters",
        "two names of one field",
        "a secret is not accepted here",
        "the context schema has no field",
        // In `needs.data`; the schema knows the names in `set` and `saveAs`.
        "`input` is the input of the run",
    ];
    let is_of_schema = problem.path.starts_with("/contextSchema/");
    // The arguments of operators are checked by the reader alone.
    let is_of_rule = problem.path.contains("/condition/rule/");
    let has_code = problem.code.is_some_and(|code| CODES.contains(&code)) && !is_plain_condition(problem);
    is_of_schema || is_of_rule || has_code || parts.iter().any(|part| problem.message.contains(part))
}

/// Whether a problem of a condition is one that the schema can express: its type, and the shape of its rule.
fn is_plain_condition(problem: &Problem) -> bool {
    problem.code == Some("CONDITION_NOT_JSON_LOGIC") && !problem.path.contains("/rule/")
}

/// Returns whether the schema accepts a definition, after comparing it with the reader.
fn compare(schema: &Schema, definition: &Value) -> bool {
    let faults = schema.check(definition, CheckMode::Json);
    let problems = problems(definition);
    if !faults.is_empty() {
        assert!(!problems.is_empty(), "the schema alone refuses {definition}: {faults:?}");
        return false;
    }
    let missed: Vec<_> = problems.iter().filter(|problem| !is_beyond_schemas(problem)).collect();
    assert!(missed.is_empty(), "the schema accepts {definition}: {missed:#?}");
    true
}

/// The definition with one part replaced, removed or added, in every way.
fn mutations(value: &Value) -> Vec<Value> {
    let put = |object: &Map<String, Value>, field: &str, value: Value| {
        let mut object = object.clone();
        object.insert(field.to_owned(), value);
        Value::Object(object)
    };
    let mut found = pool();
    match value {
        Value::Object(object) => {
            found.push(put(object, "unheardOf", json!(1)));
            for (field, value) in object {
                let mut without = object.clone();
                without.shift_remove(field);
                found.push(Value::Object(without));
                found.extend(mutations(value).into_iter().map(|value| put(object, field, value)));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                found.extend(mutations(item).into_iter().map(|item| {
                    let mut items = items.clone();
                    items[index] = item;
                    Value::Array(items)
                }));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found
}

#[test]
fn the_schema_and_the_reader_judge_every_mutation_alike() {
    let schema = Schema::built_in(&definition_schema());
    assert_eq!(schema.check(&whole(), CheckMode::Json), []);
    let mut verdicts = [0, 0];
    for definition in mutations(&whole()) {
        verdicts[usize::from(compare(&schema, &definition))] += 1;
    }
    assert!(verdicts[0] > 1_000 && verdicts[1] > 300, "{verdicts:?}");
}

#[test]
fn the_schema_and_the_reader_judge_mails_alike() {
    let schema = Schema::built_in(&definition_schema());
    let mut verdicts = [0, 0];
    let mut judge = |target: &str, subject: &str| {
        let mail = json!({"type": "notify", "target": target, "template": {"subject": subject, "text": "\u{1}"}});
        let states = json!([
            {"name": "open", "initial": true, "on": {"CLOSE": {"to": "closed", "events": [mail]}}},
            {"name": "closed", "terminal": true},
        ]);
        verdicts[usize::from(compare(&schema, &json!({ "states": states })))] += 1;
    };
    let characters = (0..=0x100).chain(0x2020..=0x2030).filter_map(char::from_u32);
    for text in characters.map(|character| format!("a{character}b")).chain(["".into(), " ".into()]) {
        judge(&text, "Hello");
        judge("ann@example.com", &text);
    }
    for length in [254, 255, 500, 501] {
        judge(&"ü".repeat(length), "Hello");
        judge("ann@example.com", &"ü".repeat(length));
    }
    assert!(verdicts.iter().all(|count| *count > 100), "{verdicts:?}");
}

#[test]
fn the_schema_and_the_reader_judge_random_definitions_alike() {
    let schema = Schema::built_in(&definition_schema());
    let mut random = Random::new(17);
    let mut verdicts = [0, 0, 0];
    for round in 0..often(1_200) {
        let faults = if round % 3 == 0 { 0 } else { 20 };
        let states = 2 + random.below(4);
        let definition = Maker { random: &mut random, faults, states }.definition();
        let fits = compare(&schema, &definition);
        assert!(fits || faults > 0, "a definition without a fault is refused: {definition}");
        let is_valid = problems(&definition).is_empty();
        verdicts[usize::from(fits) + usize::from(is_valid)] += 1;
        if is_valid {
            // The stored form is valid, and stays as it is.
            let stored = compile_machine(&definition).unwrap().definition().clone();
            assert_eq!(schema.check(&stored, CheckMode::Json), [], "{stored}");
            assert_eq!(compile_machine(&stored).unwrap().definition().to_string(), stored.to_string());
        }
    }
    assert!(verdicts.iter().all(|count| *count > 50), "{verdicts:?}");
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/machine.schema.json")
}

#[test]
fn the_schema_document_is_what_the_code_generates() {
    let generated = format!("{:#}\n", definition_schema());
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(document(), &generated).unwrap();
    }
    let written = std::fs::read_to_string(document()).unwrap_or_default();
    assert_eq!(written, generated, "{} is outdated: generate it with BLESS=1", document().display());
}
