//! One event at a time, each of which starts a run, compared with one durable commit.

use std::time::Instant;

use everstep_core::ids::{SubscriptionId, WorkspaceId};
use everstep_core::time::Timestamp;
use everstep_core::topics::{Origin, Pattern, Subscription, Target};
use serde_json::json;

use super::count;
use super::stage::{Reached, Stage, TOPIC};
use crate::bench::args::Plan;
use crate::bench::cases::latency;
use crate::bench::figure::{Figure, Figures, median, millis, quantile};
use crate::bench::{ground, report, shapes};

const EVENTS: usize = 500;
const EVENTS_QUICK: usize = 20;
const WARM_UP: usize = 20;
const WORKFLOW: &str = "nothing";

/// Alternates between store and engine, so that both have the same conditions of the disk.
pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let (mut commits, mut starts) = (Vec::new(), Vec::new());
    for sample in 1..=plan.samples {
        report::tell(&format!("{name}: sample {sample} of {}", plan.samples));
        commits.push(latency::measure_commit(&plan.site, plan.length).await?);
        starts.push(measure_start(plan).await?);
    }
    let (commit, start) = (median(commits), median(starts));
    let figures = Figures::new(name, plan.site.name(), 1)
        .with("commitP50", commit, "ms")
        .with("startedP50", start, "ms")
        .with("startedOfCommit", start / commit, "ratio");
    Ok(figures.list())
}

/// The median time from a publish to the first entry of the run that it starts, in milliseconds.
async fn measure_start(plan: &Plan) -> anyhow::Result<f64> {
    let events = count(plan, EVENTS, EVENTS_QUICK);
    ground::sample(&plan.site, move |stores| async move {
        stores.topics.add_subscription(&subscription(), 1).await?;
        let mut stage = Stage::set(stores, &[(WORKFLOW.to_owned(), shapes::nothing())]).await?;
        let mut times = Vec::with_capacity(events);
        for event in 0..events + WARM_UP {
            let began = Instant::now();
            stage.publish(json!({"order": event, "amount": 40})).await?;
            let last = stage.reach(1, |reached| matches!(reached, Reached::Begun(_))).await?;
            if event >= WARM_UP {
                times.push(last.duration_since(began));
            }
        }
        stage.end().await?;
        Ok(millis(quantile(&mut times, 0.5)))
    })
    .await
}

fn subscription() -> Subscription {
    Subscription {
        id: SubscriptionId::new(Timestamp::EPOCH, 1),
        workspace: WorkspaceId::DEFAULT,
        pattern: Pattern::parse(TOPIC).expect("the topic is a pattern"),
        filter: None,
        target: Target::Workflow { name: WORKFLOW.to_owned(), version: None, retention_days: None, key: None },
        input: None,
        origin: Origin::Api,
        paused_at: None,
        created_at: Timestamp::EPOCH,
    }
}
