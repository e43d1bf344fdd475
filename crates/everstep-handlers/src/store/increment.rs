//! `store.increment`.

use everstep_core::records::Verb;
use serde_json::json;

use super::fields;
use super::handler::{RecordKind, RecordStep};

pub(super) fn kind() -> RecordKind {
    let mut all = vec![fields::namespace()];
    all.extend(fields::increment());
    all.push(fields::idempotency_key());
    RecordKind {
        name: "store.increment",
        step: RecordStep::Write(Verb::Increment),
        title: "Increment a record",
        icon: "database",
        summary: "Adds a number to a record of the data store, which is created if it is absent.",
        output: "`{value, revision, change}`: the new value. Integers are exact in 64 bits.",
        schema: fields::object("Adds to a record.", &["namespace", "key"], &all),
        examples: [
            ("Count the mails that were sent", json!({"namespace": "counters", "key": "mails"})),
            (
                "Count the requests of a customer within an hour",
                json!({"namespace": "rates", "key": "{{ctx.input.customer}}", "ttl_seconds": 3_600}),
            ),
        ],
    }
}
