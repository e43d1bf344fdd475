//! Tickets: credentials for live routes, valid for a minute, for browsers that cannot send headers.
//!
//! 1. The ticket of a key contains the hash of the key, and the ticket of a person contains the person. Both contain
//!    their expiry time.
//! 2. A ticket is signed with a secret that all nodes of a database share. So every node accepts it, and no node stores
//!    it.
//! 3. The ticket of a key has the permissions that the key has when the ticket is used: a revoked key makes its tickets
//!    invalid. The ticket of a person has the permissions of the token, and expires with the token at the latest.

use std::fmt;
use std::fmt::Write;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_store::AccessStore;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use uuid::Uuid;

use crate::auth::Permission;
use crate::auth::caller::{Caller, Principal};
use crate::auth::identity::{Person, VerifiedPerson};

const PREFIX: &str = "est_";
/// The prefix of the ticket of a person.
const PERSON_PREFIX: &str = "est_p_";
/// Characters of a ticket: a token has at most 8 KiB, and the person in a ticket is a part of it.
const TICKET_CHARS_MAX: usize = 16 * 1024;
/// How long a ticket is valid.
pub(crate) const TICKET_LIFETIME: Duration = Duration::from_secs(60);
/// The name of the setting that holds the secret.
const KEY_SETTING: &str = "ticket_key";
/// The prefix of the signed text, so that no other signature can be used as a ticket.
const SIGNED_PREFIX: &[u8] = b"everstep ticket 1\0";
const SIGNED_PERSON_PREFIX: &[u8] = b"everstep ticket of a person 1\0";
const HASH_BYTES: usize = 32;
const EXPIRY_BYTES: usize = 8;
const SIGNATURE_BYTES: usize = 32;

/// The secret that tickets are signed with.
pub(crate) struct TicketKey(Vec<u8>);

impl TicketKey {
    #[cfg(test)]
    pub(super) fn from_bytes(secret: &[u8]) -> Self {
        Self(secret.to_vec())
    }

    /// The secret that the nodes of a database share. The first node creates it.
    pub(crate) async fn from_store(store: &dyn AccessStore) -> everstep_store::Result<Self> {
        let mut random = [0; 32];
        getrandom::fill(&mut random).expect("the operating system provides random bytes");
        Ok(Self(store.setting(KEY_SETTING, &random).await?))
    }

    /// Makes a ticket.
    pub(crate) fn sign(&self, holder: TicketHolder, ends_at: Timestamp) -> Ticket {
        let signature = self.mac(&holder, ends_at).finalize().into_bytes().into();
        Ticket { holder, ends_at, signature }
    }

    /// Whether a ticket was signed with this secret.
    pub(crate) fn has_signed(&self, ticket: &Ticket) -> bool {
        self.mac(&ticket.holder, ticket.ends_at).verify_slice(&ticket.signature).is_ok()
    }

    /// The signature of other bytes. Each purpose has its own prefix.
    pub(super) fn sign_bytes(&self, prefix: &[u8], content: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.mac_bytes(prefix, content).finalize().into_bytes().into()
    }

    /// Whether [`TicketKey::sign_bytes`] made a signature with this secret.
    pub(super) fn has_signed_bytes(&self, prefix: &[u8], content: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        self.mac_bytes(prefix, content).verify_slice(signature).is_ok()
    }

    fn mac_bytes(&self, prefix: &[u8], content: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key may have any length");
        mac.update(prefix);
        mac.update(content);
        mac
    }

    fn mac(&self, holder: &TicketHolder, ends_at: Timestamp) -> Hmac<Sha256> {
        let (prefix, content): (_, &[u8]) = match holder {
            TicketHolder::Key(hash) => (SIGNED_PREFIX, hash),
            TicketHolder::Person(person) => (SIGNED_PERSON_PREFIX, &person.0),
        };
        let mut mac = self.mac_bytes(prefix, content);
        mac.update(&ends_at.micros().to_be_bytes());
        mac
    }
}

/// The holder of a ticket.
pub(crate) enum TicketHolder {
    /// The hash of the key with which it was created.
    Key([u8; HASH_BYTES]),
    Person(PersonTicket),
}

/// A person as JSON, as it is signed.
pub(crate) struct PersonTicket(Vec<u8>);

#[derive(Serialize, Deserialize)]
struct TicketContent {
    person: Person,
    workspace: Uuid,
    permissions: Vec<Permission>,
    expires_at: Timestamp,
}

impl TicketHolder {
    pub(crate) fn from_caller(caller: &Caller) -> Self {
        match &caller.principal {
            Principal::Key(holder) => Self::Key(holder.hash),
            Principal::Person(person) => {
                let content = TicketContent {
                    person: (**person).clone(),
                    workspace: caller.workspace.uuid(),
                    permissions: caller.permissions.to_vec(),
                    expires_at: caller.expires_at.unwrap_or(Timestamp::EPOCH),
                };
                Self::Person(PersonTicket(serde_json::to_vec(&content).expect("a person can be written as JSON")))
            }
        }
    }
}

