//! An op: one verb with its input, the author of it, and the key under which it is applied once.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::failure::OpFailure;
use super::key::OpKey;
use super::limits::{OP_KEY_BYTES_MAX, RecordLimits};
use super::requests::{
    DeleteRequest, ExpireRequest, IncrementRequest, SetRequest, TransactRequest, UnlinkRequest, UpsertRequest,
    WriteRequest,
};
use super::text::{check_name, check_optional};
use crate::decode::describe_error;
use crate::ids::{RunId, StepKey, WorkspaceId};

/// The size of an op in a batch, beside its values.
const OP_OVERHEAD_BYTES: usize = 256;
/// The size of an op that deletes all links of one side. It may read thousands of links.
const WIDE_UNLINK_BYTES: usize = 64 * 1024;

/// An op before it is checked.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOp {
    pub workspace: WorkspaceId,
    pub namespace: String,
    /// The key under which it is applied once; without one, a random key is chosen.
    pub key: Option<OpKey>,
    pub author: Author,
    pub action: OpAction,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    pub workspace: WorkspaceId,
    pub namespace: String,
    pub key: OpKey,
    /// A digest of the verb and its input, if the key was chosen: it is compared when the key is repeated.
    pub digest: Option<[u8; 32]>,
    /// From which the ids of new records and links are made.
    pub random: u128,
    pub author: Author,
    pub action: OpAction,
}

/// Who performs an op.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Author {
    pub run: Option<RunId>,
    pub step: Option<StepKey>,
    /// The kind and the id of the actor with a colon between them: `key:…`, `person:…`, `run:…`, `system:…`.
    pub actor: String,
}

impl Author {
    /// The server itself: the sweeper.
    pub fn system() -> Self {
        Self { run: None, step: None, actor: "system:sweeper".to_owned() }
    }
}

/// A verb with its input.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OpAction {
    Set(SetRequest),
    Delete(DeleteRequest),
    Increment(IncrementRequest),
    Expire(ExpireRequest),
    Upsert(UpsertRequest),
    Unlink(UnlinkRequest),
    Transact(TransactRequest),
}

/// What an op, or one write of a transaction, does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Set,
    Delete,
    Increment,
    Expire,
    Upsert,
    Unlink,
    Transact,
}

impl Verb {
    pub const ALL: [Self; 7] =
        [Self::Set, Self::Delete, Self::Increment, Self::Expire, Self::Upsert, Self::Unlink, Self::Transact];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Set => "store.set",
            Self::Delete => "store.delete",
            Self::Increment => "store.increment",
            Self::Expire => "store.expire",
            Self::Upsert => "links.upsert",
            Self::Unlink => "links.delete",
            Self::Transact => "store.transact",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == name)
    }
}

impl OpAction {
    pub fn verb(&self) -> Verb {
        match self {
            Self::Set(_) => Verb::Set,
            Self::Delete(_) => Verb::Delete,
            Self::Increment(_) => Verb::Increment,
            Self::Expire(_) => Verb::Expire,
            Self::Upsert(_) => Verb::Upsert,
            Self::Unlink(_) => Verb::Unlink,
            Self::Transact(_) => Verb::Transact,
        }
    }

    /// Reads the input of a verb. Values keep their text.
    pub fn read(verb: Verb, json: &str) -> Result<OpInput, OpFailure> {
        let fields: BTreeMap<String, Box<RawValue>> = parse(verb, json)?;
        let (mut own, mut common) = (BTreeMap::new(), BTreeMap::new());
        for (name, value) in fields {
            let is_common = matches!(name.as_str(), "namespace" | "idempotency_key");
            if is_common {
                common.insert(name, value)
            } else {
                own.insert(name, value)
            };
        }
        let own = serde_json::to_string(&own).expect("raw JSON can be written");
        let action = match verb {
            Verb::Set => Self::Set(parse(verb, &own)?),
            Verb::Delete => Self::Delete(parse(verb, &own)?),
            Verb::Increment => Self::Increment(parse(verb, &own)?),
            Verb::Upsert => Self::Upsert(parse(verb, &own)?),
            Verb::Unlink => Self::Unlink(parse(verb, &own)?),
            Verb::Transact => Self::Transact(parse(verb, &own)?),
            Verb::Expire => return Err(OpFailure::invalid("store.expire is an op of the server itself")),
        };
        let text = |name: &str| -> Result<Option<String>, OpFailure> {
            common.get(name).map(|value| parse(verb, value.get())).transpose()
        };
        let namespace = text("namespace")?.ok_or_else(|| OpFailure::invalid("namespace is missing"))?;
        let mut idempotency_key = text("idempotency_key")?;
        check_optional("idempotency_key", &mut idempotency_key)?;
        Ok(OpInput { namespace, idempotency_key, action })
    }
}

/// The input of a verb, as a node or a request gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct OpInput {
    pub namespace: String,
    pub idempotency_key: Option<String>,
    pub action: OpAction,
}

