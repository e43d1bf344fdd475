//! The identity provider of a server: from a token to a person in a workspace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_net::Client;
use everstep_store::AccessStore;
use sha2::{Digest, Sha256};

use crate::auth::Permission;
use crate::auth::identity::crypto;
use crate::auth::identity::key_source::{NoKeysError, ProviderKeys};
use crate::auth::identity::person::{Person, find};
use crate::auth::identity::token::{self, TokenFault};
use crate::auth::identity::{IdentityOptions, WorkspaceSource};

/// A verified token is verified again after this time, so that a key that the provider withdraws stops working.
const TOKEN_TTL: Duration = Duration::from_secs(30);
/// Verified tokens in the cache.
const CACHED_TOKENS_MAX: usize = 10_000;

/// Verifies tokens of the one identity provider of a server.
pub struct IdentityProvider {
    options: IdentityOptions,
    keys: ProviderKeys,
    store: Arc<dyn AccessStore>,
    /// Verified tokens by their hash, with the time at which they were verified.
    cache: Mutex<HashMap<[u8; 32], (Timestamp, VerifiedPerson)>>,
}

/// The holder of a verified token.
#[derive(Clone, Debug)]
pub(crate) struct VerifiedPerson {
    pub(crate) person: Arc<Person>,
    pub(crate) workspace: WorkspaceId,
    pub(crate) permissions: Arc<[Permission]>,
    pub(crate) expires_at: Timestamp,
}

/// Why a token is not accepted.
#[derive(Debug)]
pub(crate) enum TokenError {
    Fault(TokenFault),
    /// The keys of the provider are not known, so the token may be valid.
    NoKeys,
    Store(everstep_store::Error),
}

impl From<TokenFault> for TokenError {
    fn from(fault: TokenFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<NoKeysError> for TokenError {
    fn from(NoKeysError: NoKeysError) -> Self {
        Self::NoKeys
    }
}

impl From<everstep_store::Error> for TokenError {
    fn from(error: everstep_store::Error) -> Self {
        Self::Store(error)
    }
}

impl IdentityProvider {
    /// A provider with options that were checked. `client` reads its keys.
    pub fn new(options: IdentityOptions, client: Client, store: Arc<dyn AccessStore>) -> Self {
        crypto::install();
        let keys = ProviderKeys::new(&options, client);
        Self { options, keys, store, cache: Mutex::default() }
    }

    /// The person who holds a token.
    pub(crate) async fn verify(&self, token: &str, now: Timestamp) -> Result<VerifiedPerson, TokenError> {
        let header = token::read_header(token)?;
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(verified) = self.remembered(&hash, now) {
            token::check_time(verified.expires_at, now)?;
            return Ok(verified);
        }
        let keys = self.keys.find(header.kid.as_deref(), now).await?;
        let verified = token::verify(token, &header, &keys, &self.options, now)?;
        let options = &self.options;
        let wanted = match &options.workspace {
            WorkspaceSource::Name(name) => name.as_str(),
            WorkspaceSource::Claim(claim) => {
                find(&verified.claims, claim).and_then(serde_json::Value::as_str).ok_or(TokenFault::Workspace)?
            }
        };
        let rows = self.store.workspaces().await?;
        let row = rows.into_iter().find(|row| row.name == wanted).ok_or(TokenFault::Workspace)?;
        let roles = options.roles.for_workspace(row.options.value());
        let person = Person::from_claims(&options.issuer, &verified.claims, &options.claims, &roles)?;
        let permissions = roles.permissions(&person.words).into();
        let person = VerifiedPerson {
            person: Arc::new(person),
            workspace: row.id,
            permissions,
            expires_at: verified.expires_at,
        };
        self.remember(hash, now, person.clone());
        Ok(person)
    }

    fn remembered(&self, hash: &[u8; 32], now: Timestamp) -> Option<VerifiedPerson> {
        let cache = self.cache();
        let (verified_at, person) = cache.get(hash)?;
        (now.since(*verified_at) < TOKEN_TTL).then(|| person.clone())
    }

    fn remember(&self, hash: [u8; 32], now: Timestamp, person: VerifiedPerson) {
        let mut cache = self.cache();
        if cache.len() >= CACHED_TOKENS_MAX {
            cache.retain(|_, (verified_at, _)| now.since(*verified_at) < TOKEN_TTL);
        }
        if cache.len() < CACHED_TOKENS_MAX {
            cache.insert(hash, (now, person));
        }
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], (Timestamp, VerifiedPerson)>> {
        self.cache.lock().expect("no holder of the lock panics")
    }
}
