//! Seals a value, so that it can be read with its key and at its place alone.
//!
//! Sealed bytes: the form (1), the key's id (8), a random nonce (24), and what XChaCha20-Poly1305 makes of the value.
//! The workspace and the name are sealed along, so a row that was moved to another place cannot be opened there.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use everstep_core::ids::WorkspaceId;
use zeroize::Zeroizing;

use crate::error::Error;
use crate::key::{ID, Keyring, hex};

const FORM: u8 = 1;
const NONCE: usize = 24;

/// Where a value belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) workspace: WorkspaceId,
    pub(crate) name: &'a str,
}

impl Place<'_> {
    fn bytes(&self) -> Vec<u8> {
        let workspace = self.workspace.uuid();
        [b"everstep secret 1\0", &workspace.as_bytes()[..], self.name.as_bytes()].concat()
    }
}

/// Seals a value with the key in use.
pub(crate) fn seal(keys: &Keyring, place: Place<'_>, value: &str) -> Vec<u8> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce).expect("the operating system gives random bytes");
    let key = keys.current();
    let sealed = cipher(key.bytes())
        .encrypt(&XNonce::from(nonce), Payload { msg: value.as_bytes(), aad: &place.bytes() })
        .expect("a value is far below what the cipher takes");
    [&[FORM][..], &key.id(), &nonce, &sealed].concat()
}

/// Opens what was sealed for this place with a key of the ring.
pub(crate) fn open(keys: &Keyring, place: Place<'_>, sealed: &[u8]) -> Result<Zeroizing<String>, Error> {
    let broken = || Error::Broken(place.name.to_owned());
    let (id, nonce, sealed) = parts(sealed).ok_or_else(broken)?;
    let key = keys.find(id).ok_or_else(|| Error::OtherKey { name: place.name.to_owned(), id: hex(&id) })?;
    let payload = Payload { msg: sealed, aad: &place.bytes() };
    let value = cipher(key.bytes()).decrypt(&XNonce::from(nonce), payload).map_err(|_| broken())?;
    match String::from_utf8(value) {
        Ok(value) => Ok(Zeroizing::new(value)),
        Err(error) => {
            drop(Zeroizing::new(error.into_bytes()));
            Err(broken())
        }
    }
}

fn parts(sealed: &[u8]) -> Option<([u8; ID], [u8; NONCE], &[u8])> {
    let (form, rest) = sealed.split_first()?;
    let (id, rest) = rest.split_first_chunk()?;
    let (nonce, rest) = rest.split_first_chunk()?;
    (*form == FORM).then_some((*id, *nonce, rest))
}

fn cipher(key: &[u8; 32]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Key::from(*key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SealKey;

    fn place(name: &str) -> Place<'_> {
        Place { workspace: WorkspaceId::DEFAULT, name }
    }

    #[test]
    fn a_value_is_opened_at_its_place_alone() {
        let keys = Keyring::new(SealKey::generate(), Vec::new());
        let sealed = seal(&keys, place("one"), "sesame");
        assert_eq!(*open(&keys, place("one"), &sealed).unwrap(), "sesame");
        assert!(matches!(open(&keys, place("two"), &sealed), Err(Error::Broken(_))));
        let elsewhere = Place { workspace: WorkspaceId::from_uuid(uuid::Uuid::from_u128(2)), name: "one" };
        assert!(matches!(open(&keys, elsewhere, &sealed), Err(Error::Broken(_))));
    }

    #[test]
    fn nothing_of_a_value_can_be_seen_or_changed() {
        let keys = Keyring::new(SealKey::generate(), Vec::new());
        let sealed = seal(&keys, place("one"), "sesame");
        assert_ne!(sealed, seal(&keys, place("one"), "sesame"), "two seals of one value differ");
        assert!(!sealed.windows(6).any(|bytes| bytes == b"sesame"));
        for place_of_byte in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place_of_byte] ^= 1;
            assert!(open(&keys, place("one"), &changed).is_err(), "{place_of_byte}");
            assert!(open(&keys, place("one"), &sealed[..place_of_byte]).is_err(), "{place_of_byte}");
        }
    }

    #[test]
    fn an_older_key_still_opens_and_another_is_named() {
        let (old, new) = (SealKey::generate(), SealKey::generate());
        let sealed = seal(&Keyring::new(old.clone(), Vec::new()), place("one"), "sesame");
        let ring = Keyring::new(new.clone(), vec![old.clone()]);
        assert_eq!(*open(&ring, place("one"), &sealed).unwrap(), "sesame");
        let Err(error) = open(&Keyring::new(new, Vec::new()), place("one"), &sealed) else { panic!("it was opened") };
        assert!(error.to_string().contains(&hex(&old.id())), "{error}");
        assert!(error.to_string().contains("EVERSTEP_SECRETS_OLD_KEYS"), "{error}");
    }
}
