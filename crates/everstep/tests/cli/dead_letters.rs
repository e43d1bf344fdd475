//! `everstep dlq`.

use std::time::Duration;

use everstep_core::ids::DeadLetterId;
use everstep_core::time::Timestamp;
use rusqlite::Connection;
use serde_json::Value;

use crate::client::Session;

/// Writes a dead letter to the database of a server, as a commit leaves it.
fn write(session: &Session, number: u128, workflow: &str) -> String {
    let id = DeadLetterId::new(Timestamp::from_millis(1_790_000_000_000), number);
    let connection = Connection::open(session.folder.path().join("data/everstep.db")).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    let insert = format!(
        "insert into dead_letters (workspace, id, created_at, changed_at, source, kind, workflow, step, delivery, target,
            error, secrets, attempts, config)
        values (x'00000000000000000000000000000001', x'{}', 1790000000000000, 1790000000000000, 'delivery', 'telegraph',
            '{workflow}', 'APPROVE[7].tell-erp', 'd-{number}', 'https://erp.example.com/hooks', 'HTTP_STATUS', '[]',
            '[{{\"at\":1790000000000000,\"ms\":12,\"code\":\"HTTP_STATUS\",\"message\":\"erp is down\",\"status\":503}}]',
            cast('{{\"target\":\"https://erp.example.com/hooks\"}}' as blob))",
        id.uuid().simple()
    );
    connection.execute_batch(&insert).unwrap();
    id.to_string()
}

#[test]
fn dead_letters_are_listed_shown_requeued_and_discarded() {
    let session = Session::new();
    let ids: Vec<_> = (1..4).map(|number| write(&session, number, "orders")).collect();
    let other = write(&session, 9, "invoices");

    let listed = session.call(&["dlq", "list", "--workflow", "orders", "--status", "dead"]).exits(0).stdout.clone();
    for part in [&*ids[0], &ids[1], &ids[2], "telegraph", "HTTP_STATUS", "https://erp.example.com/hooks"] {
        assert!(listed.contains(part), "{part} is not in\n{listed}");
    }
    assert!(!listed.contains(&other), "{listed}");
    let all: Value = serde_json::from_str(&session.call(&["dlq", "list", "--json"]).exits(0).stdout).unwrap();
    assert_eq!(all["deadLetters"].as_array().unwrap().len(), 4);
    let few = session.call(&["dlq", "list", "--limit", "1"]);
    few.exits(0).says("there are more dead letters");

    let shown = session.call(&["dlq", "show", &ids[0]]).exits(0).stdout.clone();
    for part in ["status     dead", "delivery   d-1", "erp is down", "503", "\"target\":"] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    let shown: Value =
        serde_json::from_str(&session.call(&["dlq", "show", &ids[0], "--json"]).exits(0).stdout).unwrap();
    assert_eq!(shown["attempts"][0]["status"], 503);

    session.call(&["dlq", "requeue", &ids[0]]).exits(0).says(&format!("requeued dead letter {}", ids[0]));
    let dry = session.call(&["dlq", "discard", "--workflow", "invoices", "--dry-run"]);
    dry.exits(0).says("would be discarded: 1 dead letter");
    session.call(&["dlq", "discard", &ids[1], "--reason", "by phone"]).exits(0).says("discarded dead letter");
    session.call(&["dlq", "requeue", &ids[1]]).exits(2).says("DEAD_LETTER_NOT_DEAD");
    session.call(&["dlq", "discard", "--workflow", "invoices"]).exits(0).says("discarded 1 dead letter");
    session
        .call(&["dlq", "discard", "--since", "2020-01-01T00:00:00Z", "--kind", "none"])
        .exits(0)
        .says("0 dead letters");

    session.call(&["dlq", "requeue"]).exits(2).says("the filter is empty");
    session.call(&["dlq", "requeue", &ids[2], "--all"]).exits(2);
    session.call(&["dlq", "show", "019a0000-0000-7000-8000-000000000000"]).exits(2).says("NOT_FOUND");
    session.call(&["dlq", "requeue", "--all"]).exits(0).says("requeued ");
}
