//! Idempotency keys of signals and controls.

use everstep_core::limits;
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Reply};
use serde_json::json;

use super::support::{Game, compile, definition};

fn started(head: &str) -> Game {
    let mut game = Game::new(compile(&definition(head)).unwrap());
    game.input(Input::Start { input: Payload::from(json!({})), cause: None });
    game
}

fn set(n: usize) -> Input {
    Input::SetContext { values: Payload::from(json!({"n": n})) }
}

fn code(reply: &Reply) -> &str {
    match reply {
        Reply::Refused { code, .. } => code,
        Reply::Accepted | Reply::Buffered | Reply::Repeated | Reply::Applied(_) | Reply::Ignored(_) => {
            panic!("{reply:?} is not a refusal")
        }
    }
}

#[test]
fn a_key_has_one_to_255_characters() {
    let mut game = started("start -> a -> end");
    for key in ["", &"ü".repeat(limits::KEY_CHARS + 1)] {
        let (entries, reply) = game.keyed(set(1), Some(key));
        assert_eq!((code(&reply), entries.len()), ("VALIDATION_ERROR", 0));
    }
    assert_eq!(game.keyed(set(1), Some(&"ü".repeat(limits::KEY_CHARS))).1, Reply::Accepted);
}

#[test]
fn only_signals_and_controls_have_a_key() {
    let mut game = started("start -> a -> end");
    let lost = Input::TaskLost { step: "a".into(), attempt: 1 };
    for input in [Input::Settle, lost, Input::Start { input: Payload::null(), cause: None }] {
        let (entries, reply) = game.keyed(input, Some("k"));
        assert_eq!((code(&reply), entries.len()), ("VALIDATION_ERROR", 0));
    }
}

#[test]
fn what_was_not_accepted_leaves_its_key_free() {
    let mut game = started("start -> a -> wait -> end");
    let go = || Input::Signal { event: "go".into(), payload: Payload::null() };
    assert!(matches!(game.keyed(go(), Some("k")).1, Reply::Ignored(_)));
    assert_eq!(code(&game.keyed(Input::Resume, Some("k")).1), "INVALID_TRANSITION");
    assert_eq!(game.keyed(Input::Pause { reason: None }, Some("k")).1, Reply::Accepted);
    assert!(matches!(game.keyed(Input::Pause { reason: None }, Some("other")).1, Reply::Ignored(_)));
    assert_eq!(game.keyed(Input::Resume, Some("other")).1, Reply::Accepted);
}

#[test]
fn a_run_remembers_its_last_keys_and_what_they_weigh() {
    let mut game = started("start -> a -> end");
    let before = game.state.weight();
    for n in 0..=limits::REMEMBERED_KEYS {
        assert_eq!(game.keyed(set(1), Some(&format!("key-{n:04}"))).1, Reply::Accepted);
    }
    let full = game.state.weight();
    assert!(full - before > limits::REMEMBERED_KEYS * "key-0000".len());
    // The first key is forgotten, all others are remembered.
    for n in 1..=limits::REMEMBERED_KEYS {
        assert_eq!(game.keyed(set(1), Some(&format!("key-{n:04}"))).1, Reply::Repeated);
    }
    assert_eq!(game.keyed(set(1), Some("key-0000")).1, Reply::Accepted);
    assert_eq!(game.keyed(set(1), Some("key-0001")).1, Reply::Accepted);
    assert_eq!(game.state.weight(), full);
    game.reload();
    assert_eq!(game.keyed(set(1), Some("key-0001")).1, Reply::Repeated);
}

#[test]
fn a_snapshot_without_keys_is_one_of_a_run_without_keys() {
    let mut game = started("start -> a -> end");
    let snapshot = serde_json::to_string(&game.state).unwrap();
    assert!(!snapshot.contains("keys"));
    game.keyed(set(1), Some("k"));
    assert!(serde_json::to_string(&game.state).unwrap().contains("keys"));
}

#[test]
fn replies_travel_as_json() {
    let replies = [
        Reply::Accepted,
        Reply::Repeated,
        Reply::ignored("the result is late"),
        Reply::refused("RUN_ENDED", "it has ended"),
    ];
    for reply in replies {
        let text = serde_json::to_string(&reply).unwrap();
        assert_eq!(serde_json::from_str::<Reply>(&text).unwrap(), reply, "{text}");
        assert_eq!(reply.is_accepted(), matches!(reply, Reply::Accepted | Reply::Repeated));
    }
}
