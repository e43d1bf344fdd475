//! What a browser shows in place of a key, where it cannot send headers: it opens live routes, for a minute.
//!
//! 1. A ticket names the key that it was made with, by the key's hash, and when it ends.
//! 2. It is signed with a secret that all nodes of a database share, so each of them takes it, and none keeps it.
//! 3. It allows what its key allows at that moment: with a key that was revoked its tickets have ended too.

use std::fmt;
use std::fmt::Write;
use std::str::FromStr;
use std::time::Duration;

use everstep_core::time::Timestamp;
use everstep_store::AccessStore;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "est_";
/// How long a ticket is valid.
pub(crate) const TICKET_LIFETIME: Duration = Duration::from_secs(60);
/// The name of the setting that holds the secret.
const KEY_SETTING: &str = "ticket_key";
/// What is signed begins with this, so that no other signature is taken for a ticket.
const SIGNED_PREFIX: &[u8] = b"everstep ticket 1\0";
const HASH_BYTES: usize = 32;
const EXPIRY_BYTES: usize = 8;
const SIGNATURE_BYTES: usize = 32;

/// The secret that tickets are signed with.
pub(crate) struct TicketKey(Vec<u8>);

impl TicketKey {
    /// The secret that the nodes of a database share. The first of them makes it.
    pub(crate) async fn from_store(store: &dyn AccessStore) -> everstep_store::Result<Self> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).expect("the operating system gives random bytes");
        Ok(Self(store.setting(KEY_SETTING, &random).await?))
    }

    /// Makes a ticket for the key with a hash.
    pub(crate) fn sign(&self, key: [u8; HASH_BYTES], ends_at: Timestamp) -> Ticket {
        let signature = self.mac(&key, ends_at).finalize().into_bytes().into();
        Ticket { key, ends_at, signature }
    }

    /// Whether a ticket was made with this secret.
    pub(crate) fn has_signed(&self, ticket: &Ticket) -> bool {
        self.mac(&ticket.key, ticket.ends_at).verify_slice(&ticket.signature).is_ok()
    }

    fn mac(&self, key: &[u8; HASH_BYTES], ends_at: Timestamp) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key may have any length");
        mac.update(SIGNED_PREFIX);
        mac.update(key);
        mac.update(&ends_at.micros().to_be_bytes());
        mac
    }
}

/// A ticket, as it was shown. Nothing in it is believed before [`TicketKey::has_signed`].
pub(crate) struct Ticket {
    /// The hash of the key that it was made with.
    pub(crate) key: [u8; HASH_BYTES],
    pub(crate) ends_at: Timestamp,
    signature: [u8; SIGNATURE_BYTES],
}

impl Ticket {
    /// Whether a text is meant to be a ticket.
    pub(crate) fn has_prefix(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// The ticket itself, for its holder.
    pub(crate) fn reveal(&self) -> String {
        let mut text = PREFIX.to_owned();
        for byte in self.key.iter().chain(&self.ends_at.micros().to_be_bytes()).chain(&self.signature) {
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

impl FromStr for Ticket {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.strip_prefix(PREFIX).ok_or(())?.as_bytes();
        if digits.len() != 2 * (HASH_BYTES + EXPIRY_BYTES + SIGNATURE_BYTES) {
            return Err(());
        }
        let mut bytes = [0; HASH_BYTES + EXPIRY_BYTES + SIGNATURE_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |letter: u8| char::from(letter).to_digit(16).ok_or(());
            *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).map_err(|_| ())?;
        }
        let (key, rest) = bytes.split_first_chunk().ok_or(())?;
        let (end, rest) = rest.split_first_chunk().ok_or(())?;
        let (signature, _) = rest.split_first_chunk().ok_or(())?;
        Ok(Self { key: *key, ends_at: Timestamp::from_micros(i64::from_be_bytes(*end)), signature: *signature })
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("est_…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_read_back_and_known_by_its_signature() {
        let secret = TicketKey(b"one secret of thirty-two letters".to_vec());
        let text = secret.sign([7; 32], Timestamp::from_millis(5_000)).reveal();
        let ticket = text.parse::<Ticket>().unwrap();
        assert_eq!((ticket.key, ticket.ends_at), ([7; 32], Timestamp::from_millis(5_000)));
        assert!(secret.has_signed(&ticket) && Ticket::has_prefix(&text));
        assert!(!TicketKey(b"another".to_vec()).has_signed(&ticket));
        assert_eq!(format!("{ticket:?}"), "est_…");
    }

    #[test]
    fn no_letter_of_a_ticket_can_be_changed() {
        let secret = TicketKey(b"one secret of thirty-two letters".to_vec());
        let text = secret.sign([7; 32], Timestamp::from_millis(5_000)).reveal();
        for index in PREFIX.len()..text.len() {
            let other = if text.as_bytes()[index] == b'0' { "1" } else { "0" };
            let forged = format!("{}{other}{}", &text[..index], &text[index + 1..]);
            assert!(!secret.has_signed(&forged.parse().unwrap()), "{index}");
        }
    }

    #[test]
    fn what_is_no_ticket_is_refused() {
        let right = "a".repeat(144);
        for text in ["", "est_", "est_00", &right, &format!("est_{right}a"), &format!("est_g{}", &right[1..])] {
            assert!(text.parse::<Ticket>().is_err(), "{text}");
        }
        assert!(format!("est_{right}").parse::<Ticket>().is_ok());
    }
}
