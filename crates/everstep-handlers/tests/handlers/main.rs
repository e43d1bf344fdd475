//! The promises of the handlers, tested through their public interface.

mod catalogue;
mod fetch;
mod graph_schema;
mod http;
mod javascript;
mod messages;
mod noop;
mod notify;
mod places;
mod records;
mod registry;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::{StepKey, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_handlers::{Ports, Registry, Task};
use serde_json::Value;

fn registry() -> Registry {
    Registry::standard(Ports::none())
}

fn task(kind: &str, config: Value, context: Value) -> Task {
    Task {
        workspace: WorkspaceId::DEFAULT,
        run: "01890000-0000-7000-8000-000000000002".parse().expect("this is a UUID"),
        step: StepKey::from("step"),
        attempt: 1,
        kind: kind.to_owned(),
        config,
        secrets: Vec::new(),
        written: Value::Null,
        context: Payload::from(context),
        timeout: Duration::from_secs(5),
        actor: Arc::default(),
    }
}

/// The faults of a config, as `pointer: message`.
fn faults(kind: &str, config: &Value) -> Vec<String> {
    let handler = registry().find_handler(kind).expect("it is standard").clone();
    handler.check(config).into_iter().map(|fault| format!("{}: {}", fault.pointer, fault.message)).collect()
}
