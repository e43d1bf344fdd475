//! State machines, as people use them over HTTP.

mod aliases;
mod attempts;
mod effects;
mod evaluate;
mod people;
mod timers;
mod transitions;

use axum::http::Method;
use serde_json::{Value, json};

use crate::people as tokens;
use crate::support::{Answer, Server};

/// The permission of a person who may only act.
pub(super) const ACT: &[&str] = &["workflow:act"];

/// An expense that its manager, or a boss, approves within two days.
fn expense() -> Value {
    json!({
        "description": "An expense of an employee.",
        "contextSchema": {
            "type": "object",
            "properties": {"amount": {"type": "number"}, "manager": {"type": "string"}, "account": {"type": "string"}},
            "required": ["amount"],
        },
        "states": [
            {
                "name": "review", "title": "Review", "initial": true, "show": ["amount"], "assign": ["{{ctx.manager}}"],
                "on": {
                    "APPROVE": {
                        "title": "Approve", "to": "approved", "needs": {"data": ["account"]},
                        "require": {"assigned": true, "role": ["Boss"], "notBy": ["@start"]},
                        "condition": {"type": "json-logic", "rule": {"<=": [{"var": "amount"}, 1000]}},
                        "message": "more than 1,000 need a contract",
                        "set": {"booked": "{{ctx.amount}}"},
                    },
                    "REJECT": {"to": "rejected", "needs": {"comment": true}, "require": {"assigned": true, "role": ["Boss"]}},
                },
                "after": [{"in": "2d", "to": "rejected"}],
            },
            {"name": "approved", "terminal": true, "output": {"booked": "{{ctx.booked}}"}},
            {"name": "rejected", "terminal": true, "error": true},
        ],
    })
}

/// A server with the state machine `expense`, and a role that grants nothing else.
async fn start_server() -> Server {
    let server = tokens::start().await;
    server.publish("expense", &expense()).await;
    let roles = json!({"options": {"roles": {"Boss": "expenses.approve"}}});
    server.ask_as_admin(Method::PATCH, "/v1/workspaces/default", &[], &roles).await.is(200);
    server
}

/// Starts an expense as a person, and returns the path of the run.
async fn start_as(server: &Server, person: &str, amount: u32) -> String {
    let token = tokens::token(server, person, &["workflow:manage"]);
    let input = json!({"input": {"amount": amount, "manager": "mia"}});
    let started = tokens::ask(server, &token, Method::POST, "/v1/workflows/expense/runs", &input).await.is(201);
    format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap())
}

/// Sends a transition as a person who may only act.
async fn act(server: &Server, person: &str, run: &str, request: &Value) -> Answer {
    let token = tokens::token(server, person, ACT);
    tokens::ask(server, &token, Method::POST, &format!("{run}/transitions"), request).await
}

/// Sends a transition with an idempotency key.
async fn act_with_key(server: &Server, person: &str, run: &str, key: &str, request: &Value) -> Answer {
    let bearer = format!("Bearer {}", tokens::token(server, person, ACT));
    let headers = [("authorization", &*bearer), ("idempotency-key", key)];
    server.ask(Method::POST, &format!("{run}/transitions"), &headers, &request.to_string()).await
}

/// The history of a run, as an admin sees it.
async fn history(server: &Server, run: &str) -> Vec<Value> {
    let page = server.get(&format!("{run}/history?limit=500")).await.is(200);
    assert_eq!(page["nextCursor"], Value::Null);
    page["entries"].as_array().unwrap().clone()
}

fn approval() -> Value {
    json!({"action": "APPROVE", "version": 1, "data": {"account": "4711"}})
}
