//! Whether a node costs the same late in a long run as early in it.

use std::time::{Duration, Instant};

use everstep_core::ids::RunId;
use everstep_engine::{Engine, Start};
use everstep_store::Stores;

use super::case::SAMPLES;
use crate::bench::args::Plan;
use crate::bench::figure::{Figure, Figures, median, millis, quantile};
use crate::bench::journals::Journals;
use crate::bench::{ground, process, report, shapes};

const WORKFLOW: &str = "growing-chain";
const NODES: usize = 2_600;
const EARLY: u64 = 50;
const LATE: u64 = 5_000;
/// Nodes up to this many entries before and after are measured too.
const REACH: u64 = 45;

/// The cost of a node around two positions of the journal.
struct Costs {
    /// Milliseconds.
    early: f64,
    late: f64,
    /// Microseconds of processor time.
    early_work: f64,
    late_work: f64,
}

pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let mut samples = Vec::new();
    for sample in 1..=SAMPLES {
        report::tell(&format!("growth: sample {sample} of {SAMPLES}"));
        let length = plan.length;
        samples.push(ground::sample(&plan.site, move |stores| measure_costs(stores, length)).await?);
    }
    let middle = |cost: fn(&Costs) -> f64| median(samples.iter().map(cost).collect());
    let (early, late) = (middle(|costs| costs.early), middle(|costs| costs.late));
    let (early_work, late_work) = (middle(|costs| costs.early_work), middle(|costs| costs.late_work));
    let figures = Figures::new("growth", plan.site.name(), 1)
        .with("nodeAt50", early, "ms")
        .with("nodeAt5000", late, "ms")
        .with("nodeLateOfEarly", late / early, "ratio")
        .with("cpuAt50", early_work, "us")
        .with("cpuAt5000", late_work, "us")
        .with("cpuLateOfEarly", late_work / early_work, "ratio");
    Ok(figures.list())
}

/// One long run after the other, for the length of a sample.
async fn measure_costs(stores: Stores, length: Duration) -> anyhow::Result<Costs> {
    let engine = ground::start_engine(stores, WORKFLOW, &shapes::growing_chain(NODES)).await?;
    let (mut runs, mut early_work, mut late_work) = (Vec::new(), Vec::new(), Vec::new());
    let began = Instant::now();
    while runs.is_empty() || began.elapsed() < length {
        let run = engine.start_run(Start::new(WORKFLOW, shapes::input())).await?.run;
        let [early, late] = watch_work(&engine, run).await?;
        early_work.push(early);
        late_work.push(late);
        runs.push(run);
    }
    let journals = Journals::read(&*engine.world().runs, runs.into_iter()).await?;
    let time_around = |seq| millis(quantile(&mut journals.times_around(seq, REACH), 0.5));
    Ok(Costs {
        early: time_around(EARLY),
        late: time_around(LATE),
        early_work: median(early_work),
        late_work: median(late_work),
    })
}

/// Follows a run to its end. Returns the processor time per node around both positions, in microseconds.
async fn watch_work(engine: &Engine, run: RunId) -> anyhow::Result<[f64; 2]> {
    let mut watch = engine.watch(run);
    let mut marks = Vec::new();
    let mut places = [EARLY - REACH, EARLY + REACH, LATE - REACH, LATE + REACH].into_iter().peekable();
    while let Some(news) = watch.next().await {
        let Some(seq) = news.seq() else { continue };
        if places.next_if(|place| *place <= seq).is_some() {
            marks.push((seq, process::scheduled_time()?));
        }
    }
    let work = |from: usize, to: usize| {
        let ((first, before), (last, after)) = (marks.get(from)?, marks.get(to)?);
        let nodes = (last - first) as f64 / 2.0;
        Some(after.saturating_sub(*before).as_secs_f64() * 1e6 / nodes)
    };
    let work = work(0, 1).zip(work(2, 3));
    work.map(|(early, late)| [early, late]).ok_or_else(|| anyhow::anyhow!("the long run ended early"))
}
