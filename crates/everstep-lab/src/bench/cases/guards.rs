//! Conditions of state machines: how many simple rules one thread evaluates per second.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use everstep_core::logic::{Rule, RuleInput};
use serde_json::{Value, json};

use super::case::SAMPLES;
use crate::bench::args::Plan;
use crate::bench::figure::{Figure, Figures};
use crate::bench::report;

/// Evaluations between two looks at the clock.
const BATCH_EVALUATIONS: u64 = 1_000;

pub(super) fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    report::tell("guards");
    let rules = [
        json!({">": [{"var": "amount"}, 100]}),
        json!({"in": ["manager", {"var": "$user.roles"}]}),
        json!({"and": [{"<=": [{"var": "order.total"}, 1_000]}, {"==": [{"var": "order.country"}, "DE"]}]}),
    ];
    let rules: Vec<Rule> = rules.iter().map(parse).collect::<anyhow::Result<_>>()?;
    let context = json!({"amount": 120, "order": {"id": "A-17", "total": 999.5, "country": "DE"}});
    let user = json!({"id": "ada", "name": "Ada", "roles": ["employee", "manager"]});
    let variables = BTreeMap::from([("$user", user)]);
    let input = RuleInput { context: &context, variables: &variables };
    let mut rates: Vec<_> = (0..SAMPLES).map(|_| sample(&rules, input, plan.length)).collect();
    rates.sort_by(f64::total_cmp);
    Ok(Figures::new("guards", plan.site.name(), 1).with("guardsPerSecond", rates[SAMPLES / 2], "1/s").list())
}

fn parse(rule: &Value) -> anyhow::Result<Rule> {
    Rule::parse(rule, "").map_err(|problems| anyhow::anyhow!("{rule} is not a rule: {problems:?}"))
}

/// Evaluations per second, after a quarter of the time to warm up.
fn sample(rules: &[Rule], input: RuleInput<'_>, length: Duration) -> f64 {
    evaluate(rules, input, length / 4);
    let begin = Instant::now();
    let evaluations = evaluate(rules, input, length);
    evaluations as f64 / begin.elapsed().as_secs_f64()
}

fn evaluate(rules: &[Rule], input: RuleInput<'_>, length: Duration) -> u64 {
    let (begin, mut evaluations) = (Instant::now(), 0);
    while begin.elapsed() < length {
        for rule in rules.iter().cycle().take(BATCH_EVALUATIONS as usize) {
            assert!(black_box(rule).judge(black_box(input)).holds(), "every guard of the benchmark holds");
        }
        evaluations += BATCH_EVALUATIONS;
    }
    evaluations
}
