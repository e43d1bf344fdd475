//! The evaluator returns for every text.

use crate::context::Context;
use everstep_core::evaluate::Evaluate;
use everstep_core::meter::Meter;
use everstep_expressions::Expressions;
use serde_json::{Value, json};

/// A small generator: the same strings at every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

const PIECES: &[&str] = &[
    "ctx",
    "vars",
    "payload",
    "meta",
    "item",
    "index",
    "null",
    "none",
    "true",
    ".",
    ".a",
    ".order",
    ".tags",
    ".0",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    "{{",
    "}}",
    "[0]",
    "[-1]",
    "[::-1]",
    "[5:1:-2]",
    "['a b']",
    "|",
    "|upper",
    "|length",
    "|default(1)",
    "|round(",
    "|join(',')",
    "|replace('','x')",
    "|split('')",
    "|sort",
    "|list",
    "|sum",
    "|tojson",
    "|int(base=99)",
    "|first",
    "|last",
    "|unique",
    "|items",
    "|__number",
    " is ",
    " is defined",
    " is not none",
    " in ",
    " and ",
    " or ",
    " not ",
    " if ",
    " else ",
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "~",
    "==",
    "!=",
    "<",
    ">",
    "<=",
    ">=",
    "=",
    ",",
    ":",
    "'",
    "\"",
    "'x'",
    "\"y\"",
    "\\",
    "'\\u{1}'",
    "0",
    "1",
    "9223372036854775807",
    "170141183460469231731687303715884105728",
    "1e999",
    "0x",
    "0b12",
    "1_",
    "1.",
    ".5",
    "é",
    "💥",
    "\0",
    "\n",
    " ",
    "$expr",
    "{%",
    "%}",
    "{#",
    "#}",
    "namespace()",
    "range(9)",
    "self",
    "loop",
    "super()",
];

fn hostile(random: &mut Random) -> String {
    (0..=random.below(12)).map(|_| PIECES[random.below(PIECES.len())]).collect()
}

#[test]
fn no_string_makes_the_evaluator_panic() {
    let expressions = Expressions::new();
    let context = Context::sample();
    let mut random = Random(8113);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let source = hostile(&mut random);
        let is_sound = expressions.check_expression(&source).is_none();
        let value = expressions.expression(&source, &context, &Meter::new());
        accepted += usize::from(is_sound);
        assert!(is_sound || value.is_err(), "{source:?} is refused at save and runs: {value:?}");
        for template in
            [json!(source), json!(format!("{{{{{source}}}}}")), json!({"$expr": source}), json!([{"x": source}])]
        {
            let _ = expressions.check(&template);
            let _ = expressions.resolve(&template, &context, &Meter::new());
            let _ = expressions.resolve_lenient(&template, &context, &Meter::new());
        }
    }
    assert!(accepted > 500, "the generator makes too few sound expressions: {accepted}");
}

#[test]
fn no_bytes_make_the_evaluator_panic() {
    let expressions = Expressions::new();
    let context = Context::sample();
    let mut random = Random(214);
    for _ in 0..5_000 {
        let bytes: Vec<u8> = (0..random.below(24)).map(|_| random.below(256) as u8).collect();
        let text = format!("{{{{{}}}}}", String::from_utf8_lossy(&bytes));
        let _ = expressions.check(&Value::String(text.clone()));
        let _ = expressions.resolve(&Value::String(text), &context, &Meter::new());
    }
}
