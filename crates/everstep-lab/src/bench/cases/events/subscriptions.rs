//! One event for many subscriptions of one workflow, compared with starts by callers.

use std::time::Instant;

use everstep_core::ids::WorkspaceId;
use everstep_testkit::contract::fixtures::Tables;
use serde_json::json;

use super::stage::{Reached, Stage, TOPIC};
use super::{count, size};
use crate::bench::args::{Plan, Site};
use crate::bench::cases::starts;
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::ground::{self, Scratch};
use crate::bench::{report, shapes};

const SUBSCRIPTIONS: usize = 10_000;
const SUBSCRIPTIONS_QUICK: usize = 500;
const WORKFLOW: &str = "nothing";

/// Alternates between both, so that they have the same conditions of the disk.
pub(super) async fn measure(plan: &Plan, name: &str) -> anyhow::Result<Vec<Figure>> {
    let subscriptions = count(plan, SUBSCRIPTIONS, SUBSCRIPTIONS_QUICK);
    let (mut called, mut triggered) = (Vec::new(), Vec::new());
    for sample in 1..=plan.samples {
        report::tell(&format!("{name}: sample {sample} of {}", plan.samples));
        called.push(starts::measure_rate(&plan.site, plan.length).await?);
        triggered.push(measure_rate(&plan.site, subscriptions).await?);
    }
    let (called, triggered) = (median(called), median(triggered));
    let figures = Figures::new(name, plan.site.name(), 1)
        .with("subscriptions", subscriptions as f64, "")
        .with("startsPerSecond", triggered, "1/s")
        .with("calledStartsPerSecond", called, "1/s")
        .with("triggeredOfCalled", triggered / called, "ratio");
    Ok(figures.list())
}

/// The number of runs that an event starts per second, up to the last one. They end in the item that starts them.
async fn measure_rate(site: &Site, subscriptions: usize) -> anyhow::Result<f64> {
    let scratch = Scratch::new(site).await?;
    let at = scratch.site();
    // Opening it creates the tables.
    ground::visit(&at, |_| async { Ok(()) }).await?;
    add_subscriptions(&at, subscriptions).await?;
    size::settle(&at).await?;
    let rate = ground::visit(&at, move |stores| async move {
        let mut stage = Stage::set(stores, &[(WORKFLOW.to_owned(), shapes::nothing())]).await?;
        let began = Instant::now();
        stage.publish(json!({"order": 17, "amount": 40})).await?;
        let last = stage.reach(subscriptions, |reached| matches!(reached, Reached::Begun(_))).await?;
        stage.end().await?;
        Ok(subscriptions as f64 / last.duration_since(began).as_secs_f64())
    })
    .await;
    scratch.remove().await?;
    rate
}

/// Creates subscriptions by a statement of the database: a call for each would take longer than the measurement.
async fn add_subscriptions(site: &Site, count: usize) -> anyhow::Result<()> {
    let target = json!({"type": "workflow", "name": WORKFLOW});
    let workspace = WorkspaceId::DEFAULT.uuid();
    let (tables, statement) = match site {
        Site::Sqlite(folder) => {
            let (workspace, id) = (workspace.simple(), "unhex(printf('01990000000070008000%012x', n))");
            let statement = format!(
                "with recursive number (n) as (select 1 union all select n + 1 from number where n < {count})
                insert into subscriptions (workspace, id, pattern, head, target, created_at)
                select x'{workspace}', {id}, '{TOPIC}', '{TOPIC}', '{target}', 0 from number"
            );
            (Tables::in_folder(folder), statement)
        }
        Site::Postgres(url) => {
            let id = "('01990000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid";
            let statement = format!(
                "insert into subscriptions (workspace, id, pattern, head, target, created_at)
                select '{workspace}'::uuid, {id}, '{TOPIC}', '{TOPIC}', '{target}', 0
                from generate_series(1, {count}) as number (n)"
            );
            (Tables::Postgres(url.clone()), statement)
        }
    };
    tables.execute(&statement).await.map_err(|error| anyhow::anyhow!(error))
}
