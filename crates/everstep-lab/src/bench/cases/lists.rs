//! The first page of each list of runs, and a search by a declared attribute, among many ended runs.
//!
//! The runs that a filter finds are spread over all runs, so that a list without a suitable index examines many others.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::topics::{Trigger, TriggerKind};
use everstep_store::{NewRun, Projection, RunFilter, RunStore, Stores};
use serde_json::{Value, json};

use super::server::{self, Server};
use super::steps;
use crate::bench::args::{Plan, Site};
use crate::bench::connection::{self, Answer, Connection};
use crate::bench::drive::END_TIMEOUT;
use crate::bench::figure::{Figure, Figures, millis, quantile};
use crate::bench::ground::{self, Scratch};
use crate::bench::{report, shapes};

const RUNS: usize = 100_000;
const QUICK_RUNS: usize = 10_000;
/// The share of the runs that are written first, without search attributes: the size of a run is measured with them.
const PLAIN_SHARE: usize = 5;
/// Every run of this number has the rare property of a filter.
const RARE: usize = 1_000;
/// Runs of one customer.
const RUNS_PER_CUSTOMER: usize = 20;
const WORKFLOW: &str = "orders";
const RARE_WORKFLOW: &str = "returns";
const EVENT: &str = "b9d1a5a0";
/// The requests of one list.
const REQUESTS: usize = 200;
const QUICK_REQUESTS: usize = 20;
const WARM_UP_REQUESTS: usize = 5;

pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    server::find_program()?;
    let runs = plan.records(RUNS, QUICK_RUNS);
    report::tell(&format!("lists: creating {runs} ended runs"));
    let scratch = Scratch::new(&plan.site).await?;
    let (parent, bytes) = create(plan, &scratch.site(), runs).await?;
    let server = Server::start(&scratch.site()).await?;
    let requests = if plan.is_quick { QUICK_REQUESTS } else { REQUESTS };
    let mut figures = Figures::new("lists", plan.site.name(), 1).with("records", runs as f64, "");
    for List { metric, query } in lists(runs, parent) {
        report::tell(&format!("lists: {query}"));
        let mut times = Vec::new();
        let mut connection = Connection::open(&server.address).await?;
        let request = request(&server, &query);
        for number in 0..WARM_UP_REQUESTS + requests {
            let began = Instant::now();
            let Answer { status, body } = connection.ask(&request).await?;
            ensure!(status == 200, "{query}: {status} {body}");
            if number >= WARM_UP_REQUESTS {
                times.push(began.elapsed());
            }
        }
        figures = figures.with(metric, millis(quantile(&mut times, 0.5)), "ms");
    }
    figures = figures.with("searchRequests", search(&server, runs).await? as f64, "");
    if let Some(bytes) = bytes {
        figures = figures.with("bytesPerRun", bytes, "B");
    }
    tokio::task::spawn_blocking(move || drop(server)).await?;
    scratch.remove().await?;
    Ok(figures.list())
}

/// The first page of a list.
struct List {
    metric: &'static str,
    query: String,
}

fn lists(runs: usize, parent: RunId) -> Vec<List> {
    let list = |metric, query: &str| List { metric, query: query.to_owned() };
    vec![
        list("allP50", ""),
        list("failedP50", "status=failed"),
        list("completedP50", "status=completed"),
        list("runningP50", "status=running"),
        list("workflowP50", &format!("workflow={WORKFLOW}")),
        list("rareWorkflowP50", &format!("workflow={RARE_WORKFLOW}")),
        list("workflowRunningP50", &format!("workflow={WORKFLOW}&status=running")),
        list("versionP50", &format!("workflow={WORKFLOW}&version=2")),
        list("errorCodeP50", "errorCode=DECLINED"),
        list("parentP50", &format!("parent={parent}")),
        list("keyP50", "key=order-1000"),
        list("triggerP50", &format!("trigger=event:{EVENT}")),
        list("searchP50", &search_query(runs)),
    ]
}

fn search_query(runs: usize) -> String {
    format!("workflow={WORKFLOW}&input.customer={}", customers(runs) / 2)
}

