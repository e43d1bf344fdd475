//! Records and links: each verb, batches, pages, and random op lists against a naive map.

mod model;
mod pages;
mod verbs;
mod wild;

use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::records::{
    Author, Contents, Identifier, NamespaceCounts, Op, OpAction, OpFailure, OpKey, Picture, RecordLimits, Verb, fold,
};
use everstep_core::time::Timestamp;
use serde_json::Value;

const HERE: WorkspaceId = WorkspaceId::DEFAULT;

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(1_750_000_000_000 + second * 1_000)
}

fn identifier(id: &str) -> Identifier {
    Identifier::new("task", id)
}

/// An op with an input, as a node gives it, under a key of its own.
fn op(number: u128, verb: &str, input: &Value) -> Op {
    let input = OpAction::read(Verb::from_name(verb).unwrap(), &input.to_string()).unwrap();
    let key = input.idempotency_key.as_deref().map(|key| OpKey::of_author(verb, key));
    let mut op = Op {
        workspace: HERE,
        namespace: input.namespace,
        key: key.unwrap_or_else(|| OpKey::of_request(Timestamp::EPOCH, number)),
        digest: None,
        random: number << 64,
        author: Author { run: None, step: None, actor: "key:1".to_owned() },
        action: input.action,
    };
    op.digest = op.key.is_chosen().then(|| digest(&op.digested_text()));
    op
}

/// Any function of the text that distinguishes the texts of a test.
fn digest(text: &str) -> [u8; 32] {
    let mut digest = [0_u8; 32];
    for (index, byte) in text.bytes().enumerate() {
        let place = index % 32;
        digest[place] = digest[place].rotate_left(3) ^ byte ^ (index as u8);
    }
    digest
}

/// A picture that holds everything, as a small database.
#[derive(Default)]
struct Everything {
    picture: Picture,
    ops: u128,
}

impl Everything {
    fn apply(&mut self, second: i64, verb: &str, input: &Value) -> Result<Value, OpFailure> {
        self.ops += 1;
        let mut op = op(self.ops, verb, input);
        op.check(&RecordLimits::default())?;
        fold(&mut self.picture, &op, at(second)).map(|output| output.value().clone())
    }

    /// Applies an op that must succeed.
    fn done(&mut self, second: i64, verb: &str, input: &Value) -> Value {
        self.apply(second, verb, input).unwrap_or_else(|failure| panic!("{verb} {input}: {failure}"))
    }

    fn failure(&mut self, second: i64, verb: &str, input: &Value) -> OpFailure {
        self.apply(second, verb, input).unwrap_err()
    }

    fn counts(&self) -> NamespaceCounts {
        self.picture.namespace(HERE, "n").unwrap().counts()
    }

    /// The records and links after all changes.
    fn contents(&self) -> Contents {
        everstep_core::records::replay(self.picture.namespace(HERE, "n").unwrap().changes())
    }

    fn value(&self, key: &str) -> Option<String> {
        self.contents().records.get(key).and_then(|record| Some(record.value.as_ref()?.json().to_owned()))
    }
}

fn payload(json: &str) -> Payload {
    Payload::from_json(json).unwrap()
}
