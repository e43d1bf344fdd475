//! Signs what goes from node to node, so that only a node of this cluster is listened to.
//!
//! 1. The signature is an HMAC-SHA256 with the cluster's key.
//! 2. It covers the method, the path with its query, the body, for whom it is asked, when, by which node, of which
//!    node, and a nonce.
//! 3. The clocks are those of the nodes, which follow the database's; they may differ by [`WINDOW`].
//! 4. Each value has exactly one form as text, so that two requests never share a signed text.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use everstep_core::ids::{NodeId, WorkspaceId};
use everstep_core::time::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::cluster::ClusterKey;

/// How far apart the clocks of sender and receiver may be.
pub(super) const WINDOW: Duration = Duration::from_secs(30);

const SENDER: &str = "x-everstep-sender";
const TARGET: &str = "x-everstep-target";
const CALLER: &str = "x-everstep-caller";
const TIME: &str = "x-everstep-time";
const NONCE: &str = "x-everstep-nonce";
const SIGNATURE: &str = "x-everstep-signature";
/// What is signed is one line each; the first names this very form.
const FORM: &str = "everstep-cluster-1";

/// Who says something to whom, when, and on whose behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) sender: NodeId,
    pub(super) target: NodeId,
    /// The workspace of whoever asked; none for what a node says of its own accord.
    pub(super) caller: Option<WorkspaceId>,
    pub(super) time: Timestamp,
    pub(super) nonce: Uuid,
}

/// The request that an envelope is around.
#[derive(Clone, Copy)]
pub(super) struct Content<'a> {
    pub(super) method: &'a str,
    /// With its query.
    pub(super) path: &'a str,
    pub(super) body: &'a [u8],
}

impl Envelope {
    /// The headers of a signed request.
    pub(super) fn seal(&self, key: &ClusterKey, content: Content<'_>) -> HeaderMap {
        let signature = self.mac(key, content).finalize().into_bytes();
        let signature: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
        let values = [
            (SENDER, self.sender.to_string()),
            (TARGET, self.target.to_string()),
            (CALLER, caller_text(self.caller)),
            (TIME, self.time.micros().to_string()),
            (NONCE, self.nonce.to_string()),
            (SIGNATURE, signature),
        ];
        let header = |text: String| HeaderValue::try_from(text).expect("ids and numbers are plain text");
        values.into_iter().map(|(name, text)| (axum::http::HeaderName::from_static(name), header(text))).collect()
    }

    /// Reads the headers of a request. Nothing in them is believed before [`Envelope::verify`].
    pub(super) fn open(headers: &HeaderMap) -> Option<(Self, Vec<u8>)> {
        let text = |name: &str| {
            let mut values = headers.get_all(name).iter();
            values.next().filter(|_| values.next().is_none())?.to_str().ok()
        };
        let caller = match text(CALLER)? {
            "-" => None,
            caller => Some(caller.parse().ok()?),
        };
        let envelope = Self {
            sender: text(SENDER)?.parse().ok()?,
            target: text(TARGET)?.parse().ok()?,
            caller,
            time: Timestamp::from_micros(text(TIME)?.parse().ok()?),
            nonce: text(NONCE)?.parse().ok()?,
        };
        let signature = text(SIGNATURE)?;
        let byte = |at: usize| u8::from_str_radix(signature.get(at..at + 2)?, 16).ok();
        let signature = (0..signature.len()).step_by(2).map(byte).collect::<Option<_>>()?;
        Some((envelope, signature))
    }

    /// Whether a node of this cluster signed exactly this, in constant time.
    pub(super) fn verify(&self, key: &ClusterKey, content: Content<'_>, signature: &[u8]) -> bool {
        self.mac(key, content).verify_slice(signature).is_ok()
    }

    pub(super) fn is_timely(&self, now: Timestamp) -> bool {
        now.since(self.time) <= WINDOW && self.time.since(now) <= WINDOW
    }

