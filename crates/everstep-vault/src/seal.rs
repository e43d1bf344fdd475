//! Seals a value, so that it can be read only with its key and in its scope.
//!
//! Sealed bytes: the format (1), the key's id (8), a random nonce (24), and the value encrypted with
//! XChaCha20-Poly1305. The workspace and the name are authenticated as well, so a row that was moved to another one
//! cannot be opened there.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use everstep_core::ids::WorkspaceId;
use zeroize::Zeroizing;

use crate::error::Error;
use crate::key::{KEY_ID_BYTES, Keyring, hex};

const FORMAT: u8 = 1;
const NONCE_BYTES: usize = 24;

/// The workspace and the name that a value is sealed for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SealScope<'a> {
    pub(crate) workspace: WorkspaceId,
    pub(crate) name: &'a str,
}

impl SealScope<'_> {
    fn bytes(&self) -> Vec<u8> {
        let workspace = self.workspace.uuid();
        [b"everstep secret 1\0", &workspace.as_bytes()[..], self.name.as_bytes()].concat()
    }
}

/// Seals a value with the key in use.
pub(crate) fn seal(keys: &Keyring, scope: SealScope<'_>, value: &str) -> Vec<u8> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).expect("the operating system provides random bytes");
    let key = keys.current();
    let sealed = cipher(key.bytes())
        .encrypt(&XNonce::from(nonce), Payload { msg: value.as_bytes(), aad: &scope.bytes() })
        .expect("a value is far below the limit of the cipher");
    [&[FORMAT][..], &key.id(), &nonce, &sealed].concat()
}

/// Opens a value that was sealed for this scope with a key of the keyring.
pub(crate) fn open(keys: &Keyring, scope: SealScope<'_>, sealed: &[u8]) -> Result<Zeroizing<String>, Error> {
    let broken = || Error::Broken(scope.name.to_owned());
    let (id, nonce, sealed) = parts(sealed).ok_or_else(broken)?;
    let key = keys.find(id).ok_or_else(|| Error::OtherKey { name: scope.name.to_owned(), id: hex(&id) })?;
    let payload = Payload { msg: sealed, aad: &scope.bytes() };
    let value = cipher(key.bytes()).decrypt(&XNonce::from(nonce), payload).map_err(|_| broken())?;
    match String::from_utf8(value) {
        Ok(value) => Ok(Zeroizing::new(value)),
        Err(error) => {
            drop(Zeroizing::new(error.into_bytes()));
            Err(broken())
        }
    }
}

fn parts(sealed: &[u8]) -> Option<([u8; KEY_ID_BYTES], [u8; NONCE_BYTES], &[u8])> {
    let (format, rest) = sealed.split_first()?;
    let (id, rest) = rest.split_first_chunk()?;
    let (nonce, rest) = rest.split_first_chunk()?;
    (*format == FORMAT).then_some((*id, *nonce, rest))
}

fn cipher(key: &[u8; 32]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Key::from(*key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SealKey;

    fn scope(name: &str) -> SealScope<'_> {
        SealScope { workspace: WorkspaceId::DEFAULT, name }
    }

    #[test]
    fn a_value_is_opened_in_its_scope_only() {
        let keys = Keyring::new(SealKey::generate(), Vec::new());
        let sealed = seal(&keys, scope("one"), "sesame");
        assert_eq!(*open(&keys, scope("one"), &sealed).unwrap(), "sesame");
        assert!(matches!(open(&keys, scope("two"), &sealed), Err(Error::Broken(_))));
        let elsewhere = SealScope { workspace: WorkspaceId::from_uuid(uuid::Uuid::from_u128(2)), name: "one" };
        assert!(matches!(open(&keys, elsewhere, &sealed), Err(Error::Broken(_))));
    }

    #[test]
    fn nothing_of_a_value_can_be_seen_or_changed() {
        let keys = Keyring::new(SealKey::generate(), Vec::new());
        let sealed = seal(&keys, scope("one"), "sesame");
        assert_ne!(sealed, seal(&keys, scope("one"), "sesame"), "two seals of one value differ");
        assert!(!sealed.windows(6).any(|bytes| bytes == b"sesame"));
        for byte_index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[byte_index] ^= 1;
            assert!(open(&keys, scope("one"), &changed).is_err(), "{byte_index}");
            assert!(open(&keys, scope("one"), &sealed[..byte_index]).is_err(), "{byte_index}");
        }
    }

    #[test]
    fn an_older_key_still_opens_and_another_is_named() {
        let (old, new) = (SealKey::generate(), SealKey::generate());
        let sealed = seal(&Keyring::new(old.clone(), Vec::new()), scope("one"), "sesame");
        let ring = Keyring::new(new.clone(), vec![old.clone()]);
        assert_eq!(*open(&ring, scope("one"), &sealed).unwrap(), "sesame");
        let Err(error) = open(&Keyring::new(new, Vec::new()), scope("one"), &sealed) else { panic!("it was opened") };
        assert!(error.to_string().contains(&hex(&old.id())), "{error}");
        assert!(error.to_string().contains("EVERSTEP_SECRETS_OLD_KEYS"), "{error}");
    }
}
