//! The memory of a hundred thousand sleeping runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use everstep_engine::{Engine, Start};
use tokio::task::JoinSet;

use crate::bench::args::Plan;
use crate::bench::figure::{Figure, Figures};
use crate::bench::{ground, process, report, shapes};

const WORKFLOW: &str = "sleep";
const RUNS: usize = 100_000;
const CALLERS: usize = 256;
/// Memory that was needed only to start them is released by then.
const SETTLE_DURATION: Duration = Duration::from_secs(2);

/// Measured in the process that started them, which is the worse case: a restarted one would not load them.
pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    report::tell(&format!("sleeping: {RUNS} runs"));
    let memory = ground::sample(&plan.site, |stores| async {
        let engine = ground::start_engine(stores, WORKFLOW, &shapes::sleep()).await?;
        start_sleepers(&engine, RUNS).await?;
        tokio::time::sleep(SETTLE_DURATION).await;
        anyhow::ensure!(engine.active_runs() == 0, "{} of the runs are not asleep", engine.active_runs());
        process::resident_memory()
    })
    .await?;
    Ok(Figures::new("sleeping", plan.site.name(), RUNS).with("rss", memory, "MB").list())
}

/// Starts runs of [`shapes::sleep`], published as `sleep`.
pub(super) async fn start_sleepers(engine: &Engine, runs: usize) -> anyhow::Result<()> {
    let mut callers = JoinSet::new();
    let left = Arc::new(AtomicUsize::new(runs));
    for _ in 0..CALLERS {
        let (engine, left) = (engine.clone(), Arc::clone(&left));
        callers.spawn(async move {
            while left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                engine.start_run(Start::new(WORKFLOW, shapes::input())).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(called) = callers.join_next().await {
        called??;
    }
    Ok(())
}