    fn mac(&self, key: &ClusterKey, content: Content<'_>) -> Hmac<Sha256> {
        let Content { method, path, body } = content;
        let digest: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
        let Self { sender, target, caller, time, nonce } = self;
        let (caller, time) = (caller_text(*caller), time.micros());
        let text = format!("{FORM}\n{method}\n{path}\n{digest}\n{caller}\n{time}\n{sender}\n{target}\n{nonce}");
        let mut mac = Hmac::<Sha256>::new_from_slice(key.bytes()).expect("a key may have any length");
        mac.update(text.as_bytes());
        mac
    }
}

fn caller_text(caller: Option<WorkspaceId>) -> String {
    caller.map_or_else(|| "-".to_owned(), |caller| caller.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope() -> Envelope {
        Envelope {
            sender: NodeId::new(Timestamp::from_millis(1), 1),
            target: NodeId::new(Timestamp::from_millis(1), 2),
            caller: Some(WorkspaceId::DEFAULT),
            time: Timestamp::from_millis(1_000_000),
            nonce: Uuid::from_u128(3),
        }
    }

    const CONTENT: Content<'_> = Content { method: "POST", path: "/cluster/v1/deliver?x=1", body: b"{}" };

    fn key(text: &str) -> ClusterKey {
        ClusterKey::new(&text.repeat(32)).unwrap()
    }

    #[test]
    fn what_was_sealed_is_opened_and_believed() {
        for envelope in [envelope(), Envelope { caller: None, ..envelope() }] {
            let headers = envelope.seal(&key("a"), CONTENT);
            let (opened, signature) = Envelope::open(&headers).unwrap();
            assert_eq!(opened, envelope);
            assert!(opened.verify(&key("a"), CONTENT, &signature));
        }
    }

    #[test]
    fn every_part_is_signed() {
        let (sealed, signature) = Envelope::open(&envelope().seal(&key("a"), CONTENT)).unwrap();
        let other = NodeId::new(Timestamp::from_millis(1), 9);
        let envelopes = [
            Envelope { sender: other, ..sealed },
            Envelope { target: other, ..sealed },
            Envelope { caller: None, ..sealed },
            Envelope { time: Timestamp::from_millis(1_000_001), ..sealed },
            Envelope { nonce: Uuid::from_u128(4), ..sealed },
        ];
        for envelope in envelopes {
            assert!(!envelope.verify(&key("a"), CONTENT, &signature), "{envelope:?}");
        }
        let contents = [
            Content { method: "PUT", ..CONTENT },
            Content { path: "/cluster/v1/deliver?x=2", ..CONTENT },
            Content { path: "/cluster/v1/deliver", ..CONTENT },
            Content { body: b"{ }", ..CONTENT },
        ];
        for content in contents {
            assert!(!sealed.verify(&key("a"), content, &signature), "{} {}", content.method, content.path);
        }
        assert!(!sealed.verify(&key("b"), CONTENT, &signature));
        assert!(!sealed.verify(&key("a"), CONTENT, &signature[..31]));
        assert!(!sealed.verify(&key("a"), CONTENT, &[]));
    }

    #[test]
    fn a_request_is_timely_for_half_a_minute_around_its_time() {
        let sealed = envelope();
        let seconds = |seconds: i64| Timestamp::from_millis(1_000_000 + 1_000 * seconds);
        assert!([-30_i64, 0, 30].iter().all(|second| sealed.is_timely(seconds(*second))));
        assert!(![-31_i64, 31].iter().any(|second| sealed.is_timely(seconds(*second))));
    }

    #[test]
    fn headers_that_lack_a_part_are_not_opened() {
        let headers = envelope().seal(&key("a"), CONTENT);
        for name in [SENDER, TARGET, CALLER, TIME, NONCE, SIGNATURE] {
            let mut fewer = headers.clone();
            fewer.remove(name);
            assert!(Envelope::open(&fewer).is_none(), "{name}");
            let mut twice = headers.clone();
            twice.append(name, headers[name].clone());
            assert!(Envelope::open(&twice).is_none(), "{name}");
        }
        let mut odd = headers.clone();
        odd.insert(SIGNATURE, HeaderValue::from_static("abc"));
        assert!(Envelope::open(&odd).is_none());
    }
}
