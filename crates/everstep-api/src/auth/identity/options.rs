//! The settings of the identity provider.

use std::path::PathBuf;

use everstep_net::Url;
pub use jsonwebtoken::Algorithm as JwtAlgorithm;
use jsonwebtoken::AlgorithmFamily;
use zeroize::Zeroizing;

use crate::auth::identity::RoleMap;

/// A secret that tokens are signed with has at least this many bytes.
const SECRET_BYTES_MIN: usize = 32;

/// The identity provider of a server, and the meaning of the claims in its tokens.
#[derive(Clone, Debug)]
pub struct IdentityOptions {
    /// The `iss` of its tokens.
    pub issuer: String,
    /// The `aud` of tokens for this server; one of them is enough.
    pub audience: Vec<String>,
    pub keys: KeySource,
    /// The algorithms that are accepted; empty for all that fit the keys.
    pub algorithms: Vec<JwtAlgorithm>,
    pub workspace: WorkspaceSource,
    pub claims: ClaimNames,
    pub roles: RoleMap,
}

/// The source of a provider's keys.
#[derive(Clone)]
pub enum KeySource {
    /// A secret that the provider and this server share.
    Secret(Zeroizing<Vec<u8>>),
    /// A JSON Web Key Set that the provider serves.
    Url(Url),
    /// A JSON Web Key Set in a file, which is read again every five minutes.
    File(PathBuf),
}

impl KeySource {
    /// Uses the bytes of a text as the secret.
    pub fn from_secret(secret: String) -> Self {
        Self::Secret(Zeroizing::new(secret.into_bytes()))
    }
}

/// The source of a person's workspace.
#[derive(Clone, Debug)]
pub enum WorkspaceSource {
    /// All people belong to the workspace with this name.
    Name(String),
    /// A claim of the token names the workspace.
    Claim(String),
}

/// The claims that describe a person.
#[derive(Clone, Debug)]
pub struct ClaimNames {
    pub user: String,
    pub name: String,
    pub email: String,
    pub roles: String,
    pub permissions: String,
}

impl Default for ClaimNames {
    fn default() -> Self {
        let [user, name, email, roles, permissions] =
            ["sub", "name", "email", "roles", "permissions"].map(str::to_owned);
        Self { user, name, email, roles, permissions }
    }
}

impl IdentityOptions {
    /// The first error in the options, as a sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.issuer.is_empty() || self.audience.is_empty() || self.audience.iter().any(String::is_empty) {
            return Err("an identity provider needs an issuer and an audience".to_owned());
        }
        if let KeySource::Secret(secret) = &self.keys
            && secret.len() < SECRET_BYTES_MIN
        {
            return Err(format!("the secret must have at least {SECRET_BYTES_MIN} bytes, not {}", secret.len()));
        }
        let is_secret = matches!(self.keys, KeySource::Secret(_));
        match self.algorithms.iter().find(|algorithm| (algorithm.family() == AlgorithmFamily::Hmac) != is_secret) {
            Some(algorithm) if is_secret => {
                Err(format!("{algorithm:?} needs a public key; a secret supports HS256, HS384 and HS512"))
            }
            Some(algorithm) => Err(format!("{algorithm:?} needs a secret, and is not supported with public keys")),
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Secret(_) => f.write_str("Secret(…)"),
            Self::Url(url) => f.debug_tuple("Url").field(&url.as_str()).finish(),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(keys: KeySource, algorithms: &[JwtAlgorithm]) -> IdentityOptions {
        IdentityOptions {
            issuer: "https://issuer.example".to_owned(),
            audience: vec!["everstep".to_owned()],
            keys,
            algorithms: algorithms.to_vec(),
            workspace: WorkspaceSource::Name("default".to_owned()),
            claims: ClaimNames::default(),
            roles: RoleMap::default(),
        }
    }

    #[test]
    fn algorithms_fit_the_keys() {
        let secret = || KeySource::Secret(Zeroizing::new(vec![7; 32]));
        let url = || KeySource::Url("https://issuer.example/jwks".parse().unwrap());
        assert_eq!(options(secret(), &[]).check(), Ok(()));
        assert_eq!(options(secret(), &[JwtAlgorithm::HS512]).check(), Ok(()));
        assert_eq!(options(url(), &[JwtAlgorithm::RS256, JwtAlgorithm::EdDSA]).check(), Ok(()));
        assert!(options(secret(), &[JwtAlgorithm::RS256]).check().unwrap_err().contains("RS256"));
        assert!(options(url(), &[JwtAlgorithm::ES256, JwtAlgorithm::HS256]).check().unwrap_err().contains("HS256"));
        let short = KeySource::Secret(Zeroizing::new(vec![7; 31]));
        assert!(options(short, &[]).check().unwrap_err().contains("31"));
        assert!(IdentityOptions { audience: vec![], ..options(url(), &[]) }.check().is_err());
        assert!(!format!("{:?}", secret()).contains('7'));
    }
}
