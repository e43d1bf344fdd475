//! The columns of a change.

use everstep_core::ids::{RunId, StepKey};
use everstep_core::payload::Payload;
use everstep_core::records::{AppliedOp, Author, Change, Effect, LinkKey, OpKey, ValueType};
use everstep_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::rows::{ChangeRow, ChangeValue};
use crate::error::{Error, Result};
use crate::pack::{self, Codec};

/// Bytes of JSON of a value in the history; of a longer one, its size and its digest are stored.
const VALUE_BYTES_MAX: usize = 16 * 1024;
/// The codec of a value that was too long.
const OMITTED_CODEC: u8 = 2;

/// A change in the columns of its row.
pub(crate) struct ChangeColumns<'a> {
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    pub(crate) action: &'static str,
    pub(crate) subject: String,
    pub(crate) author: &'a Author,
    pub(crate) op: Option<&'a AppliedOp>,
    pub(crate) revision: Option<u64>,
    pub(crate) value_type: Option<&'static str>,
    pub(crate) value_expires_at: Option<Timestamp>,
    pub(crate) codec: Option<u8>,
    pub(crate) value: Option<Vec<u8>>,
}

/// The value of a change of a link.
#[derive(Serialize)]
struct LinkValue<'a> {
    #[serde(flatten)]
    key: &'a LinkKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<&'a Payload>,
}

#[derive(Serialize, Deserialize)]
struct OmittedValue {
    bytes: u64,
    sha256: String,
}

impl<'a> ChangeColumns<'a> {
    pub(crate) fn from_change(change: &'a Change) -> Self {
        let mut columns = Self {
            number: change.number,
            at: change.at,
            action: change.verb.as_str(),
            subject: String::new(),
            author: &change.author,
            op: change.op.as_ref(),
            revision: None,
            value_type: None,
            value_expires_at: None,
            codec: None,
            value: None,
        };
        match &change.effect {
            Effect::Written(record) => {
                columns.subject.clone_from(&record.key);
                columns.revision = Some(record.revision);
                columns.value_type = Some(record.value_type.as_str());
                columns.value_expires_at = record.expires_at;
                columns.set_value(record.value.as_ref().map_or("null", Payload::json));
            }
            Effect::Deleted(key) => columns.subject.clone_from(key),
            Effect::Linked(link) => {
                columns.subject = link.id.0.to_string();
                columns.set_link(&LinkValue { key: &link.key, attributes: link.attributes.as_ref() });
            }
            Effect::Unlinked(link) => {
                columns.subject = link.id.0.to_string();
                columns.set_link(&LinkValue { key: &link.key, attributes: None });
            }
        }
        columns
    }

    fn set_link(&mut self, link: &LinkValue<'_>) {
        self.set_value(&serde_json::to_string(link).expect("a link is plain data"));
    }

    fn set_value(&mut self, json: &str) {
        let (codec, value) = if json.len() > VALUE_BYTES_MAX {
            let sha256 = Sha256::digest(json).iter().map(|byte| format!("{byte:02x}")).collect();
            let omitted = OmittedValue { bytes: json.len() as u64, sha256 };
            (OMITTED_CODEC, serde_json::to_vec(&omitted).expect("numbers and texts can be written as JSON"))
        } else {
            let (codec, value) = pack::pack(json.as_bytes().to_vec());
            (codec.number(), value)
        };
        (self.codec, self.value) = (Some(codec), Some(value));
    }
}

/// The columns of a row of a change, as a database returns them.
pub(crate) struct StoredChange<'a> {
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    pub(crate) action: String,
    pub(crate) subject: String,
    pub(crate) actor: String,
    pub(crate) run: Option<Uuid>,
    pub(crate) step: Option<String>,
    pub(crate) op_key: Option<&'a str>,
    pub(crate) digest: Option<&'a [u8]>,
    pub(crate) revision: Option<u64>,
    pub(crate) value_type: Option<&'a str>,
    pub(crate) value_expires_at: Option<Timestamp>,
    pub(crate) output: Option<&'a [u8]>,
    pub(crate) codec: Option<u8>,
    pub(crate) value: Option<&'a [u8]>,
}

impl StoredChange<'_> {
    pub(crate) fn into_row(self) -> Result<ChangeRow> {
        let op = match self.op_key {
            Some(key) => Some(AppliedOp {
                key: OpKey::from_stored(key),
                digest: self.digest.map(digest).transpose()?,
                output: payload(self.output.unwrap_or(b"null").to_vec())?,
            }),
            None => None,
        };
        let author =
            Author { run: self.run.map(RunId::from_uuid), step: self.step.map(StepKey::from), actor: self.actor };
        Ok(ChangeRow {
            number: self.number,
            action: self.action,
            subject: self.subject,
            revision: self.revision,
            value_type: self.value_type.map(value_type).transpose()?,
            value_expires_at: self.value_expires_at,
            value: value(self.codec, self.value)?,
            at: self.at,
            author,
            op,
        })
    }
}

fn value(codec: Option<u8>, bytes: Option<&[u8]>) -> Result<ChangeValue> {
    let (Some(codec), Some(bytes)) = (codec, bytes) else { return Ok(ChangeValue::None) };
    if codec == OMITTED_CODEC {
        let omitted: OmittedValue =
            serde_json::from_slice(bytes).map_err(|error| Error::Corrupt(format!("an omitted value: {error}")))?;
        return Ok(ChangeValue::Omitted { bytes: omitted.bytes, sha256: omitted.sha256 });
    }
    Ok(ChangeValue::Whole(payload(pack::unpack(codec, bytes)?)?))
}

/// A stored JSON document.
pub(crate) fn payload(bytes: Vec<u8>) -> Result<Payload> {
    let text = String::from_utf8(bytes).map_err(|error| Error::Corrupt(error.to_string()))?;
    Payload::from_json(text).map_err(|error| Error::Corrupt(error.to_string()))
}

pub(crate) fn value_type(name: &str) -> Result<ValueType> {
    ValueType::from_name(name).ok_or_else(|| Error::Corrupt(format!("a value of the unknown type {name:?}")))
}

pub(crate) fn digest(bytes: &[u8]) -> Result<[u8; 32]> {
    bytes.try_into().map_err(|_| Error::Corrupt(format!("a digest of {} bytes", bytes.len())))
}

/// A value as it is stored in its record.
pub(crate) fn pack_value(value: Option<&Payload>) -> (Codec, Vec<u8>) {
    pack::pack(value.map_or("null", Payload::json).as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(columns: &ChangeColumns<'_>) -> ChangeValue {
        value(columns.codec, columns.value.as_deref()).unwrap()
    }

    #[test]
    fn a_long_value_is_omitted_from_the_history() {
        let change = |json: String| {
            let mut columns = ChangeColumns {
                number: 1,
                at: Timestamp::EPOCH,
                action: "store.set",
                subject: String::new(),
                author: Box::leak(Box::default()),
                op: None,
                revision: None,
                value_type: None,
                value_expires_at: None,
                codec: None,
                value: None,
            };
            columns.set_value(&json);
            stored(&columns)
        };
        let text = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
        let ChangeValue::Whole(whole) = change(text(16_384)) else { panic!("16 KiB were omitted") };
        assert_eq!(whole.size(), 16_384);
        let ChangeValue::Omitted { bytes, sha256 } = change(text(16_385)) else { panic!("more was kept") };
        assert_eq!((bytes, sha256.len()), (16_385, 64));
    }
}
