//! An expression ends within a bound of time.

use std::borrow::Cow;
use std::time::Instant;

use everstep_core::evaluate::{Evaluate, Fields, Lookup};
use everstep_core::failure::{Failure, code};
use everstep_core::limits::{DECISION_FUEL, EXPRESSION_FUEL, FUEL_PER_MS};
use everstep_core::meter::Meter;
use everstep_expressions::Expressions;
use serde_json::{Value, json};

use crate::context::Context;

fn heavy() -> Context {
    let objects: Vec<Value> =
        (0..6_000).map(|n| json!({"name": format!("name {n}"), "rank": n % 7, "tags": [n, n + 1]})).collect();
    Context::from_variables(json!({
        "text": "x".repeat(500_000),
        "spaces": " ".repeat(400_000),
        "letters": "äÖ,".repeat(100_000),
        "csv": "ab,".repeat(80_000),
        "list": (0..40_000).map(|n| json!(format!("item {n}"))).collect::<Vec<_>>(),
        "numbers": (0..80_000).collect::<Vec<_>>(),
        "objects": objects,
        "small": "ab",
    }))
}

fn evaluate(source: &str, context: &Context, meter: &Meter) -> Result<Value, Failure> {
    Expressions::new().expression(source, context, meter)
}

/// Expressions that would take long, one for each way in which values are read.
fn attacks() -> Vec<String> {
    let repeat = |start: &str, piece: &str, times: usize| format!("{start}{}", piece.repeat(times));
    let chain = |piece: &str, operator: &str, times: usize| vec![piece; times].join(operator);
    vec![
        repeat("ctx.text", "|upper|lower", 250),
        repeat("ctx.letters", "|title", 250),
        repeat("ctx.text", "|reverse", 250),
        repeat("ctx.text", "|capitalize", 250),
        repeat("ctx.text", "|trim", 250),
        chain("(ctx.spaces|trim) == ''", " and ", 80),
        chain("(ctx.text|trim('abcdefghijklmnopqrstuvwxyz')) == ''", " and ", 30),
        chain("ctx.csv|replace('y', 'z')|length", " and ", 50),
        chain("ctx.csv|split(',')|length", " and ", 50),
        chain("ctx.text|list|length", " and ", 50),
        chain("ctx.text|length", " and ", 150),
        chain("'xxxxxxxxxxxxxxxxxxxxy' in ctx.text", " or ", 100),
        chain("ctx.text in ctx.list", " or ", 100),
        chain("'y' in ctx.list", " or ", 150),
        chain("ctx.text == ctx.spaces", " or ", 120),
        chain("ctx.list == ctx.list|list", " and ", 100),
        chain("ctx.objects == ctx.objects|list", " and ", 100),
        chain("ctx.text is in ctx.letters", " or ", 100),
        chain("ctx.text is lower", " and ", 150),
        chain("ctx.list|sort|length", " and ", 50),
        chain("ctx.objects|sort|length", " and ", 50),
        chain("ctx.objects|sort(attribute='name')|length", " and ", 50),
        chain("ctx.list|unique|length", " and ", 50),
        chain("ctx.list|max", " and ", 50),
        chain("ctx.numbers|sum", " and ", 100),
        chain("ctx.numbers|string|length", " and ", 50),
        chain("ctx.objects|tojson|length", " and ", 50),
        chain("(ctx.csv ~ ctx.csv)|length", " and ", 15),
        chain("(ctx.list + ctx.list)|length", " and ", 10),
        chain("ctx.text[::-1]|length", " and ", 80),
        format!("ctx.text{}|length", "[1:]".repeat(200)),
        format!("ctx.list{}|length", "[1:]".repeat(200)),
        format!("(ctx.list{})|last", "[1:]".repeat(200)),
        chain("ctx.text[499999]", " and ", 120),
        chain("{'a': 1}[ctx.text]|default(1)", " and ", 50),
        chain("{ctx.text: 1}|length", " and ", 80),
    ]
}

#[test]
fn every_way_to_read_values_costs_in_proportion_to_their_bytes() {
    let context = heavy();
    for source in attacks() {
        let failure = evaluate(&source, &context, &Meter::new()).expect_err(&source);
        assert_eq!(failure.code, code::EXPRESSION_TOO_COSTLY, "{}: {failure}", &source[..60]);
    }
}

