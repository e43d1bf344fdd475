//! The core, proved: decision texts, conditions, tasks, context, keys, children, validation, schemas, laws, rules, stories,
//! records, topics, events, costs and the codec.
#![expect(clippy::unwrap_used, reason = "a test stops where it is wrong")]

mod children;
mod codec;
mod conditions;
mod context;
mod costs;
mod decisions;
mod event_waits;
mod fair_share;
mod history;
mod keys;
mod laws;
mod logic;
mod machine_decisions;
mod machine_definitions;
mod machines;
mod messages;
mod phases;
mod records;
mod schema;
mod story;
mod support;
mod tasks;
mod topics;
mod validation;
mod wild;
