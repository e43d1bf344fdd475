//! The keys of an identity provider. Each is pinned to the algorithms that it may be used with.
//!
//! 1. A shared secret is used with HS256, HS384 and HS512 only.
//! 2. A key of a JSON Web Key Set is never used with these algorithms, because public keys are known to attackers. A
//!    symmetric key (`oct`) in a set is ignored, because the set is public.
//! 3. The `alg`, `use`, `key_ops` and `kid` of a key are enforced. A key that states no `alg` is used with the
//!    algorithms of its type and curve.

use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::{Map, Value};

/// The maximum number of keys that are read from one set.
const KEYS_MAX: usize = 100;

const HMAC: &[Algorithm] = &[Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];
const RSA: &[Algorithm] =
    &[Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256, Algorithm::PS384, Algorithm::PS512];

/// The keys that tokens may be signed with.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    keys: Vec<VerificationKey>,
}

/// A key, and the algorithms that it may be used with.
#[derive(Debug)]
pub(crate) struct VerificationKey {
    kid: Option<String>,
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) key: DecodingKey,
}

/// Why a document is not a usable set of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeySetError {
    #[error("is not JSON")]
    NotJson,
    #[error("has no list `keys`")]
    NoKeys,
    #[error("has no key that this server can verify a signature with")]
    NoUsableKey,
}

impl KeySet {
    /// A set of one secret. It matches every token, because tokens do not name it.
    pub(crate) fn from_secret(secret: &[u8], allowed: &[Algorithm]) -> Self {
        let algorithms = restrict(HMAC, allowed);
        Self { keys: vec![VerificationKey { kid: None, algorithms, key: DecodingKey::from_secret(secret) }] }
    }

    /// Reads a JSON Web Key Set (RFC 7517). Keys that cannot be used are left out.
    pub(crate) fn from_jwks(document: &[u8], allowed: &[Algorithm]) -> Result<Self, KeySetError> {
        let document: Value = serde_json::from_slice(document).map_err(|_| KeySetError::NotJson)?;
        let keys = document.get("keys").and_then(Value::as_array).ok_or(KeySetError::NoKeys)?;
        let keys = keys.iter().take(KEYS_MAX).filter_map(|key| read_key(key.as_object()?, allowed));
        let keys: Vec<_> = keys.filter(|key| !key.algorithms.is_empty()).collect();
        if keys.is_empty() { Err(KeySetError::NoUsableKey) } else { Ok(Self { keys }) }
    }

    /// Whether a key has this name, independent of its algorithms. A secret has no name and matches every token.
    pub(crate) fn has(&self, kid: Option<&str>) -> bool {
        self.keys.iter().any(|key| key.is_named(kid))
    }

    /// The key that verifies a token with this key name and algorithm.
    pub(crate) fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<&VerificationKey> {
        self.keys.iter().find(|key| key.is_named(kid) && key.algorithms.contains(&algorithm))
    }
}

impl VerificationKey {
    fn is_named(&self, kid: Option<&str>) -> bool {
        let is_secret = self.algorithms.iter().any(|algorithm| HMAC.contains(algorithm));
        is_secret || self.kid.as_deref() == kid
    }
}

fn read_key(key: &Map<String, Value>, allowed: &[Algorithm]) -> Option<VerificationKey> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    // A key with a field of the wrong type is not used.
    let is_text_or_absent = |name: &str| key.get(name).is_none_or(Value::is_string);
    if !["use", "alg", "kid"].into_iter().all(is_text_or_absent) {
        return None;
    }
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let verifies = |operations: &Value| {
        operations.as_array().is_some_and(|operations| operations.iter().any(|operation| operation == "verify"))
    };
    if !key.get("key_ops").is_none_or(verifies) {
        return None;
    }
    let (fitting, decoding_key): (&[Algorithm], _) = match (text("kty")?, text("crv")) {
        ("RSA", _) => (RSA, DecodingKey::from_rsa_components(text("n")?, text("e")?)),
        ("EC", Some("P-256")) => (&[Algorithm::ES256], DecodingKey::from_ec_components(text("x")?, text("y")?)),
        ("EC", Some("P-384")) => (&[Algorithm::ES384], DecodingKey::from_ec_components(text("x")?, text("y")?)),
        ("OKP", Some("Ed25519")) => (&[Algorithm::EdDSA], DecodingKey::from_ed_components(text("x")?)),
        _ => return None,
    };
    let mut algorithms = restrict(fitting, allowed);
    if let Some(name) = text("alg") {
        // RFC 9864 names EdDSA with this curve after the curve.
        let name = if name == "Ed25519" { "EdDSA" } else { name };
        algorithms.retain(|algorithm| format!("{algorithm:?}") == name);
    }
    Some(VerificationKey { kid: text("kid").map(str::to_owned), algorithms, key: decoding_key.ok()? })
}

