//! Signs requests between nodes, so that only requests of this cluster are accepted.
//!
//! 1. The signature is an HMAC-SHA256 with the cluster's key.
//! 2. It covers the method, the path with its query, the body, the workspace of the caller, the time, the sending node,
//!    the receiving node, and a nonce.
//! 3. The clocks are those of the nodes, which follow the database's; they may differ by [`CLOCK_SKEW_MAX`].
//! 4. Each value has exactly one text form, so that two requests never share a signed text.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use everstep_core::ids::{NodeId, WorkspaceId};
use everstep_core::time::Timestamp;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::cluster::ClusterKey;

/// The maximum difference between the clocks of sender and receiver.
pub(super) const CLOCK_SKEW_MAX: Duration = Duration::from_secs(30);

const SENDER_HEADER: &str = "x-everstep-sender";
const TARGET_HEADER: &str = "x-everstep-target";
const CALLER_HEADER: &str = "x-everstep-caller";
const TIME_HEADER: &str = "x-everstep-time";
const NONCE_HEADER: &str = "x-everstep-nonce";
const SIGNATURE_HEADER: &str = "x-everstep-signature";
/// The first line of the signed text: the name of its format.
const FORMAT: &str = "everstep-cluster-1";

/// The signed headers of a request between nodes: sender, target, caller, time and nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SignedHeader {
    pub(super) sender: NodeId,
    pub(super) target: NodeId,
    /// The workspace of the caller; none for a request of the node itself.
    pub(super) caller: Option<WorkspaceId>,
    pub(super) time: Timestamp,
    pub(super) nonce: Uuid,
}

/// The parts of a request that its signature covers.
#[derive(Clone, Copy)]
pub(super) struct SignedRequest<'a> {
    pub(super) method: &'a str,
    /// With its query.
    pub(super) path: &'a str,
    pub(super) body: &'a [u8],
}

impl SignedHeader {
    /// The headers of a signed request.
    pub(super) fn seal(&self, key: &ClusterKey, request: SignedRequest<'_>) -> HeaderMap {
        let signature = self.mac(key, request).finalize().into_bytes();
        let signature: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
        let values = [
            (SENDER_HEADER, self.sender.to_string()),
            (TARGET_HEADER, self.target.to_string()),
            (CALLER_HEADER, caller_text(self.caller)),
            (TIME_HEADER, self.time.micros().to_string()),
            (NONCE_HEADER, self.nonce.to_string()),
            (SIGNATURE_HEADER, signature),
        ];
        let header = |text: String| HeaderValue::try_from(text).expect("ids and numbers are plain text");
        values.into_iter().map(|(name, text)| (axum::http::HeaderName::from_static(name), header(text))).collect()
    }

    /// Reads the headers of a request. They must not be trusted before [`Envelope::verify`].
    pub(super) fn open(headers: &HeaderMap) -> Option<(Self, Vec<u8>)> {
        let text = |name: &str| {
            let mut values = headers.get_all(name).iter();
            values.next().filter(|_| values.next().is_none())?.to_str().ok()
        };
        let caller = match text(CALLER_HEADER)? {
            "-" => None,
            caller => Some(caller.parse().ok()?),
        };
        let header = Self {
            sender: text(SENDER_HEADER)?.parse().ok()?,
            target: text(TARGET_HEADER)?.parse().ok()?,
            caller,
            time: Timestamp::from_micros(text(TIME_HEADER)?.parse().ok()?),
            nonce: text(NONCE_HEADER)?.parse().ok()?,
        };
        let signature = text(SIGNATURE_HEADER)?;
        let byte = |at: usize| u8::from_str_radix(signature.get(at..at + 2)?, 16).ok();
        let signature = (0..signature.len()).step_by(2).map(byte).collect::<Option<_>>()?;
        Some((header, signature))
    }

    /// Whether a node of this cluster signed exactly this request, in constant time.
    pub(super) fn verify(&self, key: &ClusterKey, request: SignedRequest<'_>, signature: &[u8]) -> bool {
        self.mac(key, request).verify_slice(signature).is_ok()
    }

    pub(super) fn is_timely(&self, now: Timestamp) -> bool {
        now.since(self.time) <= CLOCK_SKEW_MAX && self.time.since(now) <= CLOCK_SKEW_MAX
    }