impl Op {
    /// Trims and checks its texts and values.
    pub fn check(&mut self, limits: &RecordLimits) -> Result<(), OpFailure> {
        self.namespace = check_name("namespace", &self.namespace)?;
        let bytes = self.key.as_str().len();
        if bytes > OP_KEY_BYTES_MAX {
            return Err(OpFailure::invalid(format!(
                "the key of the op, which contains the step key, has {bytes} bytes; at most {OP_KEY_BYTES_MAX} are \
                 allowed: shorten the ids of the nodes"
            )));
        }
        match &mut self.action {
            OpAction::Set(request) => request.check(limits),
            OpAction::Delete(request) => request.check(),
            OpAction::Increment(request) => request.check(),
            OpAction::Expire(request) => request.check(),
            OpAction::Upsert(request) => request.check(&self.namespace),
            OpAction::Unlink(request) => request.check(),
            OpAction::Transact(request) => request.check(&self.namespace, limits),
        }
    }

    /// The bytes that it adds to a batch: those that it writes, and the largest values that it may read.
    pub fn size(&self, limits: &RecordLimits) -> usize {
        let own = match &self.action {
            OpAction::Set(request) => request.value.size(),
            OpAction::Upsert(request) => request.attributes.size(),
            OpAction::Unlink(request) => unlink_size(request),
            OpAction::Transact(request) => {
                let read = request.checks.iter().filter(|check| check.equals.is_some()).count();
                let unlinks = request.writes.iter().filter_map(|write| match write {
                    WriteRequest::Unlink(request) => Some(unlink_size(request)),
                    _ => None,
                });
                let parts = request.writes.len() * OP_OVERHEAD_BYTES + unlinks.sum::<usize>();
                request.size() + parts + read * limits.value_bytes
            }
            OpAction::Delete(_) | OpAction::Increment(_) | OpAction::Expire(_) => 0,
        };
        OP_OVERHEAD_BYTES + self.key.as_str().len() + own
    }

    /// The text of which a digest is made: the namespace, the verb and its input.
    pub fn digested_text(&self) -> String {
        serde_json::to_string(&(&self.namespace, &self.action)).expect("an op is plain data")
    }
}

fn unlink_size(request: &UnlinkRequest) -> usize {
    if request.is_wide() { WIDE_UNLINK_BYTES } else { 0 }
}

fn parse<T: DeserializeOwned>(verb: Verb, json: &str) -> Result<T, OpFailure> {
    serde_json::from_str(json).map_err(|error| {
        OpFailure::invalid(format!("the input of {} is not valid: {}", verb.as_str(), describe_error(&error)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(verb: Verb, json: &str) -> String {
        OpAction::read(verb, json).unwrap_err().message
    }

    #[test]
    fn an_input_keeps_the_text_of_its_value() {
        let json = r#"{"value": { "b":1,  "a": 1.0e2 }, "namespace": "n", "key": "k", "idempotency_key": " once "}"#;
        let input = OpAction::read(Verb::Set, json).unwrap();
        assert_eq!((input.namespace.as_str(), input.idempotency_key.as_deref()), ("n", Some("once")));
        let OpAction::Set(set) = input.action else { panic!("not a set") };
        assert_eq!(set.value.json(), r#"{ "b":1,  "a": 1.0e2 }"#);
        assert_eq!(set.ttl_seconds, None);
    }

    #[test]
    fn a_transaction_names_its_writes() {
        let json = r#"{
            "namespace": "n",
            "checks": [{"key": "a", "exists": false}, {"key": "b", "equals": null}],
            "writes": [
                {"set": {"key": "a", "value": [1,  2]}}, {"delete": {"key": "b", "if_revision": 3.0}},
                {"increment": {"key": "c"}}, {"upsert": {"from": {"type": "t", "id": "1"}, "to": {"type": "t", "id": "2"}}},
                {"unlink": {"from": {"type": "t", "id": "1"}}}
            ]
        }"#;
        let OpAction::Transact(transact) = OpAction::read(Verb::Transact, json).unwrap().action else {
            panic!("not a transaction")
        };
        assert!(transact.checks[1].equals.as_ref().is_some_and(crate::payload::Payload::is_null));
        let verbs: Vec<_> = transact.writes.iter().map(|write| serde_json::to_string(write).unwrap()).collect();
        assert!(verbs[0].contains("[1,  2]"), "{}", verbs[0]);
        assert_eq!(transact.writes.len(), 5);
    }

    #[test]
    fn unknown_and_missing_fields_are_refused() {
        assert!(reason(Verb::Set, r#"{"key": "k", "value": 1}"#).contains("namespace is missing"));
        assert!(reason(Verb::Set, r#"{"namespace": "n", "key": "k"}"#).contains("missing field `value`"));
        let unknown = r#"{"namespace": "n", "key": "k", "value": 1, "ttl": 3}"#;
        assert!(reason(Verb::Set, unknown).contains("unknown field `ttl`"));
        let nested = r#"{"namespace": "n", "writes": [{"set": {"namespace": "m", "key": "k", "value": 1}}]}"#;
        assert!(reason(Verb::Transact, nested).contains("unknown field `namespace`"));
        assert!(reason(Verb::Expire, r#"{"namespace": "n"}"#).contains("server itself"));
    }
}
