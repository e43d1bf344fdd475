//! Signatures of webhooks, as Standard Webhooks 1.0 specifies them: HMAC-SHA256 over `{id}.{timestamp}.{body}`.
//!
//! 1. The id is the same for every attempt of one message, so that a receiver recognises a repetition.
//! 2. The timestamp is the time of the attempt, in seconds: a receiver rejects an old one.
//! 3. A secret that begins with `whsec_` is base64; the bytes of any other text are the key.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use crate::time::Timestamp;

pub const ID_HEADER: &str = "webhook-id";
pub const TIMESTAMP_HEADER: &str = "webhook-timestamp";
pub const SIGNATURE_HEADER: &str = "webhook-signature";

/// Headers that the sender of a webhook sets itself, in lowercase.
pub const RESERVED_HEADERS: &[&str] = &[
    ID_HEADER,
    TIMESTAMP_HEADER,
    SIGNATURE_HEADER,
    "idempotency-key",
    "content-type",
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "upgrade",
    "te",
    "trailer",
    "keep-alive",
    "proxy-connection",
    "expect",
];

/// The beginning of a secret in base64.
const SECRET_PREFIX: &str = "whsec_";
/// The version of the signature, before its text.
const SIGNATURE_PREFIX: &str = "v1,";
/// The bytes of a block of SHA-256.
const BLOCK_BYTES: usize = 64;

/// The secret of a webhook cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    #[error("the secret of a webhook is empty")]
    Empty,
    #[error("a secret that begins with whsec_ continues with base64")]
    NotBase64,
}

/// The value of the header [`SIGNATURE_HEADER`] of one attempt.
pub fn sign(secret: &str, id: &str, at: Timestamp, body: &[u8]) -> Result<String, SecretError> {
    let key = read_key(secret)?;
    let seconds = timestamp(at);
    let content = [id.as_bytes(), b".", seconds.as_bytes(), b".", body];
    Ok(format!("{SIGNATURE_PREFIX}{}", BASE64_STANDARD.encode(authenticate(&key, &content))))
}

/// The value of the header [`TIMESTAMP_HEADER`].
pub fn timestamp(at: Timestamp) -> String {
    at.millis().div_euclid(1_000).to_string()
}

/// The key of a secret.
fn read_key(secret: &str) -> Result<Vec<u8>, SecretError> {
    let key = match secret.strip_prefix(SECRET_PREFIX) {
        Some(encoded) => BASE64_STANDARD.decode(encoded).map_err(|_| SecretError::NotBase64)?,
        None => secret.as_bytes().to_vec(),
    };
    if key.is_empty() { Err(SecretError::Empty) } else { Ok(key) }
}

/// HMAC-SHA256 (RFC 2104) of the parts of a text.
fn authenticate(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut block = [0; BLOCK_BYTES];
    match key.len() > BLOCK_BYTES {
        true => block[..32].copy_from_slice(&Sha256::digest(key)),
        false => block[..key.len()].copy_from_slice(key),
    }
    let mut inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36));
    for part in parts {
        inner.update(part);
    }
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner.finalize()).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";

    #[test]
    fn the_published_vector_of_the_specification_is_signed() {
        let at = Timestamp::from_millis(1_614_265_330_999);
        assert_eq!(timestamp(at), "1614265330");
        let signature = sign(SECRET, ID, at, br#"{"test": 2432232314}"#);
        assert_eq!(signature.as_deref(), Ok("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="));
    }

    /// Test cases 2 and 6 of RFC 4231.
    #[test]
    fn short_and_long_keys_are_authenticated_as_the_rfc_says() {
        let hex = |bytes: [u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(
            hex(authenticate(b"Jefe", &[b"what do ya want ", b"for nothing?"])),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        let text = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(
            hex(authenticate(&[0xaa; 131], &[text])),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn a_plain_secret_is_its_bytes_and_a_broken_one_is_refused() {
        let at = Timestamp::from_millis(1_000);
        let encoded = format!("whsec_{}", BASE64_STANDARD.encode("plain secret"));
        assert_eq!(sign("plain secret", "a", at, b"{}"), sign(&encoded, "a", at, b"{}"));
        assert_ne!(sign("plain secret", "a", at, b"{}"), sign("plain secret", "b", at, b"{}"));
        assert_eq!(sign("", "a", at, b"{}"), Err(SecretError::Empty));
        assert_eq!(sign("whsec_", "a", at, b"{}"), Err(SecretError::Empty));
        assert_eq!(sign("whsec_%", "a", at, b"{}"), Err(SecretError::NotBase64));
    }
}