#[test]
fn the_failure_names_the_place_the_expression_and_the_cost() {
    let template = json!({"body": {"a/b": [1, format!("{{{{ ctx.text{} }}}}", "|upper".repeat(500))]}});
    let failure = Expressions::new().resolve(&template, &heavy(), &Meter::new()).unwrap_err();
    assert_eq!(failure.code, code::EXPRESSION_TOO_COSTLY);
    assert!(failure.message.starts_with("at /body/a~1b/1: needs more than 5 ms of work, "), "{failure}");
    assert!(failure.message.contains("units of fuel so far, in `ctx.text|upper|upper"), "{failure}");
}

#[test]
fn the_expressions_of_one_step_have_a_budget_together() {
    let (expressions, context, meter) = (Expressions::new(), heavy(), Meter::new());
    let source = "{{ ctx.text|upper|length }}";
    let template = Value::Array(vec![json!(source); 50]);
    let failure = expressions.resolve(&template, &context, &meter).unwrap_err();
    assert_eq!(failure.code, code::EXPRESSION_TOO_COSTLY);
    assert!(failure.message.contains("the expressions of the step need more than 20 ms of work"), "{failure}");
    assert!(meter.is_spent());
    // The next part of the decision has its own budget, whatever was used before it.
    meter.begin_part();
    assert_eq!(expressions.resolve(&json!(source), &context, &meter).unwrap(), json!(500_000));
}

#[test]
fn ordinary_expressions_on_large_values_are_within_the_budget() {
    let context = heavy();
    for source in [
        "ctx.text|length",
        "ctx.text|upper|length",
        "ctx.text == ctx.spaces",
        "'needle' in ctx.text",
        "ctx.text[:100]",
        "ctx.text[-100:]",
        "ctx.list|length and ctx.numbers|length",
        "ctx.list[0] ~ ctx.list[1] ~ ctx.list[-1]",
        "ctx.objects|length",
        "ctx.objects[17].name|upper ~ '-' ~ ctx.objects[18].rank",
        "ctx.csv|split(',')|length",
        "ctx.csv|replace(',', ';')|length",
        "(ctx.list + [1])|length",
        "'item 39999' in ctx.list",
    ] {
        let meter = Meter::new();
        assert!(
            evaluate(source, &context, &meter).is_ok(),
            "{source}: {:?}",
            evaluate(source, &context, &Meter::new())
        );
        assert!(meter.used() < EXPRESSION_FUEL, "{source} used {}", meter.used());
    }
    let small = Meter::new();
    assert_eq!(evaluate("ctx.small ~ '-' ~ ctx.small|upper", &context, &small).unwrap(), json!("ab-AB"));
    assert!(small.used() < DECISION_FUEL / 1_000, "a short expression uses {}", small.used());
}

#[test]
fn guards_do_not_nest_long_chains_too_deep() {
    let context = Context::from_variables(json!({"a": "abc", "list": [1, 2, 3]}));
    for (source, expected) in [
        (vec!["ctx.a"; 100].join(" ~ "), json!("abc".repeat(100))),
        (format!("ctx.a{}", "[0:]".repeat(200)), json!("abc")),
        (format!("{}ctx.a{}", "(".repeat(60), "[0:])".repeat(60)), json!("abc")),
        (format!("(ctx.list{})[0]", "[0:]".repeat(200)), json!(1)),
        (vec!["ctx.a == 'abc'"; 150].join(" and "), json!(true)),
    ] {
        assert_eq!(evaluate(&source, &context, &Meter::new()).unwrap(), expected, "{}", &source[..40]);
    }
}

/// Compares the fuel of expressions with their time: `--ignored --nocapture`, with optimized crates. A ratio above 1 is an
/// expression whose price is too low.
#[test]
#[ignore = "it measures, and is only useful on a quiet machine with optimized crates"]
fn measure_the_time_of_a_unit_of_fuel() {
    let (expressions, context) = (Expressions::new(), heavy());
    for source in attacks() {
        if expressions.check_expression(&source).is_some() {
            continue;
        }
        let (meter, begin) = (Meter::new(), Instant::now());
        let result = expressions.expression(&source, &context, &meter);
        let millis = begin.elapsed().as_secs_f64() * 1e3;
        let fuel = meter.used() as f64 / FUEL_PER_MS as f64;
        let code = result.err().map(|failure| failure.code).unwrap_or_default();
        println!("{millis:8.2} ms {fuel:8.2} fuel {:6.2} {code:24} {}", millis / fuel, &source[..source.len().min(60)]);
    }
}

