//! Decisions and checks that take long.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::neighbours::attack::Attack;
use crate::neighbours::site::chain;

/// An expression may have 512 operators.
const FILTERS: usize = 502;
const TEXT_BYTES: usize = 900_000;
/// Items of the lists that conditions read.
const ITEMS: usize = 50_000;
/// Nodes of a definition, each with an edge to each.
const NODES: usize = 500;

/// Ten runs at a time, each with an expression that copies a long text hundreds of times.
pub(crate) async fn evaluate_expressions(attack: Attack) -> anyhow::Result<()> {
    let filters: Vec<_> = ["upper", "lower"].into_iter().cycle().take(FILTERS).collect();
    let expression = format!("{{{{ ctx.input.text | {} | length }}}}", filters.join(" | "));
    let node = json!({"id": "cost", "type": "noop", "config": {"output": expression}, "retry": {"maxAttempts": 1}});
    attack.save("expression", &chain(&[node])).await?;
    let input = json!({"input": {"text": "x".repeat(TEXT_BYTES)}}).to_string();
    let request: Arc<[u8]> = attack.post("/v1/workflows/expression/runs", &input).into();
    attack.begin();
    attack.keep_sending(10, Duration::from_secs(1), move |_, _| Arc::clone(&request)).await;
    Ok(())
}

/// Requests to state machines whose conditions are too costly.
pub(crate) async fn evaluate_guards(attack: Attack) -> anyhow::Result<()> {
    const CLIENTS: usize = 4;
    attack.save("guard", &guarded_machine()).await?;
    let input = json!({"items": (0..100).collect::<Vec<_>>(), "many": (0..ITEMS).collect::<Vec<_>>()});
    let mut runs = Vec::new();
    for _ in 0..CLIENTS {
        runs.push(attack.start("guard", &input).await?);
    }
    let guards = conditions().len();
    let sender = attack.clone();
    attack.begin();
    let request = move |client: usize, n: usize| {
        let body = format!(r#"{{"action": "GO{}"}}"#, n % guards);
        sender.post(&format!("/v1/runs/{}/transitions", runs[client]), &body).into()
    };
    attack.keep_sending(CLIENTS, Duration::ZERO, request).await;
    Ok(())
}

/// Conditions that would need endless memory, depth or work.
fn conditions() -> Vec<Value> {
    let accumulator = json!({"var": "accumulator"});
    let reduce = |rule: Value, initial: Value| json!({"reduce": [{"var": "items"}, rule, initial]});
    vec![
        reduce(json!({"cat": [accumulator, accumulator]}), json!("xxxxxxxx")),
        reduce(json!({"merge": [accumulator, accumulator]}), json!([1, 2, 3])),
        reduce(json!([accumulator, accumulator]), json!(1)),
        json!({"all": [{"var": "many"}, {"==": [1, 1]}]}),
        json!({"some": [{"var": "many"}, {"in": ["nothing", {"cat": [{"var": ""}, "x"]}]}]}),
        json!({"==": [{"var": "many"}, "1"]}),
    ]
}

/// A state machine with an action per condition, `GO0` and so on.
fn guarded_machine() -> Value {
    let actions = conditions().into_iter().enumerate().map(|(number, rule)| {
        (format!("GO{number}"), json!({"to": "done", "condition": {"type": "json-logic", "rule": rule}}))
    });
    let on = actions.collect::<serde_json::Map<_, _>>();
    json!({"states": [{"name": "open", "initial": true, "on": on}, {"name": "done", "terminal": true}]})
}

/// Forty checks at a time of a definition with 250,000 edges: half of them by a viewer, who may not send so much, and
/// half by a key that may save definitions.
pub(crate) async fn check_definitions(attack: Attack) -> anyhow::Result<()> {
    let nodes: Vec<_> = (0..NODES).map(|n| format!(r#"{{"id":"{n}","type":"noop"}}"#)).collect();
    let mut edges = String::new();
    for source in 0..NODES {
        for target in 0..NODES {
            edges += &format!(r#"{{"source":"{source}","target":"{target}"}},"#);
        }
    }
    let edges = edges.trim_end_matches(',');
    let body = format!(r#"{{"nodes":[{}],"edges":[{edges}]}}"#, nodes.join(","));
    let viewer = attack.with_role("viewer").await?;
    let requests: [Arc<[u8]>; 2] = [&viewer, &attack].map(|holder| holder.post("/v1/workflows/validate", &body).into());
    attack.begin();
    attack.keep_sending(40, Duration::ZERO, move |client, _| Arc::clone(&requests[client % 2])).await;
    Ok(())
}
