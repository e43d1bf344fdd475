//! Ids on the command line.

use uuid::Uuid;

pub(crate) fn read_key_id(text: &str) -> Result<Uuid, String> {
    read(text, "an API key", "everstep keys list")
}

pub(crate) fn read_letter_id(text: &str) -> Result<Uuid, String> {
    read(text, "a dead letter", "everstep dlq list")
}

pub(crate) fn read_run_id(text: &str) -> Result<Uuid, String> {
    read(text, "a run", "everstep runs")
}

pub(crate) fn read_subscription_id(text: &str) -> Result<Uuid, String> {
    read(text, "a subscription", "everstep subscriptions list")
}

/// Reads an id, or returns an error with the command that lists such ids.
fn read(text: &str, noun: &str, command: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| format!("{text:?} is not the id of {noun}; see `{command}`"))
}
