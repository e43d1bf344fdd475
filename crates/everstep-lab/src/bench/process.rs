//! The resources of this process, and cases that are measured in a separate process.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::args::Plan;
use super::figure::Figure;
use super::usage::{Process, TICKS_PER_SECOND};

/// Measures a case in a fresh process of this program, so that no other case disturbs it.
pub(super) async fn measure_in_child(case: &str, plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let program = std::env::current_exe().context("finding this program's file")?;
    let mut command = Command::new(program);
    command.args(["bench", "--child", case, "--seconds", &plan.length.as_secs().to_string()]);
    command.args(plan.site.arguments());
    let child = tokio::task::spawn_blocking(move || command.stderr(Stdio::inherit()).output());
    let output = child.await?.context("starting a process")?;
    anyhow::ensure!(output.status.success(), "case {case} failed in its separate process ({})", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("reading the figures of case {case}"))
}

/// Resident memory in megabytes.
pub(super) fn resident_memory() -> anyhow::Result<f64> {
    Process::this().resident_memory()
}

/// The processor time used so far, by all threads, in seconds.
pub(super) fn processor_seconds() -> anyhow::Result<f64> {
    Process::this().processor_seconds()
}

/// The processor time of all threads to the nanosecond, from the scheduler. It does not contain threads that have
/// ended.
pub(super) fn scheduled_time() -> anyhow::Result<Duration> {
    Process::this().scheduled_time()
}

/// Observes the rest of the machine during a measurement.
pub(super) struct Machine {
    began: Instant,
    busy: f64,
}

impl Machine {
    pub(super) fn watch() -> anyhow::Result<Self> {
        Ok(Self { began: Instant::now(), busy: foreign_seconds()? })
    }

    /// The share of the machine that other processes used since then, from 0 to 1.
    pub(super) fn foreign_share(&self) -> anyhow::Result<f64> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let share = (foreign_seconds()? - self.busy) / self.began.elapsed().as_secs_f64() / cores;
        Ok(share.clamp(0.0, 1.0))
    }
}

/// The processor time that other processes have used so far: the machine's, minus ours and that of our descendants.
fn foreign_seconds() -> anyhow::Result<f64> {
    Ok(busy_seconds()? - Process::this().descendants_seconds()?)
}

/// The processor time that all processes have used so far, on all cores.
pub(super) fn busy_seconds() -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("reading the machine's time")?;
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|ticks| ticks.parse().ok()).collect();
    // User, nice, system, idle, waiting, interrupts, soft interrupts and stolen time; guests are in the first.
    let busy: f64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|place| ticks.get(*place)).sum();
    Ok(busy / TICKS_PER_SECOND)
}
