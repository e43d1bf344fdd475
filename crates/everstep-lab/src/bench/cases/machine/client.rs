//! A client that starts runs of the machine and moves them, one request after the other.

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::json;

use crate::bench::connection::{self, Answer, Connection};

/// The keys of the server: that of its administrator, who starts runs, and that of the approver, who can only act.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) address: String,
    pub(super) admin_key: String,
    pub(super) approver_key: String,
    /// The approver, as the context of a run names them.
    pub(super) approver: String,
}

pub(super) struct Client {
    access: Access,
    workflow: &'static str,
    connection: Connection,
}

/// A run of the machine, as the client knows it.
#[derive(Clone, Debug)]
pub(super) struct MachineRun {
    pub(super) id: String,
    pub(super) version_no: u32,
}

#[derive(Deserialize)]
struct Started {
    run: StartedRun,
}

#[derive(Deserialize)]
struct StartedRun {
    id: String,
}

#[derive(Deserialize)]
struct StartedBatch {
    runs: Vec<StartedRun>,
}

impl Client {
    /// A client that starts runs of a workflow.
    pub(super) async fn open(access: &Access, workflow: &'static str) -> anyhow::Result<Self> {
        Ok(Self { access: access.clone(), workflow, connection: Connection::open(&access.address).await? })
    }

    /// Starts a run, which waits for its first approval.
    pub(super) async fn start(&mut self) -> anyhow::Result<MachineRun> {
        let request = self.admin_request(&format!("/v1/workflows/{}/runs", self.workflow), &self.start_body());
        let Answer { status, body } = self.connection.ask(&request).await?;
        ensure!(status == 201, "no run: {status} {body}");
        let Started { run } = serde_json::from_str(body).with_context(|| format!("reading a run: {body}"))?;
        Ok(MachineRun { id: run.id, version_no: 1 })
    }

    /// Starts runs in one request.
    pub(super) async fn start_batch(&mut self, runs: usize) -> anyhow::Result<Vec<MachineRun>> {
        let body = format!("{{\"runs\":[{}]}}", vec![self.start_body(); runs].join(","));
        let request = self.admin_request(&format!("/v1/workflows/{}/runs/batch", self.workflow), &body);
        let Answer { status, body } = self.connection.ask(&request).await?;
        ensure!(status == 200, "not all runs: {status} {body}");
        let StartedBatch { runs } = serde_json::from_str(body).context("reading started runs")?;
        Ok(runs.into_iter().map(|StartedRun { id }| MachineRun { id, version_no: 1 }).collect())
    }

    /// Moves a run to its other state.
    pub(super) async fn act(&mut self, run: &mut MachineRun) -> anyhow::Result<()> {
        let status = self.try_act(run).await?;
        ensure!(status == 200, "run {} was not moved from version {}: {status}", run.id, run.version_no);
        run.version_no += 1;
        Ok(())
    }

    /// The status of the answer to a request that moves a run to its other state.
    pub(super) async fn try_act(&mut self, run: &MachineRun) -> anyhow::Result<u16> {
        let MachineRun { id, version_no } = run;
        // The states take turns.
        let action = if version_no % 2 == 1 { "APPROVE" } else { "REOPEN" };
        let body = json!({"action": action, "version": version_no, "comment": "as agreed"}).to_string();
        let Access { address, approver_key, .. } = &self.access;
        let request = connection::post(address, approver_key, &format!("/v1/runs/{id}/transitions"), &body);
        let Answer { status, body } = self.connection.ask(&request).await?;
        ensure!(matches!(status, 200 | 409), "run {id}: {status} {body}");
        Ok(status)
    }

    fn start_body(&self) -> String {
        json!({"input": {"order": "A-17", "amount": 150, "approver": self.access.approver}}).to_string()
    }

    fn admin_request(&self, path: &str, body: &str) -> Vec<u8> {
        connection::post(&self.access.address, &self.access.admin_key, path, body)
    }
}
