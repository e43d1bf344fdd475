//! A fresh database, a server on it, and a machine whose runs wait for an approval.

use anyhow::{Context, ensure};
use futures_util::future;
use serde_json::{Value, json};

use super::client::{Access, Client, MachineRun};
use crate::bench::args::Plan;
use crate::bench::cases::meter::Meter;
use crate::bench::cases::server::Server;
use crate::bench::connection::{self, Answer, Connection};
use crate::bench::ground::Scratch;
use crate::bench::report;
use crate::bench::usage::Process;

pub(super) const WORKFLOW: &str = "approval";
/// The runs that one request starts, and the clients that prepare runs at the same time.
const BATCH_RUNS: usize = 500;
const PREPARING_CLIENTS: usize = 16;

pub(super) struct Stage {
    // Dropped in this order.
    pub(super) server: Server,
    scratch: Scratch,
    database: Option<Process>,
    pub(super) access: Access,
}

/// Two states that lead to each other, so that a run can be moved any number of times. Both actions check the caller,
/// a requirement of the request and a condition, and change the context.
fn definition() -> Value {
    let state = |name: &str, action: &str, to: &str| {
        let condition = json!({"type": "json-logic", "rule": {">": [{"var": "amount"}, 100]}});
        let action_body = json!({
            "require": {"assigned": true, "notBy": ["@start"]},
            "needs": {"comment": true},
            "condition": condition,
            "set": {"decidedBy": "{{meta.user.id}}"},
            "to": to,
        });
        json!({"name": name, "assign": ["{{ctx.approver}}"], "on": {action: action_body}})
    };
    let mut review = state("review", "APPROVE", "approved");
    review["initial"] = true.into();
    json!({"states": [review, state("approved", "REOPEN", "review")]})
}

impl Stage {
    pub(super) async fn set(plan: &Plan) -> anyhow::Result<Self> {
        let scratch = Scratch::new(&plan.site).await?;
        let server = Server::start(&scratch.site()).await?;
        let mut connection = Connection::open(&server.address).await?;
        let mut post = async |path: &str, body: Value| {
            let request = connection::post(&server.address, &server.key, path, &body.to_string());
            let Answer { status, body } = connection.ask(&request).await?;
            ensure!(status == 201, "{path}: {status} {body}");
            anyhow::Ok(serde_json::from_str::<Value>(body)?)
        };
        post("/v1/workflows", json!({"name": WORKFLOW, "definition": definition()})).await?;
        let made = post("/v1/keys", json!({"name": "approver", "permissions": ["workflow:act"]})).await?;
        let text = |value: &Value| value.as_str().map(str::to_owned).with_context(|| format!("no key: {made}"));
        let access = Access {
            address: server.address.clone(),
            admin_key: server.key.clone(),
            approver_key: text(&made["secret"])?,
            approver: format!("key:{}", text(&made["key"]["id"])?),
        };
        Ok(Self { server, scratch, database: plan.database(), access })
    }

    /// Ends everything, and removes the database.
    pub(super) async fn clear(self) -> anyhow::Result<()> {
        let Self { mut server, scratch, .. } = self;
        let complaints = server.complaints();
        if !complaints.is_empty() {
            report::tell(&format!("the server printed:\n{complaints}"));
        }
        tokio::task::spawn_blocking(move || drop(server)).await?;
        scratch.remove().await
    }

    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        Client::open(&self.access).await
    }

    pub(super) async fn clients(&self, number: usize) -> anyhow::Result<Vec<Client>> {
        future::try_join_all((0..number).map(|_| self.client())).await
    }

    pub(super) fn meter(&self) -> anyhow::Result<Meter> {
        Meter::start(self.server.process(), None, self.database)
    }

    /// Starts runs and moves them to a version; they are parked afterwards.
    pub(super) async fn prepare(&self, runs: usize, version_no: u32) -> anyhow::Result<Vec<MachineRun>> {
        let share = runs.div_ceil(PREPARING_CLIENTS).max(1);
        let shares = (0..runs).step_by(share).map(|first| share.min(runs - first));
        let prepared = future::try_join_all(shares.map(|share| self.prepare_share(share, version_no))).await?;
        self.server.until_idle().await?;
        Ok(prepared.concat())
    }

    async fn prepare_share(&self, share: usize, version_no: u32) -> anyhow::Result<Vec<MachineRun>> {
        let mut client = self.client().await?;
        let mut runs = Vec::with_capacity(share);
        while runs.len() < share {
            runs.extend(client.start_batch(BATCH_RUNS.min(share - runs.len())).await?);
        }
        for run in &mut runs {
            while run.version_no < version_no {
                client.act(run).await?;
            }
        }
        Ok(runs)
    }
}
