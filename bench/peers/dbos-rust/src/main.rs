//! An application with DBOS Rust: it calls its workflows in the process, and measures them.
//!
//! Commands are lines of JSON on standard input, answers are lines on standard output, as in `lib/orders.mjs`; the rows
//! are those of `lib/rows.mjs`. The end of standard input ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dbos::{Config, DBOS, WorkflowRef};
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

const CHAIN_STEPS: u64 = 10;
const FAN_STEPS: u64 = 500;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// The executions of the workflow `nothing`.
static EXECUTED: AtomicU64 = AtomicU64::new(0);

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Serialize, Deserialize)]
struct Input {
    n: u64,
}

#[derive(Serialize, Deserialize)]
struct Output {
    n: u64,
    sum: u64,
}

#[derive(Serialize, Deserialize)]
struct StepOutput {
    value: u64,
}

async fn chain(input: Input) -> dbos::Result<Output> {
    let mut sum = 0;
    for value in 0..CHAIN_STEPS {
        let output =
            dbos::step(&format!("step-{value}"), move || async move { Ok::<_, dbos::Error>(StepOutput { value }) })
                .await?;
        sum += output.value;
    }
    Ok(Output { n: input.n, sum })
}

async fn fan(input: Input) -> dbos::Result<Output> {
    let steps = (0..FAN_STEPS).map(|value| {
        dbos::step(&format!("step-{value}"), move || async move { Ok::<_, dbos::Error>(StepOutput { value }) })
    });
    // Every step takes its place in the journal before the first one is polled.
    let outputs = try_join_all(steps.collect::<Vec<_>>()).await?;
    Ok(Output { n: input.n, sum: outputs.iter().map(|output| output.value).sum() })
}

async fn nothing(input: Input) -> dbos::Result<Input> {
    EXECUTED.fetch_add(1, Ordering::Relaxed);
    Ok(input)
}

struct App {
    chain: WorkflowRef<Input, Output>,
    fan: WorkflowRef<Input, Output>,
    nothing: WorkflowRef<Input, Input>,
    /// The number of the last run.
    n: AtomicU64,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut config = Config::new("everstep-peer", std::env::var("DBOS_SYSTEM_DATABASE_URL")?);
    config.app_version = Some("1".to_owned());
    let dbos = DBOS::new(config);
    let app = Arc::new(App {
        chain: dbos.register_workflow("chain", chain)?,
        fan: dbos.register_workflow("fan", fan)?,
        nothing: dbos.register_workflow("nothing", nothing)?,
        n: AtomicU64::new(0),
    });
    dbos.launch().await?;
    println!("{{\"ready\":true}}");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let order: Value = serde_json::from_str(&line)?;
        let row = order["row"].as_str().ok_or("a command names a row")?;
        let seconds = Duration::from_secs_f64(order["seconds"].as_f64().ok_or("a command has seconds")?);
        let mut answer = match measure(&app, row, seconds).await {
            Ok(figure) => figure,
            Err(failure) => json!({ "error": failure.to_string() }),
        };
        // The id is the first member: the other side looks for it there.
        let members = answer.as_object_mut().map(std::mem::take).unwrap_or_default();
        let rest = serde_json::to_string(&members)?;
        println!("{{\"id\":{},{}", order["id"], &rest[1..]);
    }
    Ok(())
}

async fn measure(app: &Arc<App>, row: &str, seconds: Duration) -> Result<Value, Failure> {
    match row {
        "w1" => latency(app, CHAIN_STEPS, seconds).await,
        "w3" => latency(app, FAN_STEPS, seconds).await,
        "w2-64" => steps_per_second(app, 64, seconds).await,
        "w2-256" => steps_per_second(app, 256, seconds).await,
        "w4" => starts(app, 64, seconds).await,
        _ => Err(format!("there is no row {row}").into()),
    }
}

