//! The handlers that a server offers, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use everstep_core::evaluate::Fault;
use everstep_core::kinds::{KindInfo, Kinds};
use serde_json::Value;

use crate::data_query::DataQueryHandler;
use crate::handler::{Description, Handler};
use crate::http::HttpHandler;
use crate::javascript::JavaScriptHandler;
use crate::noop::NoopHandler;
use crate::notify::NotifyHandler;
use crate::ports::Ports;
use crate::store::RecordHandler;
use crate::webhook::WebhookHandler;

/// All handlers of a server. Cheap to clone.
#[derive(Clone, Default)]
pub struct Registry {
    handlers: Arc<BTreeMap<String, Arc<dyn Handler>>>,
}

impl Registry {
    /// Every kind of the product.
    pub fn standard(ports: Ports) -> Self {
        let others = [
            Arc::new(JavaScriptHandler::new(ports.sandbox, ports.client.clone(), ports.fetch_policy))
                as Arc<dyn Handler>,
            Arc::new(NotifyHandler::new(
                ports.client.clone(),
                Arc::clone(&ports.secrets),
                ports.notify_policy,
                ports.mail_server,
                ports.webhooks,
            )),
            Arc::new(WebhookHandler::new(ports.client.clone(), Arc::clone(&ports.secrets), ports.webhooks)),
            Arc::new(HttpHandler::new(ports.client, ports.secrets, ports.http)),
            Arc::new(DataQueryHandler::new(ports.sources, ports.drivers)),
            Arc::new(NoopHandler::new()),
        ];
        Self::with(RecordHandler::all(&ports.records).into_iter().chain(others))
    }

    /// These handlers and no others. Of two with one name the later one counts.
    pub fn with(handlers: impl IntoIterator<Item = Arc<dyn Handler>>) -> Self {
        let handlers = handlers.into_iter().map(|handler| (handler.describe().info.name.clone(), handler));
        Self { handlers: Arc::new(handlers.collect()) }
    }

    pub fn find_handler(&self, name: &str) -> Option<&Arc<dyn Handler>> {
        self.handlers.get(name)
    }

    /// The catalogue, in the order of names.
    pub fn descriptions(&self) -> impl Iterator<Item = &Description> {
        self.handlers.values().map(|handler| handler.describe())
    }
}

impl Kinds for Registry {
    fn find(&self, name: &str) -> Option<&KindInfo> {
        self.find_handler(name).map(|handler| &handler.describe().info)
    }

    fn check(&self, name: &str, config: &Value) -> Vec<Fault> {
        self.find_handler(name).map(|handler| handler.check(config)).unwrap_or_default()
    }

    fn check_code(&self, name: &str, config: &Value) -> Vec<Fault> {
        self.find_handler(name).map(|handler| handler.check_code(config)).unwrap_or_default()
    }

    fn names(&self) -> Vec<String> {
        self.handlers.keys().cloned().collect()
    }
}