    fn mac(&self, key: &ClusterKey, request: SignedRequest<'_>) -> Hmac<Sha256> {
        let SignedRequest { method, path, body } = request;
        let digest: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
        let Self { sender, target, caller, time, nonce } = self;
        let (caller, time) = (caller_text(*caller), time.micros());
        let text = format!("{FORMAT}\n{method}\n{path}\n{digest}\n{caller}\n{time}\n{sender}\n{target}\n{nonce}");
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

    fn header() -> SignedHeader {
        SignedHeader {
            sender: NodeId::new(Timestamp::from_millis(1), 1),
            target: NodeId::new(Timestamp::from_millis(1), 2),
            caller: Some(WorkspaceId::DEFAULT),
            time: Timestamp::from_millis(1_000_000),
            nonce: Uuid::from_u128(3),
        }
    }

    const REQUEST: SignedRequest<'_> = SignedRequest { method: "POST", path: "/cluster/v1/inputs?x=1", body: b"{}" };

    fn key(text: &str) -> ClusterKey {
        ClusterKey::new(&text.repeat(32)).unwrap()
    }

    #[test]
    fn what_was_sealed_is_opened_and_believed() {
        for header in [header(), SignedHeader { caller: None, ..header() }] {
            let headers = header.seal(&key("a"), REQUEST);
            let (opened, signature) = SignedHeader::open(&headers).unwrap();
            assert_eq!(opened, header);
            assert!(opened.verify(&key("a"), REQUEST, &signature));
        }
    }

    #[test]
    fn every_part_is_signed() {
        let (sealed, signature) = SignedHeader::open(&header().seal(&key("a"), REQUEST)).unwrap();
        let other = NodeId::new(Timestamp::from_millis(1), 9);
        let forged_headers = [
            SignedHeader { sender: other, ..sealed },
            SignedHeader { target: other, ..sealed },
            SignedHeader { caller: None, ..sealed },
            SignedHeader { time: Timestamp::from_millis(1_000_001), ..sealed },
            SignedHeader { nonce: Uuid::from_u128(4), ..sealed },
        ];
        for header in forged_headers {
            assert!(!header.verify(&key("a"), REQUEST, &signature), "{header:?}");
        }
        let forged_requests = [
            SignedRequest { method: "PUT", ..REQUEST },
            SignedRequest { path: "/cluster/v1/inputs?x=2", ..REQUEST },
            SignedRequest { path: "/cluster/v1/inputs", ..REQUEST },
            SignedRequest { body: b"{ }", ..REQUEST },
        ];
        for request in forged_requests {
            assert!(!sealed.verify(&key("a"), request, &signature), "{} {}", request.method, request.path);
        }
        assert!(!sealed.verify(&key("b"), REQUEST, &signature));
        assert!(!sealed.verify(&key("a"), REQUEST, &signature[..31]));
        assert!(!sealed.verify(&key("a"), REQUEST, &[]));
    }

    #[test]
    fn a_request_is_timely_for_half_a_minute_around_its_time() {
        let sealed = header();
        let seconds = |seconds: i64| Timestamp::from_millis(1_000_000 + 1_000 * seconds);
        assert!([-30_i64, 0, 30].iter().all(|second| sealed.is_timely(seconds(*second))));
        assert!(![-31_i64, 31].iter().any(|second| sealed.is_timely(seconds(*second))));
    }

    #[test]
    fn headers_that_lack_a_part_are_not_opened() {
        let headers = header().seal(&key("a"), REQUEST);
        for name in [SENDER_HEADER, TARGET_HEADER, CALLER_HEADER, TIME_HEADER, NONCE_HEADER, SIGNATURE_HEADER] {
            let mut fewer = headers.clone();
            fewer.remove(name);
            assert!(SignedHeader::open(&fewer).is_none(), "{name}");
            let mut twice = headers.clone();
            twice.append(name, headers[name].clone());
            assert!(SignedHeader::open(&twice).is_none(), "{name}");
        }
        let mut odd = headers.clone();
        odd.insert(SIGNATURE_HEADER, HeaderValue::from_static("abc"));
        assert!(SignedHeader::open(&odd).is_none());
    }
}