impl PersonTicket {
    /// The person. Call it only after the signature was checked.
    pub(crate) fn caller(&self) -> Option<Caller> {
        // Another release may have written other fields; the client creates another ticket.
        let content: TicketContent = serde_json::from_slice(&self.0).ok()?;
        Some(Caller::from_person(VerifiedPerson {
            person: content.person.into(),
            workspace: WorkspaceId::from_uuid(content.workspace),
            permissions: content.permissions.into(),
            expires_at: content.expires_at,
        }))
    }
}

/// A ticket as it was received. It must not be trusted before [`TicketKey::has_signed`].
pub(crate) struct Ticket {
    pub(crate) holder: TicketHolder,
    pub(crate) ends_at: Timestamp,
    signature: [u8; SIGNATURE_BYTES],
}

impl Ticket {
    /// Whether a text has the prefix of a ticket.
    pub(crate) fn has_prefix(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    /// The ticket itself, for its holder.
    pub(crate) fn reveal(&self) -> String {
        let ends_at = self.ends_at.micros().to_be_bytes();
        match &self.holder {
            TicketHolder::Key(hash) => {
                let mut text = PREFIX.to_owned();
                for byte in hash.iter().chain(&ends_at).chain(&self.signature) {
                    let _ = write!(text, "{byte:02x}");
                }
                text
            }
            TicketHolder::Person(person) => {
                let bytes: Vec<u8> = ends_at.iter().chain(&self.signature).chain(&person.0).copied().collect();
                format!("{PERSON_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
            }
        }
    }
}

impl FromStr for Ticket {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.len() > TICKET_CHARS_MAX {
            return Err(());
        }
        if let Some(text) = text.strip_prefix(PERSON_PREFIX) {
            let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| ())?;
            let (end, rest) = bytes.split_first_chunk().ok_or(())?;
            let (signature, content) = rest.split_first_chunk().ok_or(())?;
            return Ok(Self {
                holder: TicketHolder::Person(PersonTicket(content.to_vec())),
                ends_at: Timestamp::from_micros(i64::from_be_bytes(*end)),
                signature: *signature,
            });
        }
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
        let ends_at = Timestamp::from_micros(i64::from_be_bytes(*end));
        Ok(Self { holder: TicketHolder::Key(*key), ends_at, signature: *signature })
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
        let text = secret.sign(TicketHolder::Key([7; 32]), Timestamp::from_millis(5_000)).reveal();
        let ticket = text.parse::<Ticket>().unwrap();
        assert!(matches!(ticket.holder, TicketHolder::Key(hash) if hash == [7; 32]));
        assert_eq!(ticket.ends_at, Timestamp::from_millis(5_000));
        assert!(secret.has_signed(&ticket) && Ticket::has_prefix(&text));
        assert!(!TicketKey(b"another".to_vec()).has_signed(&ticket));
        assert_eq!(format!("{ticket:?}"), "est_…");
    }

    #[test]
    fn no_letter_of_a_ticket_can_be_changed() {
        let secret = TicketKey(b"one secret of thirty-two letters".to_vec());
        let text = secret.sign(TicketHolder::Key([7; 32]), Timestamp::from_millis(5_000)).reveal();
        for index in PREFIX.len()..text.len() {
            let other = if text.as_bytes()[index] == b'0' { "1" } else { "0" };
            let forged = format!("{}{other}{}", &text[..index], &text[index + 1..]);
            assert!(!secret.has_signed(&forged.parse().unwrap()), "{index}");
        }
    }

    fn ann() -> Caller {
        Caller::from_person(VerifiedPerson {
            person: Person {
                issuer: "https://issuer.example".to_owned(),
                id: "ann".to_owned(),
                name: Some("Ann".to_owned()),
                email: None,
                roles: vec!["Clerk".to_owned()],
                words: ["workflow:view".to_owned()].into(),
            }
            .into(),
            workspace: WorkspaceId::DEFAULT,
            permissions: [Permission::View].into(),
            expires_at: Timestamp::from_millis(9_000),
        })
    }

    #[test]
    fn a_ticket_of_a_person_contains_the_person() {
        let secret = TicketKey(b"one secret of thirty-two letters".to_vec());
        let text = secret.sign(TicketHolder::from_caller(&ann()), Timestamp::from_millis(5_000)).reveal();
        let ticket = text.parse::<Ticket>().unwrap();
        assert!(secret.has_signed(&ticket) && Ticket::has_prefix(&text));
        let TicketHolder::Person(person) = &ticket.holder else { panic!("it is a person's") };
        let caller = person.caller().unwrap();
        assert_eq!((caller.audit_actor(), caller.expires_at), (ann().audit_actor(), ann().expires_at));
        assert!(caller.may(Permission::View) && !caller.may(Permission::Act));
        for index in PERSON_PREFIX.len()..text.len() {
            let other = if text.as_bytes()[index] == b'A' { "B" } else { "A" };
            let forged = format!("{}{other}{}", &text[..index], &text[index + 1..]);
            assert!(!forged.parse().is_ok_and(|forged| secret.has_signed(&forged)), "{index}");
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
