//! The resources of processes, as the kernel counts them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

/// The unit of the kernel's counters, independent of its own ticks.
pub(super) const TICKS_PER_SECOND: f64 = 100.0;

/// A process by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process(pub(super) u32);

impl Process {
    pub(super) fn this() -> Self {
        Self(std::process::id())
    }

    /// Resident memory in megabytes.
    pub(super) fn resident_memory(self) -> anyhow::Result<f64> {
        let path = self.file("status");
        let status = fs::read_to_string(&path).context("reading a process's memory")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
        Ok(kilobytes.with_context(|| format!("{} contains no VmRSS", path.display()))? * 1_024.0 / 1e6)
    }

    /// The processor time used so far, by all threads, in seconds.
    pub(super) fn processor_seconds(self) -> anyhow::Result<f64> {
        // User and system time.
        Ok(self.stat_field(11)? + self.stat_field(12)?)
    }

    /// The processor time of child processes that have ended, in seconds.
    pub(super) fn children_seconds(self) -> anyhow::Result<f64> {
        Ok(self.stat_field(13)? + self.stat_field(14)?)
    }

    /// The processor time of all threads to the nanosecond, from the scheduler. It does not contain threads that have
    /// ended.
    pub(super) fn scheduled_time(self) -> anyhow::Result<Duration> {
        let mut nanos = 0;
        for thread in fs::read_dir(self.file("task")).context("listing a process's threads")? {
            // A thread may end during the read.
            let Ok(stat) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
            nanos += stat.split_whitespace().next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// The processor time of a process and its children, including those that have ended: a database with a process for
    /// each connection.
    pub(super) fn family_time(self) -> anyhow::Result<Duration> {
        let mut time = self.scheduled_time()? + Duration::from_secs_f64(self.children_seconds()?);
        for entry in fs::read_dir("/proc").context("listing processes")? {
            let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            let child = Self(id);
            // A process may end during the read.
            if child.parent() == Some(self)
                && let Ok(of_child) = child.scheduled_time()
            {
                time += of_child;
            }
        }
        Ok(time)
    }

    /// The processor time so far of a process and its descendants, such as a database with a process for each
    /// connection, including those that have ended and were awaited, in seconds.
    pub(super) fn descendants_seconds(self) -> anyhow::Result<f64> {
        let mut children: BTreeMap<u32, Vec<Self>> = BTreeMap::new();
        for entry in fs::read_dir("/proc").context("listing processes")? {
            let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
            if let Some(parent) = Self(id).parent() {
                children.entry(parent.0).or_default().push(Self(id));
            }
        }
        let mut seconds = self.processor_seconds()? + self.children_seconds()?;
        let mut open = children.remove(&self.0).unwrap_or_default();
        while let Some(process) = open.pop() {
            // A process may end during the read.
            if let (Ok(own), Ok(of_children)) = (process.processor_seconds(), process.children_seconds()) {
                seconds += own + of_children;
            }
            open.extend(children.remove(&process.0).unwrap_or_default());
        }
        Ok(seconds)
    }

    fn parent(self) -> Option<Self> {
        Some(Self(self.field(1)?.parse().ok()?))
    }

    fn stat_field(self, place: usize) -> anyhow::Result<f64> {
        let ticks: Option<f64> = self.field(place).and_then(|ticks| ticks.parse().ok());
        let path = self.file("stat");
        Ok(ticks.with_context(|| format!("{} contains no times", path.display()))? / TICKS_PER_SECOND)
    }

    /// A field of the process's row, by its position after the program's name, which may contain spaces.
    fn field(self, place: usize) -> Option<String> {
        let stat = fs::read_to_string(self.file("stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        fields.split_whitespace().nth(place).map(str::to_owned)
    }

    fn file(self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_s_memory_and_time_are_read() {
        let this = Process::this();
        assert!(this.resident_memory().unwrap() > 0.1);
        assert!(this.scheduled_time().unwrap() > Duration::ZERO);
    }

    #[test]
    fn a_child_s_time_is_in_its_family_s_whether_it_lives_or_not() {
        let spin = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let mut child = std::process::Command::new("sh");
        child.args(["-c", &format!("{spin}; read -r _")]).stdin(std::process::Stdio::piped());
        let mut child = child.spawn().unwrap();
        let process = Process(child.id());
        assert_eq!(process.parent(), Some(Process::this()));
        while process.scheduled_time().unwrap() < Duration::from_millis(30) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let least = process.scheduled_time().unwrap();
        assert!(Process::this().family_time().unwrap() >= least);
        let tree = Process::this().descendants_seconds().unwrap();
        assert!(tree >= process.processor_seconds().unwrap() - 0.02, "{tree} s");
        drop(child.stdin.take());
        child.wait().unwrap();
        let tick = Duration::from_millis(20);
        assert!(Process::this().family_time().unwrap() + tick >= least);
    }
}
