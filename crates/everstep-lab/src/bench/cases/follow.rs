//! The cost of a follower of the workspace: the rate of short runs with one, compared with the rate without.

use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use everstep_engine::{Engine, WorkspaceFeed};

use super::case::SAMPLES;
use crate::bench::args::{Plan, Site};
use crate::bench::drive::{self, Load, Pace};
use crate::bench::figure::{Figure, Figures, median};
use crate::bench::{ground, report, shapes};

const WORKFLOW: &str = "short";
const IN_FLIGHT: usize = 256;
/// How often a server reads the feed for its followers.
const PERIOD: Duration = Duration::from_secs(1);

/// Alternates between samples with and without a follower.
pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let (mut alone, mut followed) = (Vec::new(), Vec::new());
    for sample in 1..=SAMPLES {
        report::tell(&format!("follow: sample {sample} of {SAMPLES}"));
        alone.push(measure_rate(&plan.site, plan.length, false).await?);
        followed.push(measure_rate(&plan.site, plan.length, true).await?);
    }
    let rate = |paces: &[Pace]| median(paces.iter().map(|pace| pace.per_second).collect());
    let work = |paces: &[Pace]| median(paces.iter().map(|pace| pace.work).collect());
    let figures = Figures::new("follow", plan.site.name(), IN_FLIGHT)
        .with("runsPerSecond", rate(&followed), "1/s")
        .with("aloneRunsPerSecond", rate(&alone), "1/s")
        .with("followedOfAlone", rate(&followed) / rate(&alone), "ratio")
        .with("cpuPerRun", work(&followed), "us")
        .with("aloneCpuPerRun", work(&alone), "us");
    Ok(figures.list())
}

async fn measure_rate(site: &Site, length: Duration, is_followed: bool) -> anyhow::Result<Pace> {
    ground::sample(site, move |stores| async move {
        let engine = ground::start_engine(stores, WORKFLOW, &shapes::chain(1)).await?;
        let follower = is_followed.then(|| tokio::spawn(follow(engine.clone())));
        let pace = drive::run_to_end(&engine, &Load::new(WORKFLOW, IN_FLIGHT, length)).await;
        if let Some(follower) = follower {
            follower.abort();
        }
        pace
    })
    .await
}

/// Reads the feed and the counts, as a server does for its followers.
async fn follow(engine: Engine) -> anyhow::Result<()> {
    let mut feed = WorkspaceFeed::new(WorkspaceId::DEFAULT);
    loop {
        feed.read(&engine).await;
        engine.counts(WorkspaceId::DEFAULT).await?;
        tokio::time::sleep(PERIOD).await;
    }
}