fn restrict(fitting: &[Algorithm], allowed: &[Algorithm]) -> Vec<Algorithm> {
    fitting.iter().copied().filter(|algorithm| allowed.is_empty() || allowed.contains(algorithm)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(key: &Value) -> Option<Vec<Algorithm>> {
        let document = json!({ "keys": [key] }).to_string();
        KeySet::from_jwks(document.as_bytes(), &[]).ok().map(|set| set.keys[0].algorithms.clone())
    }

    #[test]
    fn a_key_is_used_with_the_algorithms_of_its_type_and_its_own_word() {
        let rsa = json!({"kty": "RSA", "kid": "a", "n": "AQAB", "e": "AQAB"});
        assert_eq!(read(&rsa).unwrap(), RSA);
        let with = |name: &str, value: Value| {
            let mut key = rsa.clone();
            key[name] = value;
            read(&key)
        };
        assert_eq!(with("alg", json!("PS384")).unwrap(), [Algorithm::PS384]);
        assert_eq!(with("use", json!("sig")).unwrap(), RSA);
        assert_eq!(with("key_ops", json!(["verify"])).unwrap(), RSA);
        for (name, value) in [
            ("use", json!("enc")),
            ("use", json!(1)),
            ("alg", json!("RSA-OAEP")),
            ("alg", json!("HS256")),
            ("alg", json!("none")),
            ("alg", json!(null)),
            ("key_ops", json!(["encrypt"])),
            ("key_ops", json!("verify")),
            ("kid", json!(5)),
        ] {
            assert_eq!(with(name, value.clone()), None, "{name} {value}");
        }
    }

    #[test]
    fn curves_are_pinned_and_symmetric_keys_are_ignored() {
        let point = |curve: &str| json!({"kty": "EC", "crv": curve, "x": "AQAB", "y": "AQAB"});
        assert_eq!(read(&point("P-256")).unwrap(), [Algorithm::ES256]);
        assert_eq!(read(&point("P-384")).unwrap(), [Algorithm::ES384]);
        assert_eq!(read(&json!({"kty": "OKP", "crv": "Ed25519", "x": "AQAB"})).unwrap(), [Algorithm::EdDSA]);
        for key in [
            point("P-521"),
            point("secp256k1"),
            json!({"kty": "EC", "x": "AQAB", "y": "AQAB"}),
            json!({"kty": "OKP", "crv": "X25519", "x": "AQAB"}),
            json!({"kty": "oct", "k": "AQABAQABAQABAQABAQABAQABAQABAQABAQABAQABAQAB"}),
            json!({"kty": "oct", "k": "AQAB", "alg": "HS256"}),
            json!({"kty": "RSA", "n": "not base64!", "e": "AQAB"}),
            json!("key"),
        ] {
            assert_eq!(read(&key), None, "{key}");
        }
    }

    #[test]
    fn a_key_is_found_by_its_name_and_algorithm() {
        let rsa = |kid: Value, alg: &str| json!({"kty": "RSA", "kid": kid, "alg": alg, "n": "AQAB", "e": "AQAB"});
        let mut unnamed = rsa(json!(""), "RS512");
        unnamed.as_object_mut().unwrap().remove("kid");
        let document =
            json!({"keys": [rsa(json!("a"), "RS256"), rsa(json!("a"), "PS256"), rsa(json!("b"), "RS256"), unnamed]});
        let set = KeySet::from_jwks(document.to_string().as_bytes(), &[]).unwrap();
        assert!(set.find(Some("a"), Algorithm::PS256).is_some());
        assert!(set.find(Some("b"), Algorithm::RS256).is_some());
        assert!(set.find(Some("b"), Algorithm::PS256).is_none());
        assert!(set.find(Some("c"), Algorithm::RS256).is_none() && !set.has(Some("c")));
        assert!(set.find(None, Algorithm::RS256).is_none());
        assert!(set.find(None, Algorithm::RS512).is_some());
        assert!(set.find(Some("a"), Algorithm::HS256).is_none());
        let only = KeySet::from_jwks(document.to_string().as_bytes(), &[Algorithm::PS256]).unwrap();
        assert_eq!(only.keys.len(), 1);
        let secret = KeySet::from_secret(&[7; 32], &[]);
        assert!(secret.find(Some("any"), Algorithm::HS384).is_some() && secret.find(None, Algorithm::RS256).is_none());
    }

    #[test]
    fn a_document_that_is_no_set_is_refused() {
        let read = |text: &str| KeySet::from_jwks(text.as_bytes(), &[]).unwrap_err();
        assert_eq!(read("<html>"), KeySetError::NotJson);
        assert_eq!(read("{}"), KeySetError::NoKeys);
        assert_eq!(read(r#"{"keys": []}"#), KeySetError::NoUsableKey);
    }
}
