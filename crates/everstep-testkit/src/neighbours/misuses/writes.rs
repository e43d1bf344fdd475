//! Rows that small keys write.

use std::sync::Arc;
use std::time::Duration;

use crate::neighbours::attack::Attack;

/// Workflows of one worker session.
const WORKFLOWS: usize = 1_000;

/// Tickets of a viewer.
pub(crate) async fn create_tickets(attack: Attack) -> anyhow::Result<()> {
    let viewer = attack.with_role("viewer").await?;
    let request: Arc<[u8]> = viewer.post("/v1/tickets", "").into();
    attack.begin();
    attack.keep_sending(16, Duration::ZERO, move |_, _| Arc::clone(&request)).await;
    Ok(())
}

/// Starts that each create a workflow, with the API key of an operator.
pub(crate) async fn start_unknown_names(attack: Attack) -> anyhow::Result<()> {
    let operator = attack.with_role("operator").await?;
    let request = move |client: usize, n: usize| {
        let path = format!("/v1/workflows/unknown-{client}-{n}/runs");
        operator.post(&path, r#"{"allowUnserved": true}"#).into()
    };
    attack.begin();
    attack.keep_sending(16, Duration::ZERO, request).await;
    Ok(())
}

/// Sessions of a worker, each with workflows that do not exist yet.
pub(crate) async fn register_workflows(attack: Attack) -> anyhow::Result<()> {
    let worker = attack.with_role("worker").await?;
    let request = move |client: usize, n: usize| {
        let workflows: Vec<_> =
            (0..WORKFLOWS).map(|w| format!(r#"{{"name":"served-{client}-{n}-{w}","version":1}}"#)).collect();
        let workflows = workflows.join(",");
        let body = format!(r#"{{"protocol":1,"worker":"host","capacity":0,"workflows":[{workflows}]}}"#);
        worker.post("/v1/worker/sessions", &body).into()
    };
    attack.begin();
    attack.keep_sending(4, Duration::ZERO, request).await;
    Ok(())
}
