//! A fresh database, a server on it, and a machine whose runs wait for an approval.

use anyhow::{Context, ensure};
use futures_util::future;
use serde_json::{Value, json};

use super::client::{Access, Client, MachineRun};
use super::sink::Sink;
use crate::bench::args::Plan;
use crate::bench::cases::meter::{Meter, Processes};
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

/// A workflow of the server.
pub(super) struct Machine {
    workflow: &'static str,
    /// The side effects of both actions.
    effects: Vec<Value>,
}

impl Machine {
    /// Each transition sends a webhook.
    pub(super) fn with_webhook(workflow: &'static str, sink: &Sink) -> Self {
        let payload = json!({"order": "{{ctx.order}}"});
        Self { workflow, effects: vec![json!({"type": "webhook", "target": sink.url, "payload": payload})] }
    }

    /// Each transition sends a webhook, which is not repeated if it fails.
    pub(super) fn with_single_attempt(workflow: &'static str, sink: &Sink) -> Self {
        let mut machine = Self::with_webhook(workflow, sink);
        machine.effects[0]["retry"] = json!({"maxAttempts": 1});
        machine
    }
}

/// Two states that lead to each other, so that a run can be moved any number of times. Both actions check the caller,
/// a requirement of the request and a condition, and change the context.
fn definition(effects: &[Value]) -> Value {
    let state = |name: &str, action: &str, to: &str| {
        let condition = json!({"type": "json-logic", "rule": {">": [{"var": "amount"}, 100]}});
        let mut action_body = json!({
            "require": {"assigned": true, "notBy": ["@start"]},
            "needs": {"comment": true},
            "condition": condition,
            "set": {"decidedBy": "{{meta.user.id}}"},
            "to": to,
        });
        if !effects.is_empty() {
            action_body["events"] = effects.into();
        }
        json!({"name": name, "assign": ["{{ctx.approver}}"], "on": {action: action_body}})
    };
    let mut review = state("review", "APPROVE", "approved");
    review["initial"] = true.into();
    json!({"states": [review, state("approved", "REOPEN", "review")]})
}

impl Stage {
    /// A machine without side effects.
    pub(super) async fn set(plan: &Plan) -> anyhow::Result<Self> {
        Self::set_with(plan, &[Machine { workflow: WORKFLOW, effects: Vec::new() }]).await
    }

    pub(super) async fn set_with(plan: &Plan, machines: &[Machine]) -> anyhow::Result<Self> {
        let scratch = Scratch::new(&plan.site).await?;
        let settings =
            [("EVERSTEP_RATE_LIMIT", "0".to_owned()), ("EVERSTEP_ALLOW_ADDRESSES", "127.0.0.0/8".to_owned())];
        let server = Server::start_with(&scratch.site(), &settings).await?;
        let mut connection = Connection::open(&server.address).await?;
        let mut post = async |path: &str, body: Value| {
            let request = connection::post(&server.address, &server.key, path, &body.to_string());
            let Answer { status, body } = connection.ask(&request).await?;
            ensure!(status == 201, "{path}: {status} {body}");
            anyhow::Ok(serde_json::from_str::<Value>(body)?)
        };
        for Machine { workflow, effects } in machines {
            post("/v1/workflows", json!({"name": workflow, "definition": definition(effects)})).await?;
        }
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
        self.client_of(WORKFLOW).await
    }

    /// A client that starts runs of a workflow.
    pub(super) async fn client_of(&self, workflow: &'static str) -> anyhow::Result<Client> {
        Client::open(&self.access, workflow).await
    }

    /// Creates an API key, and returns its secret.
    pub(super) async fn add_key(&self, key: &Value) -> anyhow::Result<String> {
        let mut connection = Connection::open(&self.server.address).await?;
        let request = connection::post(&self.server.address, &self.server.key, "/v1/keys", &key.to_string());
        let Answer { status, body } = connection.ask(&request).await?;
        ensure!(status == 201, "no key: {status} {body}");
        let made: Value = serde_json::from_str(body)?;
        made["secret"].as_str().map(str::to_owned).with_context(|| format!("no secret: {made}"))
    }

    pub(super) async fn clients(&self, number: usize) -> anyhow::Result<Vec<Client>> {
        future::try_join_all((0..number).map(|_| self.client())).await
    }

    pub(super) fn meter(&self) -> anyhow::Result<Meter> {
        Meter::start(Processes { server: self.server.process(), worker: None, database: self.database, client: None })
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