/// A context of several mebibytes.
fn large() -> Context {
    let text = "x".repeat(300_000);
    Context::from_variables(json!({"a": text, "b": text, "c": text, "d": text, "e": [text]}))
}

#[test]
fn a_plain_path_is_charged_before_its_value_is_copied() {
    let context = large();
    let used = |source: &str| {
        let meter = Meter::new();
        let result = evaluate(source, &context, &meter);
        (result.is_ok(), meter.used())
    };
    let (is_ok, fuel) = used("ctx.a");
    assert!(is_ok && (150_000..300_000).contains(&fuel), "a text of 300 kB uses {fuel}");
    let (is_ok, of_items) = used("ctx.e[0]");
    assert!(is_ok && (150_000..300_000).contains(&of_items), "{of_items}");
    let (is_ok, fuel) = used("ctx");
    assert!(is_ok && fuel > 700_000, "the whole context uses {fuel}");
    // The part that was measured is charged, also if the whole is too long.
    let (is_ok, fuel) = used("ctx == 1");
    assert!(!is_ok && fuel > 400_000, "an expression on the whole context uses {fuel}");
    let (is_ok, fuel) = used("ctx.nothing");
    assert!(is_ok && (1..1_000).contains(&fuel), "an absent name uses {fuel}");
}

#[test]
fn paths_that_are_too_long_use_the_budget_of_a_step() {
    let (expressions, context, meter) = (Expressions::new(), large(), Meter::new());
    let evaluations = 200;
    let failures = (0..evaluations).map(|_| expressions.resolve_lenient(&json!("{{ctx}}"), &context, &meter));
    let codes: Vec<_> = failures.map(|result| result.unwrap_err().code).collect();
    assert_eq!(codes[0], code::EXPRESSION_ERROR);
    assert_eq!(codes[evaluations - 1], code::EXPRESSION_TOO_COSTLY, "a condition does not go on with the next one");
    assert!(meter.used() < DECISION_FUEL + EXPRESSION_FUEL, "{}", meter.used());
}

#[test]
fn a_path_to_a_value_that_is_too_costly_to_copy_fails() {
    let many = Context::from_variables(json!({"a": vec![0; 400_000], "b": vec![0; 400_000]}));
    let meter = Meter::new();
    let failure = evaluate("ctx", &many, &meter).unwrap_err();
    assert_eq!(failure.code, code::EXPRESSION_TOO_COSTLY, "{failure}");
    assert!(evaluate("ctx.a", &many, &Meter::new()).is_ok(), "a payload of any shape can be read");
}

/// A context with a variable that is not stored as one value.
struct Node {
    output: Value,
}

impl Lookup for Node {
    fn variable(&self, name: &str) -> Option<Cow<'_, Value>> {
        assert_ne!(name, "__node_a", "its output would be copied");
        None
    }

    fn variable_fields(&self, name: &str) -> Option<Fields<'_>> {
        let status = (Cow::Borrowed("status"), Cow::Owned(json!("success")));
        (name == "__node_a").then(|| vec![(Cow::Borrowed("output"), Cow::Borrowed(&self.output)), status])
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn payload(&self) -> &Value {
        &Value::Null
    }

    fn local(&self, _name: &str) -> Option<Cow<'_, Value>> {
        None
    }

    fn meta(&self) -> Value {
        json!({})
    }
}

#[test]
fn a_field_of_a_node_is_read_without_a_copy_of_its_output() {
    let node = Node { output: json!({"large": "x".repeat(900_000), "small": 7}) };
    let expressions = Expressions::new();
    for (source, expected, fuel_max) in [
        ("ctx.__node_a.output.small", json!(7), 1_000),
        ("ctx.__node_a.status", json!("success"), 1_000),
        ("ctx.__node_a.output.small + 1", json!(8), 10_000),
        ("ctx.__node_a.status == 'success'", json!(true), 10_000),
        ("ctx.__node_a is defined", json!(true), 1_000_000),
        ("ctx.__node_a.nothing", json!(null), 1_000),
    ] {
        let meter = Meter::new();
        assert_eq!(expressions.expression(source, &node, &meter).unwrap(), expected, "{source}");
        assert!(meter.used() < fuel_max, "{source} uses {}", meter.used());
    }
    let whole = expressions.expression("ctx.__node_a", &node, &Meter::new()).unwrap();
    assert_eq!(whole, json!({"output": node.output, "status": "success"}));
}
