//! The places where a definition may name secrets.

use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::Input;
use everstep_core::run::task;
use serde_json::{Value, json};

use super::{around, assert_problems, with_config};
use crate::support::{Game, compile};

/// The pointers of the secrets that a step receives, and its config.
fn secrets(config: Value, input: Value) -> (Vec<String>, Value) {
    let mut game = Game::new(compile(&with_config("ask", config)).unwrap());
    game.input(Input::Start { input: Payload::from(input), cause: None });
    let spec = task::describe(&game.workflow, &game.state, &"it".into(), &game.evaluate, &Meter::new()).unwrap();
    (spec.secrets, spec.config)
}

#[test]
fn a_task_carries_where_its_definition_names_secrets() {
    let config = json!({
        "key": {"$secret": "a"},
        "headers": {"x/y": {"$secret": "b.c"}, "plain": "{{ctx.input.n}}"},
        "any": {"deep": [1, {"$secret": "d"}]},
    });
    let (pointers, resolved) = secrets(config, json!({"n": 1}));
    assert_eq!(pointers, ["/key", "/headers/x~1y", "/any/deep/1"]);
    assert_eq!(resolved["headers"], json!({"x/y": {"$secret": "b.c"}, "plain": 1}));
}

#[test]
fn what_an_expression_yields_is_never_a_secrets_name() {
    let input = json!({"whole": {"$secret": "a"}, "name": "a", "headers": {"x": {"$secret": "a"}}});
    let config = json!({
        "key": "{{ctx.input.whole}}",
        "headers": {"$expr": "ctx.input.headers"},
        "any": [{"$expr": "ctx.input.whole"}, "{{ctx.input}}"],
    });
    let (pointers, resolved) = secrets(config, input);
    assert_eq!(pointers, [""; 0]);
    assert_eq!(resolved["key"], json!({"$secret": "a"}), "it is data like any other");
}

#[test]
fn a_secret_elsewhere_is_refused_with_its_place() {
    let here = "a secret is not accepted here";
    let ask = with_config("ask", json!({"other": {"$secret": "a"}, "key": {"inner": {"$secret": "a"}}}));
    assert_problems(
        &ask,
        &[
            ("it", "/nodes/1/config/other", here, "accepts secrets at /key, /headers/*, /any, /any/**"),
            ("it", "/nodes/1/config/key/inner", here, "accepts secrets at"),
        ],
    );
    let none = |kind: &str| format!("no field of a node of type {kind:?} accepts a secret");
    let transform = with_config("transform", json!({"value": {"a": [{"$secret": "a"}]}}));
    assert_problems(&transform, &[("it", "/nodes/1/config/value/a/0", here, &none("transform"))]);
    let wait = with_config("wait", json!({"event": "paid", "match": {"key": {"$secret": "a"}}}));
    assert_problems(&wait, &[("it", "/nodes/1/config/match/key", here, &none("wait"))]);
    let noop = with_config("noop", json!({"output": {"$secret": "a"}}));
    assert_problems(&noop, &[("it", "/nodes/1/config/output", here, &none("noop"))]);
    let position = around(json!({"type": "noop", "position": {"x": {"$secret": "a"}}}));
    assert_problems(&position, &[("it", "/nodes/1/position/x", here, "in the config")]);
}

#[test]
fn a_secrets_name_is_written_out() {
    for name in [json!("{{ctx.name}}"), json!(""), json!(5), json!(null), json!({"$expr": "ctx.name"}), json!("a b")] {
        let found = with_config("ask", json!({"key": {"$secret": name}}));
        let message = "this is not a valid name of a secret";
        assert_problems(&found, &[("it", "/nodes/1/config/key", message, "1 to 128 letters")]);
    }
    let more = with_config("ask", json!({"key": {"$secret": "a", "default": "b"}}));
    assert_problems(
        &more,
        &[("it", "/nodes/1/config/key", "an object that names a secret has no other field", "other fields")],
    );
}
