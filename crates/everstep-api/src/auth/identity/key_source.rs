//! Reads the keys of an identity provider, and reads them again.
//!
//! 1. A set is used for five minutes; then it is read again before the next token is verified.
//! 2. A token that names an unknown key causes another reading, at most every 30 seconds, so that a provider can rotate
//!    its keys, and forged names cost the provider nothing.
//! 3. While the provider cannot be read, the last set is used for 24 hours after it was read. The next attempt follows
//!    after 30 seconds, or after a second if there has never been a set.
//! 4. Only one reading is under way at a time; other requests wait for it.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::time::Timestamp;
use everstep_net::{Client, Method, Request, Url};
use jsonwebtoken::Algorithm;

use crate::auth::identity::key_set::{KeySet, KeySetError};
use crate::auth::identity::{IdentityOptions, KeySource};

/// A set of keys is read again after this time.
const KEYS_TTL: Duration = Duration::from_secs(5 * 60);
/// The pause between two readings that an unknown key or a failure causes.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
/// The pause between two attempts if there has never been a set.
const FIRST_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How long a set is used while the provider cannot be read.
const STALE_KEYS_MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a provider may take to answer.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a set of keys.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
const REDIRECTS_MAX: u32 = 3;

/// The keys of a provider, as they were last read.
pub(crate) struct ProviderKeys {
    source: KeySource,
    algorithms: Vec<Algorithm>,
    client: Client,
    state: Mutex<State>,
    /// Held while the keys are read.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    keys: Option<(Timestamp, Arc<KeySet>)>,
    attempted_at: Option<Timestamp>,
}

/// No keys of the provider are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoKeysError;

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("{0}")]
    Net(#[from] everstep_net::Error),
    #[error("the provider answered {0}")]
    Status(u16),
    #[error("{0}")]
    File(#[from] std::io::Error),
    #[error("the document {0}")]
    Keys(#[from] KeySetError),
}

impl ProviderKeys {
    pub(crate) fn new(options: &IdentityOptions, client: Client) -> Self {
        Self {
            source: options.keys.clone(),
            algorithms: options.algorithms.clone(),
            client,
            state: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
        }
    }

    /// The keys with which a token that names the key `kid` is verified. The set may lack it.
    pub(crate) async fn find(&self, kid: Option<&str>, now: Timestamp) -> Result<Arc<KeySet>, NoKeysError> {
        if let KeySource::Secret(secret) = &self.source {
            return Ok(Arc::new(KeySet::from_secret(secret, &self.algorithms)));
        }
        if let Some(keys) = self.usable(kid, now) {
            return keys;
        }
        let _reading = self.reading.lock().await;
        // Another request may have read them in the meantime.
        if let Some(keys) = self.usable(kid, now) {
            return keys;
        }
        self.state().attempted_at = Some(now);
        match self.read().await {
            Ok(keys) => self.state().keys = Some((now, Arc::new(keys))),
            Err(error) => tracing::warn!(%error, "the keys of the identity provider cannot be read"),
        }
        self.current(now)
    }

    /// The keys without a reading; none if they must be read first.
    fn usable(&self, kid: Option<&str>, now: Timestamp) -> Option<Result<Arc<KeySet>, NoKeysError>> {
        let state = self.state();
        let is_within = |begin: Timestamp, span: Duration| now.since(begin) < span;
        match &state.keys {
            Some((read_at, keys)) => {
                let is_known = is_within(*read_at, KEYS_TTL) && keys.has(kid);
                let has_tried = state.attempted_at.is_some_and(|at| is_within(at, RETRY_PAUSE));
                if !is_known && !has_tried {
                    return None;
                }
            }
            None => {
                if !state.attempted_at.is_some_and(|at| is_within(at, FIRST_RETRY_PAUSE)) {
                    return None;
                }
            }
        }
        drop(state);
        Some(self.current(now))
    }

    fn current(&self, now: Timestamp) -> Result<Arc<KeySet>, NoKeysError> {
        match &self.state().keys {
            Some((read_at, keys)) if now.since(*read_at) < STALE_KEYS_MAX_AGE => Ok(Arc::clone(keys)),
            _ => Err(NoKeysError),
        }
    }

    async fn read(&self) -> Result<KeySet, ReadError> {
        let document = match &self.source {
            KeySource::Secret(_) => Vec::new(),
            KeySource::Url(url) => self.fetch(url).await?,
            KeySource::File(path) => read_file(path)?,
        };
        Ok(KeySet::from_jwks(&document, &self.algorithms)?)
    }

    async fn fetch(&self, url: &Url) -> Result<Vec<u8>, ReadError> {
        let request = Request {
            timeout: FETCH_TIMEOUT,
            redirects: REDIRECTS_MAX,
            max_bytes: DOCUMENT_BYTES_MAX,
            ..Request::new(Method::GET, url.clone())
        };
        let response = self.client.send(request).await?;
        if response.status.is_success() { Ok(response.body) } else { Err(ReadError::Status(response.status.as_u16())) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, std::io::Error> {
    let length = std::fs::metadata(path)?.len();
    if length > DOCUMENT_BYTES_MAX as u64 {
        return Err(std::io::Error::other(format!("the file has more than {DOCUMENT_BYTES_MAX} bytes")));
    }
    std::fs::read(path)
}