/// The number of customers.
fn customers(runs: usize) -> usize {
    (runs - runs / PLAIN_SHARE).div_ceil(RUNS_PER_CUSTOMER)
}

fn request(server: &Server, query: &str) -> Vec<u8> {
    connection::get_with_key(&server.address, &server.key, &format!("/v1/runs?{query}"))
}

/// The number of requests until all runs of a customer are found.
async fn search(server: &Server, runs: usize) -> anyhow::Result<usize> {
    let mut connection = Connection::open(&server.address).await?;
    let (query, mut cursor) = (search_query(runs), String::new());
    let (mut found, mut requests) = (0, 0);
    loop {
        let Answer { status, body } = connection.ask(&request(server, &format!("{query}{cursor}"))).await?;
        ensure!(status == 200, "{query}: {status} {body}");
        let page: Value = serde_json::from_str(body)?;
        requests += 1;
        found += page["runs"].as_array().map_or(0, Vec::len);
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    ensure!(found > 0 && found <= RUNS_PER_CUSTOMER, "{query}: found {found} runs");
    Ok(requests)
}

/// Writes all runs. Returns the parent of some of them, and the bytes of a run without search attributes.
async fn create(plan: &Plan, site: &Site, runs: usize) -> anyhow::Result<(RunId, Option<f64>)> {
    let plain = runs / PLAIN_SHARE;
    ground::visit(site, declare).await?;
    let before = plan.database_size(site)?;
    let fill = move |stores: Stores| async move { steps::fill(&*stores.runs, plain, |_, _, _| ()).await.map(drop) };
    ground::visit(site, fill).await?;
    let bytes = plan.database_size(site)?.zip(before).map(|(after, before)| (after - before) / plain as f64);
    let parent = ground::visit(site, move |stores| async move {
        let parent = find_run(&*stores.runs).await?;
        let customers = customers(runs);
        let paths: Arc<[String]> = Arc::new(["customer".to_owned()]);
        let change = |number: usize, new: &mut NewRun, end: &mut Projection| {
            new.workflow = WORKFLOW.to_owned();
            // The runs of a customer are spread over all runs.
            new.input = Payload::from(json!({"customer": number % customers, "amount": 120}));
            new.search_paths = Arc::clone(&paths);
            if number.is_multiple_of(RARE / 10) {
                end.status = Status::Failed;
                let code = if number.is_multiple_of(RARE) { "DECLINED" } else { "TIMEOUT" };
                end.error = Some(Failure::fatal(code, "the payment has failed"));
            }
            match number % RARE {
                1 => new.workflow = RARE_WORKFLOW.to_owned(),
                2 => new.version = 2,
                3 => new.parent = Some(parent),
                4 => new.key = Some((WORKFLOW.to_owned(), format!("order-{}", number - 4))),
                5 => new.trigger = Some(trigger()),
                _ => {}
            }
        };
        steps::fill(&*stores.runs, runs - plain, change).await?;
        Ok(parent)
    })
    .await?;
    plan.analyze(site);
    Ok((parent, bytes))
}

/// Saves the workflow that declares the attribute, before its first run exists.
async fn declare(stores: Stores) -> anyhow::Result<()> {
    let mut graph = shapes::chain(1);
    graph["options"] = json!({"index": ["customer"]});
    let engine = ground::start_engine(stores, WORKFLOW, &graph).await?;
    Ok(engine.stop(END_TIMEOUT).await?)
}

async fn find_run(store: &dyn RunStore) -> anyhow::Result<RunId> {
    let page = store.list_runs(WorkspaceId::DEFAULT, RunFilter::default(), None, 1).await?;
    Ok(page.runs.first().context("the database has runs")?.id)
}

fn trigger() -> Trigger {
    Trigger {
        kind: TriggerKind::Event,
        id: EVENT.to_owned(),
        topic: Some("orders.paid".to_owned()),
        subscription: None,
        source: None,
        depth: 0,
        scheduled_for: None,
    }
}
