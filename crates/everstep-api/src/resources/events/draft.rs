//! An event as a client has sent it, in whichever form.

use everstep_core::limits;
use everstep_core::payload::{self, Payload};
use serde_json::{Map, Value};

use crate::http::headers::IdempotencyKey;
use crate::http::problem::Problem;

/// Characters of the id, the source and the subject of an event.
pub(super) const TEXT_CHARS_MAX: usize = 255;
/// Bytes of all extensions of an event.
const EXTENSIONS_BYTES_MAX: usize = 16 * 1024;
/// The source of an event whose publisher names none.
pub(super) const SOURCE_DEFAULT: &str = "api";

/// An event that is not checked yet.
#[derive(Clone, Debug)]
pub(super) struct EventDraft {
    pub(super) topic: String,
    pub(super) data: Payload,
    pub(super) id: Option<String>,
    pub(super) source: Option<String>,
    pub(super) subject: Option<String>,
    /// The other attributes of a CloudEvent.
    pub(super) extensions: Map<String, Value>,
}

impl EventDraft {
    /// The event with an idempotency key as its id, unless it has one.
    pub(super) fn or_id(self, key: IdempotencyKey) -> Self {
        Self { id: self.id.or(key.into_inner()), ..self }
    }

    /// Checks everything except the topic.
    pub(super) fn check(&self) -> Result<(), Problem> {
        for (name, text) in [("id", &self.id), ("source", &self.source), ("subject", &self.subject)] {
            if let Some(text) = text {
                check_text(name, text)?;
            }
        }
        // Otherwise a caller could take the id of an event that a run publishes later.
        if let Some(source) = self.source.as_deref().filter(|source| is_reserved(source)) {
            let detail = format!("source: {source:?} is reserved: sources of runs begin with \"run:\"");
            return Err(Problem::invalid(detail).with("path", "source").hint("name the part of your system"));
        }
        if self.data.size() > limits::PAYLOAD_BYTES {
            return Err(Problem::too_large(format!("data: it has more than {} bytes", limits::PAYLOAD_BYTES)));
        }
        // The engine rejects data with a NUL character, as it does for inputs of runs.
        payload::check(self.data.json())
            .map_err(|error| Problem::invalid(format!("data: it {error}")).with("path", "data"))?;
        let extensions = serde_json::to_string(&self.extensions).unwrap_or_default();
        if extensions.len() > EXTENSIONS_BYTES_MAX {
            let detail = format!("the attributes have more than {EXTENSIONS_BYTES_MAX} bytes");
            return Err(Problem::too_large(detail));
        }
        if payload::has_nul(&extensions) {
            return Err(Problem::invalid("an attribute contains a NUL character, which no database stores as text"));
        }
        Ok(())
    }
}

fn is_reserved(source: &str) -> bool {
    source.starts_with("run:") || source == "everstep" || source.starts_with("everstep.")
}

fn check_text(name: &'static str, text: &str) -> Result<(), Problem> {
    let wrong = |why: String| Err(Problem::invalid(format!("{name}: {why}")).with("path", name));
    match text.chars().count() {
        0 => wrong(format!("it is empty; it must have 1 to {TEXT_CHARS_MAX} characters")),
        length if length > TEXT_CHARS_MAX => {
            wrong(format!("it has {length} characters; it must have at most {TEXT_CHARS_MAX}"))
        }
        _ if text.contains('\0') => wrong("it contains a NUL character".to_owned()),
        _ => Ok(()),
    }
}
