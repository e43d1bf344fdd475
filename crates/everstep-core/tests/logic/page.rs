//! The reference page of JSON Logic, `docs/reference/json-logic.md`, made from the operators.
//!
//! `BLESS=1 cargo test -p everstep-core logic::page` writes it.

use std::fmt::Write as _;
use std::path::Path;

use everstep_core::limits;
use everstep_core::logic::operator::OPERATORS;
use everstep_core::logic::{Fuel, RuleInput, VARIABLES};
use serde_json::Value;

use super::parse;

const HEAD: &str = "\
# JSON Logic

<!-- Made from the operators; `BLESS=1 cargo test -p everstep-core logic::page` writes it. -->

The conditions of state machines are rules in [JSON Logic](https://jsonlogic.com).
A rule is an object with one field: the name of an operator, and its arguments as a list; a single argument can be written without the list.
Arguments can be rules.

```json
{\"and\": [{\">\": [{\"var\": \"amount\"}, 100]}, {\"in\": [{\"var\": \"country\"}, [\"DE\", \"FR\"]]}]}
```

A condition is `{\"type\": \"json-logic\", \"rule\": …}`.
It holds if the result of its rule is true: anything except `false`, `null`, `0`, the empty text and the empty list.

## Operators
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    page += "\n| operator | arguments | result |\n|---|---|---|\n";
    for info in OPERATORS {
        let _ = writeln!(page, "| `{}` | {} | {} |", info.name, info.arguments, info.result);
    }
    page += "\n## Examples\n\n| rule | data | result |\n|---|---|---|\n";
    for [rule, data, result] in OPERATORS.iter().map(|info| info.example) {
        let _ = writeln!(page, "| `{rule}` | `{data}` | `{result}` |");
    }
    page += "\n## Variables\n\n\
        `var` reads the context of the run at the top of a rule, and the item inside `map`, `filter`, `all`, `none` and `some`.\n\
        These variables can be read everywhere; a field of the same name in the data does not replace them.\n\n\
        | variable | value |\n|---|---|\n";
    for (name, meaning) in VARIABLES {
        let _ = writeln!(page, "| `{name}` | {meaning} |");
    }
    let _ = write!(
        page,
        "
## Differences from JavaScript

* `NaN` and the infinities are null, which is false in a condition. A null of the data counts as 0, but for such a null `<`, `<=`, `>` and `>=` are false, and every calculation with it results in null: the result of a division by zero is neither less nor greater than any number. A text such as `Infinity` is not a number.
* Whole numbers are compared with all their digits, also beyond 2⁵³.
* An object with several fields is a literal; if one of its fields is the name of an operator, the rule is rejected.
* The number of arguments is checked when a definition is saved.
* The characters of a text cannot be read with `var`; use `substr`.

## Bounds

A rule has at most {} KiB and {} levels.
One evaluation has at most {} operations and {} KiB of results, which are nested in at most {} levels.
An operation is one part of a rule that is evaluated, or 64 bytes that are read, compared or written.
All conditions of one transition together have at most {} operations.
Beyond a bound the condition does not hold, with the reason `CONDITION_TOO_COSTLY`.

## Problems

| code | meaning |
|---|---|
| `CONDITION_NOT_JSON_LOGIC` | The condition is a text or has another type, or an operator has a wrong number of arguments. |
| `CONDITION_UNKNOWN_OPERATOR` | The operator does not exist; the hint names the nearest one. |
| `CONDITION_TOO_LARGE` | The rule has too many bytes or levels. |
",
        limits::RULE_BYTES / 1024,
        limits::RULE_LEVELS,
        limits::RULE_OPERATIONS,
        limits::RULE_RESULT_BYTES / 1024,
        limits::RULE_LEVELS,
        limits::CONDITION_OPERATIONS,
    );
    page
}

#[test]
fn the_page_of_json_logic_lists_the_operators() {
    let page = page();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/json-logic.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "docs/reference/json-logic.md is out of date: write it with BLESS=1");
}

#[test]
fn the_examples_of_the_operators_hold() {
    let json = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    for info in OPERATORS {
        let [rule, data, result] = info.example.map(json);
        assert!(rule.as_object().unwrap().contains_key(info.name), "{rule} is no example of {}", info.name);
        // The examples show variables of the caller as fields of the data.
        let variables = VARIABLES.iter().filter_map(|(name, _)| Some((*name, data.get(*name)?.clone()))).collect();
        let found =
            parse(&rule).unwrap().evaluate(RuleInput { context: &data, variables: &variables }, &mut Fuel::full());
        assert_eq!(found, Ok(result), "{rule}");
    }
}