impl App {
    fn next(&self) -> u64 {
        self.n.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Executes a run of some steps, and checks its output.
    async fn run(&self, steps: u64) -> Result<(), Failure> {
        let n = self.next();
        let workflow = if steps == CHAIN_STEPS { &self.chain } else { &self.fan };
        let output = workflow.run(Input { n }).await?;
        let expected = steps * (steps - 1) / 2;
        if output.n != n || output.sum != expected {
            return Err(format!("run {n}: expected the sum {expected}, found {} and {}", output.n, output.sum).into());
        }
        Ok(())
    }
}

/// The times of runs, one after the other.
async fn latency(app: &Arc<App>, steps: u64, seconds: Duration) -> Result<Value, Failure> {
    let mut times = Vec::new();
    let warm = Instant::now() + seconds / 4;
    let end = warm + seconds;
    let mut began = Instant::now();
    while began < end {
        app.run(steps).await?;
        let ended = Instant::now();
        if began >= warm {
            times.push((ended - began).as_secs_f64() * 1_000.0);
        }
        began = ended;
    }
    times.sort_by(f64::total_cmp);
    if times.is_empty() {
        return Err("no run has ended in time: measure for more --seconds".into());
    }
    let percentile = |share: f64| times[((times.len() as f64 * share) as usize).min(times.len() - 1)];
    Ok(json!({ "value": percentile(0.5), "p99": percentile(0.99), "count": times.len() }))
}

async fn steps_per_second(app: &Arc<App>, in_flight: usize, seconds: Duration) -> Result<Value, Failure> {
    let (rate, count, _) = throughput(app, in_flight, seconds, |app| async move { app.run(CHAIN_STEPS).await }).await?;
    Ok(json!({ "value": rate * CHAIN_STEPS as f64, "count": count }))
}

/// Starts per second; then all started runs must be executed once.
async fn starts(app: &Arc<App>, callers: usize, seconds: Duration) -> Result<Value, Failure> {
    let before = EXECUTED.load(Ordering::Relaxed);
    let start = |app: Arc<App>| async move {
        let n = app.next();
        app.nothing.start(Input { n }).await.map(drop).map_err(Failure::from)
    };
    let (rate, count, started) = throughput(app, callers, seconds, start).await?;
    let drain = Instant::now();
    while EXECUTED.load(Ordering::Relaxed) < before + started {
        if drain.elapsed() > DRAIN_TIMEOUT {
            return Err("not all started runs were executed".into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let executed = EXECUTED.load(Ordering::Relaxed) - before;
    if executed != started {
        return Err(format!("{executed} executions of {started} runs").into());
    }
    Ok(json!({ "value": rate, "count": count, "started": started, "drainMs": drain.elapsed().as_secs_f64() * 1_000.0 }))
}

/// Calls per second within the time, the number of these calls, and the number of all calls.
async fn throughput<F, Fut>(
    app: &Arc<App>,
    callers: usize,
    seconds: Duration,
    call: F,
) -> Result<(f64, u64, u64), Failure>
where
    F: Fn(Arc<App>) -> Fut + Copy + Send + 'static,
    Fut: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let warm = Instant::now() + seconds / 4;
    let end = warm + seconds;
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let app = Arc::clone(app);
            tokio::spawn(async move {
                let (mut count, mut all) = (0, 0);
                while Instant::now() < end {
                    call(Arc::clone(&app)).await?;
                    all += 1;
                    if (warm..end).contains(&Instant::now()) {
                        count += 1;
                    }
                }
                Ok::<_, Failure>((count, all))
            })
        })
        .collect();
    let (mut count, mut all) = (0, 0);
    for task in tasks {
        let (counted, called): (u64, u64) = task.await??;
        count += counted;
        all += called;
    }
    if count == 0 {
        return Err("no call has ended in time: measure for more --seconds".into());
    }
    Ok((count as f64 / seconds.as_secs_f64(), count, all))
}
