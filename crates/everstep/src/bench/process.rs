//! What this process takes of the machine, and cases measured in a process of their own.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use super::args::Plan;
use super::figure::Figure;

/// The kernel counts in these, whatever its own ticks are.
const TICKS_PER_SECOND: f64 = 100.0;

/// Measures a case in a fresh process of this very program, so that no other case disturbs it.
pub(super) async fn measure_in_child(case: &str, plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let program = std::env::current_exe().context("finding this program's file")?;
    let mut command = Command::new(program);
    command.args(["bench", "--child", case, "--store", plan.store.name()]);
    command.args(["--seconds", &plan.length.as_secs().to_string(), "--data"]).arg(&plan.data);
    let child = tokio::task::spawn_blocking(move || command.stderr(Stdio::inherit()).output());
    let output = child.await?.context("starting a process")?;
    anyhow::ensure!(output.status.success(), "case {case} failed in its own process ({})", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("reading the figures of case {case}"))
}

/// Resident memory in megabytes.
pub(super) fn resident_memory() -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status").context("reading this process's memory")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    Ok(kilobytes.context("/proc/self/status tells no VmRSS")? * 1_024.0 / 1e6)
}

/// The processor time taken so far, by all threads, in seconds.
pub(super) fn processor_seconds() -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat").context("reading this process's time")?;
    // The program's name may hold spaces; it ends with the last parenthesis. User and system time are the
    // twelfth and thirteenth field behind it.
    let fields: Vec<_> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |place: usize| fields.get(place)?.parse::<f64>().ok();
    let ticks = ticks(11).zip(ticks(12)).map(|(user, system)| user + system);
    Ok(ticks.context("/proc/self/stat tells no times")? / TICKS_PER_SECOND)
}

/// The same to the nanosecond, from the scheduler. A thread that has ended is not in it.
pub(super) fn scheduled_time() -> anyhow::Result<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir("/proc/self/task").context("listing this process's threads")? {
        // A thread may end while we look.
        let Ok(stat) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        nanos += stat.split_whitespace().next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}
