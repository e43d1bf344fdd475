//! A repeated request gets its first answer, wherever it is sent and whatever has happened.

use serde_json::json;

use crate::alone;
use crate::office::{Person, entries, levels, site};
use crate::support::wait_for;

#[test]
fn a_repeated_key_is_answered_as_before() {
    let _turn = alone();
    let site = site();
    let ((one, a), (two, b)) = site.start_two();
    a.publish("levels", &levels(&["first", "second", "third"], Some("25s")));
    let run = a.start("levels", &json!({}));
    wait_for("the run to be held by its starter", || (a.get(&run).is(200)["owner"] == json!(one.node())).then_some(()));
    let (mut ann, mut bob) = (Person::new("ann", &one), Person::new("bob", &two));
    let request = json!({"action": "APPROVE", "version": 1, "comment": "fine"});
    let first = ann.acts(&run, &request, Some("k"));
    assert_eq!((first.0, &first.1["nextState"]), (200, &json!("second")), "{first:?}");
    // Through both nodes, although the version is stale by now.
    assert_eq!(ann.acts(&run, &request, Some("k")), first);
    ann.turn_to(&two);
    assert_eq!(ann.acts(&run, &request, Some("k")), first);
    // Another request under the key, and another person's equal key.
    let other = json!({"action": "APPROVE", "version": 1, "comment": "good"});
    let (status, body) = ann.acts(&run, &other, Some("k"));
    assert_eq!((status, &body["code"]), (409, &json!("IDEMPOTENCY_KEY_REUSED")));
    assert_eq!(
        (&body["state"], &body["versionNo"], &body["lastBy"]["id"]),
        (&json!("second"), &json!(2), &json!("ann"))
    );
    assert!(body["lastAt"].is_string(), "{body}");
    let (status, body) = bob.acts(&run, &request, Some("k"));
    assert_eq!((status, &body["code"]), (409, &json!("CONCURRENCY_ERROR")));
    let second = bob.acts(&run, &json!({"action": "APPROVE", "version": 2}), Some("k"));
    assert_eq!((second.0, &second.1["nextState"]), (200, &json!("third")));
    // After the owner was killed.
    one.kill();
    assert_eq!(ann.acts(&run, &request, Some("k")), first);
    assert_eq!(bob.acts(&run, &json!({"action": "APPROVE", "version": 2}), Some("k")), second);
    assert_eq!(entries(&b, &run, "TransitionApplied").len(), 3);
    // And after the end of the run.
    wait_for("the other node to take the run", || {
        (bob.acts(&run, &json!({"action": "APPROVE", "version": 3}), Some("end")).0 == 200).then_some(())
    });
    assert_eq!(b.get(&run).is(200)["status"], "completed");
    assert_eq!(ann.acts(&run, &request, Some("k")), first);
}
