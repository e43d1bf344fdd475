//! Any rule on any data returns within its bounds, and two evaluations agree.

use std::time::Duration;

use everstep_core::limits;
use everstep_core::logic::operator::OPERATORS;
use everstep_core::logic::{Fuel, RuleInput, Verdict};
use serde_json::{Map, Value, json};

use super::{Variables, parse};
use crate::support::{Random, now, often};

const NAMES: &[&str] = &[
    "",
    "a",
    "b",
    "a.b",
    "list",
    "list.0",
    "list.length",
    "deep",
    "$user",
    "$user.id",
    "current",
    "accumulator",
    "accumulator.0",
    "text",
    "text.length",
    "\u{0}",
    "ä.😀",
    "..",
    "$",
    "0",
    "-1",
    "1e3",
];
const TEXTS: &[&str] =
    &["", "0", "1", "12px", " 7 ", "a", "b", "😀x", "null", "1,2", "0x1f", "Infinity", "[object Object]"];

fn scalar(random: &mut Random) -> Value {
    match random.below(8) {
        0 => Value::Null,
        1 => random.chance(50).into(),
        2 => json!(random.next() as i64 % 5),
        3 => json!(random.next() as i64),
        4 => json!(random.next()),
        5 => json!(f64::from_bits(random.next())),
        _ => (*random.pick(TEXTS)).into(),
    }
}

fn data(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 10 }) {
        0..=5 => scalar(random),
        6 | 7 => (0..random.below(8)).map(|_| data(random, depth - 1)).collect(),
        _ => {
            let names = NAMES.iter().flat_map(|name| name.split('.')).collect::<Vec<_>>();
            (0..random.below(8))
                .map(|_| ((*random.pick(&names)).to_owned(), data(random, depth - 1)))
                .collect::<Map<_, _>>()
                .into()
        }
    }
}

fn rule(random: &mut Random, depth: usize) -> Value {
    if depth == 0 || random.chance(15) {
        return if random.chance(50) { json!({"var": *random.pick(NAMES)}) } else { scalar(random) };
    }
    if random.chance(8) {
        return (0..random.below(5)).map(|_| rule(random, depth - 1)).collect();
    }
    let info = random.pick(OPERATORS);
    let most = info.arguments_max.unwrap_or(info.arguments_min + 4);
    let count = info.arguments_min + random.below(most - info.arguments_min + 1);
    let mut arguments: Vec<_> = (0..count).map(|_| rule(random, depth - 1)).collect();
    // For half of the operators on lists the first argument is a list, so that they have items to process.
    if info.arguments.starts_with("list") && random.chance(50) {
        arguments[0] = json!({"var": "list"});
    }
    let has_list = arguments.len() != 1 || arguments[0].is_array() || random.chance(50);
    json!({ info.name: if has_list { Value::Array(arguments) } else { arguments.remove(0) } })
}

#[derive(Default)]
struct Seen {
    held: u64,
    failed: u64,
    costly: u64,
}

/// Parses a random rule and evaluates it twice on random data.
fn try_one(random: &mut Random, seen: &mut Seen) {
    let depth = 1 + random.below(8);
    let rule = rule(random, depth);
    let mut context = data(random, 4);
    if let Value::Object(fields) = &mut context {
        let length = if random.chance(5) { 3_000 } else { random.below(12) };
        fields.insert("list".to_owned(), (0..length).map(|_| scalar(random)).collect());
    }
    let variables = Variables::from([("$user", data(random, 2))]);
    let input = RuleInput { context: &context, variables: &variables };
    let Ok(parsed) = parse(&rule) else {
        assert!(rule.to_string().len() > limits::RULE_BYTES, "{rule}");
        return;
    };
    let mut fuel = Fuel::full();
    let verdict = parsed.judge_with(input, &mut fuel);
    match verdict {
        Verdict::Holds => seen.held += 1,
        Verdict::Fails => seen.failed += 1,
        Verdict::TooCostly => seen.costly += 1,
    }
    assert!(fuel.used_operations() <= limits::RULE_OPERATIONS && fuel.used_bytes() <= limits::RULE_RESULT_BYTES);
    let mut again = Fuel::full();
    assert_eq!((parsed.judge_with(input, &mut again), again), (verdict, fuel), "{rule} on {context}");
    let result = parsed.evaluate(input, &mut Fuel::full());
    assert_eq!(result, parsed.evaluate(input, &mut Fuel::full()), "{rule} on {context}");
    if let Ok(result) = result {
        let is_true = match &result {
            Value::Array(items) => !items.is_empty(),
            other => everstep_core::evaluate::is_truthy(other),
        };
        assert_eq!(is_true, verdict.holds(), "{rule} on {context}: {result}");
    }
    let explanations = parsed.explain(input);
    assert_eq!(explanations, parsed.explain(input), "{rule} on {context}");
    assert!(explanations.is_empty() || verdict == Verdict::Fails, "{rule} on {context}");
    // The rule of each explanation can be parsed.
    for explanation in explanations {
        assert!(parse(&explanation.rule).is_ok(), "{}", explanation.rule);
    }
}

#[test]
fn any_rule_on_any_data_returns_within_bounds_and_twice_the_same() {
    let (mut random, mut seen) = (Random::new(16), Seen::default());
    for _ in 0..often(6_000) {
        try_one(&mut random, &mut seen);
    }
    assert!(seen.held > 500 && seen.failed > 500 && seen.costly > 5, "{} {} {}", seen.held, seen.failed, seen.costly);
}

/// Any JSON value is parsed or rejected.
#[test]
fn any_value_is_parsed_or_refused() {
    let mut random = Random::new(17);
    for _ in 0..often(6_000) {
        let value = crate::wild::wild_value(&mut random, 5);
        let Ok(rule) = parse(&value) else { continue };
        let _ = rule.judge(RuleInput { context: &value, variables: &Variables::new() });
    }
}

/// `make test-long` runs it: FUZZ_SECONDS=60 of rules that are different each time. A failure names its seed.
#[test]
#[ignore = "takes a minute; make test-long runs it"]
fn rules_are_fuzzed_for_a_minute() {
    let number = |name: &str| std::env::var_os(name).and_then(|text| text.to_str()?.parse().ok());
    let seed = number("FUZZ_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 32);
    let (begin, length) = (now(), Duration::from_secs(number("FUZZ_SECONDS").unwrap_or(60)));
    let (mut seen, mut tried) = (Seen::default(), 0_u64);
    while begin.elapsed() < length {
        let mut random = Random::new(seed.wrapping_add(tried));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| try_one(&mut random, &mut seen)));
        assert!(outcome.is_ok(), "FUZZ_SEED={} fails", seed.wrapping_add(tried));
        tried += 1;
    }
    assert!(seen.held > 0 && seen.failed > 0 && seen.costly > 0, "{tried} rules from seed {seed}");
}
