//! What a worker says of itself when it comes, and what it is answered.

use std::collections::BTreeSet;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::workflow;
use everstep_engine::{self as engine, Engine, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BYTES, REPORTS};
use crate::problem::Problem;
use crate::wire::Id;

/// The version of what is said with workers.
const PROTOCOL: u32 = 1;
/// Characters of what a worker calls itself, and of what it calls its SDK.
const NAME: usize = 256;
/// Workflows that a worker serves.
const WORKFLOWS: usize = 1_000;
/// Runs that a worker takes at once, and that it may bring along. It may bring more than it takes: runs that only wait
/// take nobody's room.
pub(super) const CAPACITY: usize = 10_000;
const DAYS: u32 = 36_500;

/// A worker that comes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WorkerHello")]
pub(crate) struct Hello {
    /// The version of the protocol: 1.
    #[schemars(range(min = 1, max = 1))]
    pub(super) protocol: u32,
    /// What people call it: a host and a process, say.
    #[schemars(length(min = 1, max = 256))]
    worker: String,
    /// What it is made with: `typescript/0.1.0`.
    #[schemars(length(max = 256))]
    sdk: Option<String>,
    /// Runs that it takes at once.
    #[schemars(range(max = 10_000))]
    capacity: usize,
    /// What it serves.
    #[schemars(length(min = 1, max = 1_000))]
    workflows: Vec<Served>,
    /// Runs that it goes on with from a session before.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    holds: Vec<Hold>,
}

/// A workflow that a worker serves.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ServedWorkflow")]
pub(crate) struct Served {
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9_-]{0,127}$"))]
    name: String,
    #[schemars(range(min = 1))]
    version: u32,
    /// How many days its runs are kept after their end; 30 if it is left out.
    #[schemars(range(min = 1, max = 36_500))]
    retention_days: Option<u32>,
}

/// A run that a worker has.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "HeldRun")]
pub(crate) struct Hold {
    #[schemars(with = "Id")]
    run: RunId,
    turn: u32,
}

impl Hello {
    pub(super) fn check(self, workspace: WorkspaceId) -> Result<engine::Hello, Problem> {
        let Self { protocol, worker, sdk, capacity, workflows, holds } = self;
        if protocol != PROTOCOL {
            let detail = format!("protocol: this server speaks version {PROTOCOL}, not {protocol}");
            return Err(wrong("protocol", detail).hint("use an SDK of the server's generation"));
        }
        check_name("worker", &worker)?;
        if worker.is_empty() {
            return Err(wrong("worker", "worker is empty; it is what people call this process"));
        }
        if let Some(sdk) = &sdk {
            check_name("sdk", sdk)?;
        }
        check_capacity(capacity)?;
        if workflows.is_empty() || workflows.len() > WORKFLOWS {
            let detail = format!("workflows: a worker serves 1 to {WORKFLOWS} workflows, not {}", workflows.len());
            return Err(wrong("workflows", detail));
        }
        if holds.len() > CAPACITY {
            return Err(wrong("holds", format!("holds: a worker brings at most {CAPACITY} runs, not {}", holds.len())));
        }
        let workflows = workflows.into_iter().enumerate().map(|(at, served)| served.check(at));
        let workflows = workflows.collect::<Result<Vec<_>, _>>()?;
        let mut before = BTreeSet::new();
        for (at, served) in workflows.iter().enumerate() {
            if !before.insert((&served.name, served.version)) {
                let detail = format!("workflows[{at}]: {} version {} stands twice", served.name, served.version);
                return Err(wrong(format!("workflows[{at}]"), detail));
            }
        }
        let holds = holds.into_iter().map(|hold| (hold.run, hold.turn)).collect();
        Ok(engine::Hello { workspace, worker, sdk, workflows, capacity, holds })
    }
}

impl Served {
    fn check(self, at: usize) -> Result<engine::Served, Problem> {
        let Self { name, version, retention_days } = self;
        if !workflow::is_name(&name) {
            let detail = format!("workflows[{at}].name: {name:?} is no name of a workflow");
            let hint = "a name has 1 to 128 small letters, digits, - and _, and begins with a letter or a digit";
            return Err(wrong(format!("workflows[{at}].name"), detail).hint(hint));
        }
        if version == 0 || i32::try_from(version).is_err() {
            let detail = format!("workflows[{at}].version: versions count from 1, to {}", i32::MAX);
            return Err(wrong(format!("workflows[{at}].version"), detail));
        }
        if retention_days.is_some_and(|days| !(1..=DAYS).contains(&days)) {
            let detail = format!("workflows[{at}].retentionDays: runs are kept for 1 to {DAYS} days");
            return Err(wrong(format!("workflows[{at}].retentionDays"), detail));
        }
        Ok(engine::Served { name, version, retention_days })
    }
}

pub(super) fn check_capacity(capacity: usize) -> Result<(), Problem> {
    if capacity > CAPACITY {
        return Err(wrong("capacity", format!("capacity: a worker takes at most {CAPACITY} runs at once")));
    }
    Ok(())
}

fn check_name(place: &'static str, text: &str) -> Result<(), Problem> {
    if text.chars().count() > NAME || text.contains('\0') {
        return Err(wrong(place, format!("{place} has more than {NAME} characters, or a NUL")));
    }
    Ok(())
}

/// What cannot be used, and where it stands.
fn wrong(place: impl Into<String>, detail: impl Into<String>) -> Problem {
    Problem::invalid(detail).with("path", place.into())
}

/// A session that was opened.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WorkerSession")]
pub(crate) struct Welcome {
    /// The session's id. Whoever knows it, and has a key of the workspace, speaks for the worker.
    session: String,
    /// A session that is silent for so long is given up, and its runs go to others.
    lease_seconds: f64,
    /// Bytes of what a worker sends at once.
    max_message_bytes: usize,
    /// Reports that a worker sends at once.
    max_reports: usize,
}

impl Welcome {
    pub(super) fn to(engine: &Engine, session: &Session) -> Self {
        Self {
            session: session.id.to_string(),
            lease_seconds: engine.worker_lease().as_secs_f64(),
            max_message_bytes: BYTES,
            max_reports: REPORTS,
        }
    }
}
