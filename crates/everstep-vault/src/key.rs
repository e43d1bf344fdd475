//! The keys with which secrets are sealed.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

const KEY_BYTES: usize = 32;
/// Bytes of a key's id.
pub(crate) const KEY_ID_BYTES: usize = 8;

/// A key of 256 bits. It is never shown, except by [`SealKey::reveal`].
#[derive(Clone)]
pub struct SealKey(Zeroizing<[u8; KEY_BYTES]>);

impl SealKey {
    /// Creates a random key.
    ///
    /// # Panics
    /// If the operating system provides no randomness.
    pub fn generate() -> Self {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(&mut *bytes).expect("the operating system provides random bytes");
        Self(bytes)
    }

    /// The key itself, in the form of the setting: 64 hexadecimal digits.
    pub fn reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(hex(&*self.0))
    }

    /// Identifies a key, and reveals nothing about it.
    pub(crate) fn id(&self) -> [u8; KEY_ID_BYTES] {
        let mut hash = Sha256::new();
        hash.update(b"everstep secrets key id\0");
        hash.update(*self.0);
        let hash: [u8; 32] = hash.finalize().into();
        *hash.first_chunk().expect("a hash is longer than an id")
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

/// Reads 64 hexadecimal digits, or 32 bytes in base64. Errors do not repeat the input.
impl FromStr for SealKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let bytes = if text.len() == 2 * KEY_BYTES { from_hex(text) } else { from_base64(text) };
        let bytes = bytes.as_ref().and_then(|bytes| <[u8; KEY_BYTES]>::try_from(&bytes[..]).ok());
        let key = bytes.map(|bytes| Self(Zeroizing::new(bytes))).ok_or(
            "a key for secrets has 32 bytes, as 64 hexadecimal digits or in base64; create one: everstep secrets key",
        )?;
        if key.0.iter().all(|byte| *byte == key.0[0]) {
            return Err("a key for secrets must be random; create one: everstep secrets key".to_owned());
        }
        Ok(key)
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealKey({})", hex(&self.id()))
    }
}

/// The key in use, and older ones with which secrets may still be sealed.
#[derive(Clone, Debug)]
pub struct Keyring {
    current: SealKey,
    old: Vec<SealKey>,
}

impl Keyring {
    pub fn new(current: SealKey, old: Vec<SealKey>) -> Self {
        Self { current, old }
    }

    pub(crate) fn current(&self) -> &SealKey {
        &self.current
    }

    pub(crate) fn find(&self, id: [u8; KEY_ID_BYTES]) -> Option<&SealKey> {
        std::iter::once(&self.current).chain(&self.old).find(|key| key.id() == id)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let digit = |letter: u8| char::from(letter).to_digit(16);
    let pairs = text.as_bytes().chunks_exact(2).map(|pair| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok());
    pairs.collect::<Option<Vec<_>>>().map(Zeroizing::new)
}

/// Either alphabet of base64, with or without its padding.
fn from_base64(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_BYTES + 1));
    let (mut bits, mut held) = (0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xFFFF;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xFF).ok()?);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_in_hexadecimal_and_in_base64() {
        let key = SealKey::generate();
        let read = key.reveal().parse::<SealKey>().unwrap();
        assert_eq!(read.bytes(), key.bytes());
        assert_eq!(read.id(), key.id());
        let upper = key.reveal().to_uppercase().parse::<SealKey>().unwrap();
        assert_eq!(upper.bytes(), key.bytes());
        // The bytes 0, 1, …, 31.
        for text in [
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
            " AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        ] {
            let bytes: Vec<u8> = (0..32).collect();
            assert_eq!(text.parse::<SealKey>().unwrap().bytes()[..], bytes);
        }
    }

    #[test]
    fn an_invalid_key_is_rejected_and_not_repeated() {
        let short = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==";
        for text in ["", "secret!", short, &"g".repeat(64), &"ab".repeat(31), &"ab".repeat(33)] {
            let error = text.parse::<SealKey>().unwrap_err();
            assert!(error.contains("everstep secrets key"), "{error}");
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
        assert!("00".repeat(32).parse::<SealKey>().unwrap_err().contains("random"));
    }

    #[test]
    fn a_key_is_never_shown() {
        let key = SealKey::generate();
        let shown = format!("{:?}", Keyring::new(key.clone(), vec![key.clone()]));
        assert!(!shown.contains(&**key.reveal()), "{shown}");
    }
}
