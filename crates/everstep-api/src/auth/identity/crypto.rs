//! Verifies signatures with `ring`, which TLS uses too.
//!
//! `jsonwebtoken` has no cryptography of its own here: it takes a provider for the whole process, and panics if there is
//! none. This provider verifies and never signs.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use ring::{error::Unspecified, hmac};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(refuse("this process does not sign tokens")),
    verifier_factory: |algorithm, key| {
        let verifier = RingVerifier { algorithm: *algorithm, key: key.clone() };
        if algorithm.family() != key.family() {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        Ok(Box::new(verifier))
    },
    key_utils: KeyUtils {
        rsa_pub_components_from_private_key: |_| Err(refuse("keys are not converted")),
        rsa_pub_components_from_public_key: |_| Err(refuse("keys are not converted")),
        ec_pub_components_from_private_key: |_, _| Err(refuse("keys are not converted")),
        ed_pub_components_from_private_key: |_, _| Err(refuse("keys are not converted")),
        compute_digest: |_, _| Err(refuse("thumbprints are not computed")),
    },
};

/// Makes `jsonwebtoken` use this provider. A second call changes nothing.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

fn refuse(message: &str) -> Error {
    ErrorKind::Provider(message.to_owned()).into()
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        verify(self.algorithm, &self.key, message, signature).map_err(|Unspecified| signature::Error::new())
    }
}

fn verify(algorithm: Algorithm, key: &DecodingKey, message: &[u8], signature: &[u8]) -> Result<(), Unspecified> {
    match (algorithm.family(), key.kind()) {
        (AlgorithmFamily::Hmac, DecodingKeyKind::SecretOrDer(secret)) => {
            let hash = match algorithm {
                Algorithm::HS256 => hmac::HMAC_SHA256,
                Algorithm::HS384 => hmac::HMAC_SHA384,
                Algorithm::HS512 => hmac::HMAC_SHA512,
                _ => return Err(Unspecified),
            };
            hmac::verify(&hmac::Key::new(hash, secret), message, signature)
        }
        (AlgorithmFamily::Rsa, DecodingKeyKind::RsaModulusExponent { n, e }) => {
            let parameters: &RsaParameters = match algorithm {
                Algorithm::RS256 => &RSA_PKCS1_2048_8192_SHA256,
                Algorithm::RS384 => &RSA_PKCS1_2048_8192_SHA384,
                Algorithm::RS512 => &RSA_PKCS1_2048_8192_SHA512,
                Algorithm::PS256 => &RSA_PSS_2048_8192_SHA256,
                Algorithm::PS384 => &RSA_PSS_2048_8192_SHA384,
                Algorithm::PS512 => &RSA_PSS_2048_8192_SHA512,
                _ => return Err(Unspecified),
            };
            RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
        }
        (AlgorithmFamily::Ec | AlgorithmFamily::Ed, DecodingKeyKind::SecretOrDer(point)) => {
            let verification: &'static dyn VerificationAlgorithm = match algorithm {
                Algorithm::ES256 => &ECDSA_P256_SHA256_FIXED,
                Algorithm::ES384 => &ECDSA_P384_SHA384_FIXED,
                Algorithm::EdDSA => &ED25519,
                _ => return Err(Unspecified),
            };
            UnparsedPublicKey::new(verification, point).verify(message, signature)
        }
        _ => Err(Unspecified),
    }
}
