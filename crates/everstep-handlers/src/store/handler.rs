//! Performs the steps of the data store: the config of a node is the input of a verb.

use std::sync::Arc;

use async_trait::async_trait;
use everstep_core::actor::Actor;
use everstep_core::decode::describe_error;
use everstep_core::evaluate::Fault;
use everstep_core::failure::{Failure, code};
use everstep_core::journal::Outcome;
use everstep_core::kinds::KindInfo;
use everstep_core::payload::Payload;
use everstep_core::planted::{self, Bug};
use everstep_core::publisher::{MANAGE, READ};
use everstep_core::records::{
    Author, GetOutput, LinksOutput, LinksRequest, ListOutput, ListRequest, LookupOutput, LookupRequest,
    NamespaceFilter, NamespacesRequest, NewOp, OpAction, OpFailure, OpInput, OpKey, Verb, check_name,
};
use everstep_core::schema::Schema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config;
use crate::handler::{Description, Example, Handler, Task, TaskResult};
use crate::links;
use crate::ports::Records;

/// The steps of one kind that a node performs at the same time. They wait for the database together.
const CONCURRENCY: usize = 4_096;

/// Performs the steps of one kind of the data store.
pub struct RecordHandler {
    step: RecordStep,
    records: Arc<dyn Records>,
    description: Description,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordStep {
    Write(Verb),
    Get,
    List,
    Lookup,
    ListLinks,
    ListNamespaces(NamespaceFilter),
}

/// The description of a kind of the data store.
pub(crate) struct RecordKind {
    pub(crate) name: &'static str,
    pub(crate) step: RecordStep,
    pub(crate) title: &'static str,
    pub(crate) icon: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) output: &'static str,
    /// The JSON Schema of the config.
    pub(crate) schema: Value,
    pub(crate) examples: [(&'static str, Value); 2],
}

/// The input of `store.get`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetRequest {
    namespace: String,
    key: String,
}

impl RecordStep {
    fn permission(self) -> &'static str {
        match self {
            Self::Write(_) => MANAGE,
            Self::Get | Self::List | Self::Lookup | Self::ListLinks | Self::ListNamespaces(_) => READ,
        }
    }
}

impl RecordHandler {
    /// The handlers of all kinds of the data store.
    pub fn all(records: &Arc<dyn Records>) -> Vec<Arc<dyn Handler>> {
        let kinds = super::kinds().into_iter().chain(links::kinds());
        kinds.map(|kind| Arc::new(Self::new(kind, Arc::clone(records))) as Arc<dyn Handler>).collect()
    }

    fn new(kind: RecordKind, records: Arc<dyn Records>) -> Self {
        let variable = if kind.name.starts_with("links.") { "linkResult" } else { "storeResult" };
        let info = KindInfo {
            name: kind.name.to_owned(),
            output_variable: Some(variable.to_owned()),
            permission: Some(kind.step.permission()),
            ..KindInfo::default()
        };
        let description = Description {
            info,
            title: kind.title,
            group: "Data Store",
            icon: kind.icon,
            summary: kind.summary,
            output: kind.output,
            schema: Schema::built_in(&kind.schema),
            examples: kind.examples.into_iter().map(|(title, config)| Example::new(title, config)).collect(),
            is_internal: false,
            concurrency: CONCURRENCY,
        };
        Self { step: kind.step, records, description }
    }

    async fn act(&self, task: Task) -> Result<Payload, Failure> {
        let name = &self.description.info.name;
        let permission = self.step.permission();
        if !task.actor.may(permission) {
            let message = format!(
                "the publisher of this version may not use {name}, which needs the permission {permission}; save the \
                 workflow again with a key that has it"
            );
            return Err(Failure::fatal(code::PERMISSION_DENIED, message));
        }
        let workspace = task.workspace;
        match self.step {
            RecordStep::Write(verb) => self.records.apply(op_of_task(verb, task)?).await,
            RecordStep::Get => {
                let GetRequest { namespace, key } = self.read(task.config)?;
                let (namespace, key) = (check_name("namespace", &namespace)?, check_name("key", &key)?);
                let record = self.records.get(workspace, &namespace, &key).await?;
                Ok(GetOutput::of_live_record(record.as_ref()).to_payload())
            }
            RecordStep::List => {
                let query = self.read::<ListRequest>(task.config)?.into_query()?;
                Ok(ListOutput::of_page(&self.records.list(workspace, &query).await?).to_payload())
            }
            RecordStep::Lookup => {
                let query = self.read::<LookupRequest>(task.config)?.into_query()?;
                Ok(LookupOutput::of_page(&self.records.links(workspace, &query).await?).to_payload())
            }
            RecordStep::ListLinks => {
                let query = self.read::<LinksRequest>(task.config)?.into_query()?;
                Ok(LinksOutput::of_page(&self.records.links(workspace, &query).await?).to_payload())
            }
            RecordStep::ListNamespaces(filter) => {
                let request: NamespacesRequest = self.read(task.config)?;
                request.check()?;
                Ok(self.records.namespaces(workspace, filter, &request).await?.to_payload(filter))
            }
        }
    }

    /// Reads the input of a read.
    fn read<T: DeserializeOwned>(&self, config: Value) -> Result<T, OpFailure> {
        let config = if config.is_null() { Value::Object(serde_json::Map::new()) } else { config };
        let name = &self.description.info.name;
        // From text: a payload keeps the text of its value.
        serde_json::from_str(&config.to_string()).map_err(|error| {
            OpFailure::invalid(format!("the input of {name} is not valid: {}", describe_error(&error)))
        })
    }
}

/// The op of a step that writes. All attempts of a step are one op, unless the author has chosen a key.
fn op_of_task(verb: Verb, task: Task) -> Result<NewOp, OpFailure> {
    let config = if task.config.is_null() { "{}".to_owned() } else { task.config.to_string() };
    let OpInput { namespace, idempotency_key, action } = OpAction::read(verb, &config)?;
    let key = match idempotency_key {
        Some(key) => OpKey::of_author(verb.as_str(), &key),
        None if planted::is_planted(Bug::OpKeyWithAttempt) => {
            OpKey::from_stored(&format!("{}#{}", OpKey::of_step(task.run, &task.step), task.attempt))
        }
        None => OpKey::of_step(task.run, &task.step),
    };
    let actor = task.actor.actor.as_ref().map_or_else(|| format!("run:{}", task.run), Actor::to_text);
    let author = Author { run: Some(task.run), step: Some(task.step), actor };
    Ok(NewOp { workspace: task.workspace, namespace, key: Some(key), author, action })
}

#[async_trait]
impl Handler for RecordHandler {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn check(&self, config: &Value) -> Vec<Fault> {
        config::check(config, &self.description.schema, &self.description.info.raw_fields)
    }

    async fn perform(&self, task: Task) -> TaskResult {
        TaskResult::from(self.act(task).await.map(Outcome::from_output))
    }
}
