//! The cost of the figures of minutes: the statement that a node sends once a second, with the figures and without them.
//!
//! A node adds the figures together with the counts of runs, in one transaction. The difference of both times is the
//! time that the figures take from the store in each second; while it lasts, the writer of SQLite commits nothing else.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everstep_core::ids::WorkspaceId;
use everstep_core::status::Status;
use everstep_store::{Counts, MinuteStats, RunStats, RunStore};

use crate::bench::args::Plan;
use crate::bench::figure::{Figure, Figures, millis, quantile};
use crate::bench::{ground, report};

/// The workflows of which runs start and end in the same second.
const WORKFLOWS: usize = 50;
/// The pairs of statements that are compared.
const PAIRS: usize = 200;
const QUICK_PAIRS: usize = 20;
/// How often a node sends the statement.
const PERIOD: Duration = Duration::from_secs(1);

/// Alternates between statements with and without figures.
pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    report::tell("stats");
    let pairs = if plan.is_quick { QUICK_PAIRS } else { PAIRS };
    let (mut alone, mut whole) = ground::sample(&plan.site, move |stores| async move {
        let (mut alone, mut whole) = (Vec::new(), Vec::new());
        for pair in 0..pairs {
            alone.push(add(&stores.runs, Vec::new()).await?);
            // A minute has the figures of sixty seconds: one statement of them inserts rows, the others add to them.
            whole.push(add(&stores.runs, stats(pair / 60)).await?);
        }
        Ok((alone, whole))
    })
    .await?;
    let difference = mean(&whole).saturating_sub(mean(&alone));
    let figures = Figures::new("stats", plan.site.name(), 1)
        .with("withP50", millis(quantile(&mut whole, 0.5)), "ms")
        .with("aloneP50", millis(quantile(&mut alone, 0.5)), "ms")
        .with("shareOfSecond", difference.as_secs_f64() / PERIOD.as_secs_f64() * 100.0, "%");
    Ok(figures.list())
}

async fn add(store: &Arc<dyn RunStore>, stats: Vec<MinuteStats>) -> anyhow::Result<Duration> {
    let began = Instant::now();
    store.add_counts(WorkspaceId::DEFAULT, counts(), stats).await?;
    Ok(began.elapsed())
}

fn name(n: usize) -> String {
    format!("workflow-{n}")
}

fn counts() -> Vec<Counts> {
    let of = |n: usize| {
        let count = move |status, change| Counts { workflow: name(n), status, n: change };
        [count(Status::Completed, 20), count(Status::Failed, 1), count(Status::Running, 2)]
    };
    (0..WORKFLOWS).flat_map(of).collect()
}

fn stats(minute: usize) -> Vec<MinuteStats> {
    let mut stats = RunStats { started: 23, completed: 20, failed: 1, ..RunStats::default() };
    for n in 0..21 {
        stats.count_duration(Duration::from_millis(n * n * 10));
    }
    let minute = i64::try_from(minute).expect("a measurement has few minutes");
    (0..WORKFLOWS).map(|n| MinuteStats { workflow: name(n), minute, stats: stats.clone() }).collect()
}

fn mean(times: &[Duration]) -> Duration {
    times.iter().sum::<Duration>() / u32::try_from(times.len().max(1)).expect("a measurement has few statements")
}
