//! Definitions of state machines: how they are read, their problems, their schema and their page.

mod messages;
mod page;

mod random;
mod reading;
mod schema;
mod stalemates;

use serde_json::{Value, json};

/// A definition that uses every field of the format.
fn whole() -> Value {
    let amount = |bound: u32| json!({"type": "json-logic", "rule": {">": [{"var": "amount"}, bound]}});
    json!({
        "$schema": "https://example.com/v1/schemas/machine",
        "workflow": "Invoice",
        "version": "2.1",
        "description": "Approves an invoice.",
        "contextSchema": {
            "type": "object",
            "properties": {"amount": {"type": "number"}, "reviewers": {"type": "array"}},
            "required": ["amount"]
        },
        "start": {"require": {"role": ["Clerk"], "user": ["ann"]}},
        "options": {"retentionDays": 90},
        "states": [
            {
                "name": "draft", "initial": true, "title": "Draft", "description": "Being written.",
                "assign": ["{{meta.startedBy}}"],
                "on": {
                    "SUBMIT": {
                        "title": "Submit",
                        "require": {"assigned": true},
                        "needs": {"data": ["amount"], "files": 1},
                        "condition": amount(0),
                        "message": "an invoice has an amount",
                        "choose": [
                            {
                                "condition": amount(1_000), "to": "review", "set": {"level": 2},
                                "events": [{"id": "big", "type": "assign", "target": ["{{ctx.manager}}", "key:7"]}]
                            },
                            {"to": "charge", "set": {"level": 1}}
                        ],
                        "set": {"submittedAt": "{{meta.now}}"},
                        "events": [{"type": "assign", "target": ["ann"]}]
                    }
                }
            },
            {
                "name": "review", "show": ["amount", "order.total"], "onStalemate": "REJECT",
                "on": {
                    "APPROVE": {
                        "require": {"role": ["Manager", "__assigned__"], "notBy": ["@start", "SUBMIT"]},
                        "quorum": {"of": ["{{ctx.reviewers}}"], "need": 2},
                        "needs": {"shown": true},
                        "to": "charge"
                    },
                    "REJECT": {
                        "quorum": {"of": ["{{ctx.reviewers}}"], "need": "60%"}, "needs": {"comment": true},
                        "to": "draft"
                    },
                    "ASK": {"quorum": {"need": "ANY"}, "to": "review"}
                },
                "after": [
                    {"in": "2d", "events": [{"type": "assign", "target": ["bob"]}]},
                    {"in": "4d", "do": "REJECT"},
                    {"at": "{{ctx.dueAt}}", "to": "dropped"}
                ],
                "exit": [
                    {"type": "assign", "target": ["cay"]},
                    {
                        "type": "notify", "target": ["ann@example.com", "{{ctx.reviewers}}"],
                        "template": {"subject": "Decided", "text": "Amount: {{ctx.amount}}"},
                        "retry": {"maxAttempts": 2}, "timeoutSeconds": 5
                    }
                ]
            },
            {
                "name": "charge",
                "run": {
                    "workflow": "payment", "version": 3, "input": {"amount": "{{ctx.amount}}"}, "saveAs": "payment",
                    "done": "check", "error": "dropped"
                }
            },
            {
                "name": "check",
                "on": {"FINISH": {"condition": amount(0), "to": "paid"}, "HOLD": {"to": "dropped"}},
                "entry": [{"id": "auto", "type": "auto_action", "target": "FINISH", "payload": {"by": "rule"}}]
            },
            {"name": "paid", "terminal": true, "output": {"paid": "{{ctx.amount}}"}},
            {"name": "dropped", "terminal": true, "error": true}
        ]
    })
}
