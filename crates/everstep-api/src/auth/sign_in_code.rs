//! Codes of one-time links: a browser exchanges one for a key of its own.
//!
//! 1. A code contains the hash of the key that made it, its expiry time, and the id of the key that it will create. So
//!    the primary key of the table of keys decides which of two requests uses the code, on any node.
//! 2. A code is signed with the secret of the tickets, which all nodes share. No node stores it.
//! 3. The key that made the code must be valid when the code is used.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everstep_core::time::Timestamp;
use uuid::Uuid;

use crate::auth::ticket::TicketKey;

const PREFIX: &str = "esc_";
/// The prefix of the signed text, so that no other signature can be used as a code.
const SIGNED_PREFIX: &[u8] = b"everstep sign-in code 1\0";
/// How long a code is valid.
pub(crate) const CODE_LIFETIME: Duration = Duration::from_secs(60);
/// How long the key of a code is valid.
pub(crate) const SIGN_IN_LIFETIME: Duration = Duration::from_secs(12 * 3_600);
/// The signed bytes: an id, a hash and a time.
const CONTENT_BYTES: usize = 16 + 32 + 8;
const SIGNATURE_BYTES: usize = 32;

/// A code as it was received. It must not be trusted before [`SignInCode::is_signed_by`].
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SignInCode {
    /// The id of the key that the code creates.
    pub(crate) id: Uuid,
    /// The hash of the key that made the code.
    pub(crate) maker: [u8; 32],
    pub(crate) ends_at: Timestamp,
    signature: [u8; SIGNATURE_BYTES],
}

impl SignInCode {
    pub(super) fn sign(secret: &TicketKey, id: Uuid, maker: [u8; 32], ends_at: Timestamp) -> Self {
        let signature = secret.sign_bytes(SIGNED_PREFIX, &content(id, &maker, ends_at));
        Self { id, maker, ends_at, signature }
    }

    pub(super) fn is_signed_by(&self, secret: &TicketKey) -> bool {
        secret.has_signed_bytes(SIGNED_PREFIX, &content(self.id, &self.maker, self.ends_at), &self.signature)
    }

    /// The code itself, for its holder.
    pub(crate) fn reveal(&self) -> String {
        let bytes = [&content(self.id, &self.maker, self.ends_at)[..], &self.signature].concat();
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

fn content(id: Uuid, maker: &[u8; 32], ends_at: Timestamp) -> Vec<u8> {
    [&id.as_bytes()[..], maker, &ends_at.micros().to_be_bytes()].concat()
}

impl FromStr for SignInCode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.strip_prefix(PREFIX).ok_or(())?;
        // Longer texts are not decoded.
        if text.len() > 2 * (CONTENT_BYTES + SIGNATURE_BYTES) {
            return Err(());
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| ())?;
        let (id, rest) = bytes.split_first_chunk().ok_or(())?;
        let (maker, rest) = rest.split_first_chunk().ok_or(())?;
        let (end, rest) = rest.split_first_chunk().ok_or(())?;
        Ok(Self {
            id: Uuid::from_bytes(*id),
            maker: *maker,
            ends_at: Timestamp::from_micros(i64::from_be_bytes(*end)),
            signature: rest.try_into().map_err(|_| ())?,
        })
    }
}

impl fmt::Debug for SignInCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("esc_…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_letter_of_a_code_can_be_changed() {
        let secret = TicketKey::from_bytes(b"one secret of thirty-two letters");
        let code = SignInCode::sign(&secret, Uuid::from_u128(5), [7; 32], Timestamp::from_millis(5_000));
        let text = code.reveal();
        assert_eq!(text.parse(), Ok(code.clone()));
        assert!(code.is_signed_by(&secret) && !code.is_signed_by(&TicketKey::from_bytes(b"another")));
        assert_eq!(format!("{code:?}"), "esc_…");
        for index in PREFIX.len()..text.len() {
            let other = if text.as_bytes()[index] == b'A' { "B" } else { "A" };
            let forged = format!("{}{other}{}", &text[..index], &text[index + 1..]);
            assert!(!forged.parse::<SignInCode>().is_ok_and(|forged| forged.is_signed_by(&secret)), "{index}");
        }
    }

    #[test]
    fn texts_of_another_form_are_no_codes() {
        let long = format!("esc_{}", "A".repeat(1_000));
        for text in ["", "esc_", "esc_AAAA", &long, "est_00", "es_1"] {
            assert!(text.parse::<SignInCode>().is_err(), "{text}");
        }
    }
}
