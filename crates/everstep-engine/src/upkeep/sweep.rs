//! The one sweeper of a node: a list of jobs, each with its own period.
//!
//! A subsystem whose data expires adds a job to [`jobs`]; it does not add a loop. Jobs run one after the other, so that
//! upkeep never uses more than one connection to the database.

use std::sync::Arc;
use std::time::Duration;

use everstep_store::Result;
use futures_util::future::{self, BoxFuture, Either};
use tokio::sync::Notify;

use crate::dead_letters;
use crate::options::Options;
use crate::ports::World;
use crate::records;
use crate::topics;

/// The maximum time between two executions of a job while the disk is full: the jobs free space.
const PERIOD_ON_FULL_DISK: Duration = Duration::from_secs(10);

/// The longest pause between two batches of a job.
const PAUSE_MAX: Duration = Duration::from_millis(100);

struct Job {
    /// For log lines.
    name: &'static str,
    /// The time between the end of one execution of the job and the beginning of the next.
    period: Duration,
    /// The maximum number of rows in one call. The store divides many rows into transactions with pauses between them;
    /// expired records and files are deleted in small calls instead.
    batch_rows_max: usize,
    /// Handles one batch and returns its number of rows. It is called again until that number is zero.
    run_batch: RunBatch,
}

type RunBatch = for<'a> fn(&'a World, &'a Options, usize) -> BoxFuture<'a, Result<usize>>;

fn jobs(options: &Options) -> Vec<Job> {
    vec![
        Job {
            name: "delete ended runs",
            period: options.sweep_every,
            batch_rows_max: 1_000,
            run_batch: |world, _, batch| Box::pin(delete_ended_runs(world, batch)),
        },
        Job {
            name: "maintain the database",
            period: options.sweep_every,
            batch_rows_max: 0,
            run_batch: |world, _, _| Box::pin(maintain_database(world)),
        },
        Job {
            name: "delete expired records",
            period: options.record_sweep_every,
            batch_rows_max: 100,
            run_batch: |world, _, batch| Box::pin(records::sweep::delete_expired_records(world, batch)),
        },
        Job {
            name: "delete old changes of records",
            period: options.record_sweep_every,
            batch_rows_max: 1_000,
            run_batch: |world, _, batch| Box::pin(records::sweep::delete_old_changes(world, batch)),
        },
        Job {
            name: "delete old events",
            period: options.sweep_every,
            batch_rows_max: 1_000,
            run_batch: |world, options, batch| {
                Box::pin(topics::sweep::delete_old_events(world, options.event_retention_days, batch))
            },
        },
        Job {
            name: "delete old dead letters",
            period: options.sweep_every,
            batch_rows_max: 1_000,
            run_batch: |world, options, batch| {
                Box::pin(dead_letters::sweep::delete_old_letters(world, options.dead_letter_days, batch))
            },
        },
        Job {
            name: "delete files",
            period: options.sweep_every,
            // A file can have many chunks.
            batch_rows_max: 20,
            run_batch: |world, _, batch| Box::pin(delete_files(world, batch)),
        },
    ]
}

/// Deletes ended runs whose retention has passed.
async fn delete_ended_runs(world: &World, batch: usize) -> Result<usize> {
    let runs = world.runs.sweep(world.clock.now(), batch).await?;
    if runs > 0 {
        world.observe.swept(runs);
    }
    Ok(runs)
}

/// Deletes files that no run has bound in time, and those whose run is deleted.
async fn delete_files(world: &World, batch: usize) -> Result<usize> {
    world.files.sweep_files(world.clock.now(), batch).await
}

/// Creates and drops partitions, and performs other periodic maintenance of the database.
async fn maintain_database(world: &World) -> Result<usize> {
    world.runs.maintain(world.clock.now()).await?;
    Ok(0)
}

pub(crate) async fn run(world: World, options: Options, stop: Arc<Notify>) {
    let now = world.clock.monotonic();
    let mut jobs: Vec<_> = jobs(&options).into_iter().map(|job| (now + job.period, job)).collect();
    while let Some(next) = jobs.iter().map(|(due, _)| *due).min() {
        let stopped = std::pin::pin!(stop.notified());
        let sleep = std::pin::pin!(world.sleep(next.saturating_sub(world.clock.monotonic())));
        if let Either::Right(_) = future::select(sleep, stopped).await {
            return;
        }
        for (due, job) in &mut jobs {
            if *due <= world.clock.monotonic() {
                let stopped = std::pin::pin!(stop.notified());
                let execution = std::pin::pin!(job.run_once(&world, &options));
                if let Either::Right(_) = future::select(execution, stopped).await {
                    return;
                }
                let is_full = world.runs.space().refusal.is_some();
                let period = if is_full { job.period.min(PERIOD_ON_FULL_DISK) } else { job.period };
                *due = world.clock.monotonic() + period;
            }
        }
    }
}

impl Job {
    /// Runs the job until nothing is left to do, or it fails. After a batch it pauses for as long as the batch took: at
    /// least half of the time belongs to other callers of the database.
    async fn run_once(&self, world: &World, options: &Options) {
        loop {
            let begin = world.clock.monotonic();
            match (self.run_batch)(world, options, self.batch_rows_max).await {
                Ok(0) => return,
                Ok(_) => {
                    let took = world.clock.monotonic().saturating_sub(begin);
                    if !took.is_zero() && world.runs.space().refusal.is_none() {
                        world.sleep(took.min(PAUSE_MAX)).await;
                    }
                }
                Err(error) => {
                    tracing::warn!(job = self.name, %error, "an upkeep job failed; it is repeated after its period");
                    return;
                }
            }
        }
    }
}
