//! Callers in the process of the engine that write records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use everstep_core::records::{Author, NewOp, OpAction};
use everstep_engine::Engine;
use tokio::task::JoinSet;

use super::ops::NAMESPACE;
use crate::bench::drive::{self, Pace};

/// Ops that callers have written.
pub(super) struct Written {
    pub(super) pace: Pace,
    /// All of them, those of the warm-up included.
    pub(super) ops: u64,
}

/// Keeps callers busy for a sample, and stops the engine when every op is answered. `action` is the next op of a
/// caller, by the caller's number and the number of its op.
pub(super) async fn write(
    engine: &Engine,
    callers: usize,
    length: Duration,
    action: fn(usize, usize) -> OpAction,
) -> anyhow::Result<Written> {
    let (written, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let (engine, written, is_over) = (engine.clone(), Arc::clone(&written), Arc::clone(&is_over));
        tasks.spawn(async move {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                let outcome = engine.records().apply(new_op(action(caller, number))).await?;
                outcome.map_err(|failure| anyhow::anyhow!("an op of the benchmark failed: {failure}"))?;
                written.fetch_add(1, Ordering::Relaxed);
                number += 1;
            }
            anyhow::Ok(())
        });
    }
    let pace = drive::sample(&written, length).await?;
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    engine.stop(drive::END_TIMEOUT).await?;
    Ok(Written { pace, ops: written.load(Ordering::Relaxed) })
}

fn new_op(action: OpAction) -> NewOp {
    NewOp {
        workspace: WorkspaceId::DEFAULT,
        namespace: NAMESPACE.to_owned(),
        key: None,
        author: Author { run: None, step: None, actor: "key:bench".to_owned() },
        action,
    }
}
