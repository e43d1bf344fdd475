//! Keys that sign tokens.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use ring::{hmac, rand::SecureRandom};
use serde_json::{Value, json};

/// `ring` cannot make RSA pairs, so two of them are test data. They protect nothing.
const RSA_PAIRS: [&str; 2] = [include_str!("rsa_1.pem"), include_str!("rsa_2.pem")];

/// A key of an identity provider.
pub struct SigningKey {
    kid: String,
    pair: Pair,
}

enum Pair {
    Ed25519(Box<Ed25519KeyPair>),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
    Secret(Vec<u8>),
}

impl SigningKey {
    pub fn ed25519(kid: &str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a pair can be made");
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a pair that was made can be read");
        Self { kid: kid.to_owned(), pair: Pair::Ed25519(Box::new(pair)) }
    }

    pub fn p256(kid: &str) -> Self {
        Self { kid: kid.to_owned(), pair: Pair::P256(generate(&ECDSA_P256_SHA256_FIXED_SIGNING)) }
    }

    pub fn p384(kid: &str) -> Self {
        Self { kid: kid.to_owned(), pair: Pair::P384(generate(&ECDSA_P384_SHA384_FIXED_SIGNING)) }
    }

    /// One of the two RSA pairs of the test data.
    pub fn rsa(kid: &str, index: usize) -> Self {
        let text: String = RSA_PAIRS[index].lines().filter(|line| !line.starts_with("-----")).collect();
        let document = STANDARD.decode(text).expect("the test data is base64");
        let pair = RsaKeyPair::from_pkcs8(&document).expect("the test data is a pair");
        Self { kid: kid.to_owned(), pair: Pair::Rsa(Box::new(pair)) }
    }

    /// A secret that is shared with the server.
    pub fn secret(secret: &[u8]) -> Self {
        Self { kid: "secret".to_owned(), pair: Pair::Secret(secret.to_vec()) }
    }

    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The algorithm that it signs with unless a token asks for another.
    pub fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Ed25519(_) => "EdDSA",
            Pair::P256(_) => "ES256",
            Pair::P384(_) => "ES384",
            Pair::Rsa(_) => "RS256",
            Pair::Secret(_) => "HS256",
        }
    }

    /// The public part as a JSON Web Key, without `alg`.
    pub fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let point = |pair: &EcdsaKeyPair, curve: &str| {
            let bytes = pair.public_key().as_ref();
            let (x, y) = bytes[1..].split_at((bytes.len() - 1) / 2);
            json!({"kty": "EC", "crv": curve, "x": text(x), "y": text(y)})
        };
        let mut jwk = match &self.pair {
            Pair::Ed25519(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": text(pair.public_key().as_ref())}),
            Pair::P256(pair) => point(pair, "P-256"),
            Pair::P384(pair) => point(pair, "P-384"),
            Pair::Rsa(pair) => {
                let PublicKeyComponents::<Vec<u8>> { n, e } = pair.public().into();
                json!({"kty": "RSA", "n": text(&n), "e": text(&e)})
            }
            Pair::Secret(secret) => json!({"kty": "oct", "k": text(secret)}),
        };
        jwk["kid"] = json!(self.kid);
        jwk["use"] = json!("sig");
        jwk
    }

    /// The bytes of the public key, which a forger knows too.
    pub fn public_bytes(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Ed25519(pair) => pair.public_key().as_ref().to_vec(),
            Pair::P256(pair) | Pair::P384(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Rsa(pair) => pair.public().as_ref().to_vec(),
            Pair::Secret(secret) => secret.clone(),
        }
    }

    /// A token with these claims, signed with the usual algorithm.
    pub fn token(&self, claims: &Value) -> String {
        self.token_with(&json!({"alg": self.algorithm(), "kid": self.kid, "typ": "JWT"}), claims)
    }

    /// A token with any header. Its `alg` decides how it is signed, if the key can do that.
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        let text = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", text(header), text(claims));
        let algorithm = header["alg"].as_str().unwrap_or_default();
        let signature = self.sign(algorithm, message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Pair::P256(pair) | Pair::P384(pair) => {
                pair.sign(&random, message).expect("a message can be signed").as_ref().to_vec()
            }
            Pair::Rsa(pair) => {
                let encoding: &'static dyn RsaEncoding = match algorithm {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(encoding, &random, message, &mut signature).expect("a message can be signed");
                signature
            }
            Pair::Secret(secret) => {
                let hash = match algorithm {
                    "HS384" => hmac::HMAC_SHA384,
                    "HS512" => hmac::HMAC_SHA512,
                    _ => hmac::HMAC_SHA256,
                };
                hmac::sign(&hmac::Key::new(hash, secret), message).as_ref().to_vec()
            }
        }
    }
}

fn generate(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random: &dyn SecureRandom = &SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(algorithm, random).expect("a pair can be made");
    EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), random).expect("a pair that was made can be read")
}
