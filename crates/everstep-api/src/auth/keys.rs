//! Finds the holder of a key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everstep_core::time::Timestamp;
use everstep_store::AccessStore;
use tokio::sync::OnceCell;

use crate::auth::ApiKey;
use crate::auth::caller::{Caller, KeyHolder, Principal};
use crate::auth::rate::{Excess, RateLimiter, Requester};
use crate::auth::sign_in_code::{CODE_LIFETIME, SignInCode};
use crate::auth::ticket::{self, Ticket, TicketHolder, TicketKey};
use crate::id;

/// A cached caller is reread after this time, so that a revoked key stops working.
const CACHE_TTL: Duration = Duration::from_secs(3);
/// Callers in the cache.
const CACHED_CALLERS_MAX: usize = 10_000;
/// The default rate limit of a key, in requests per second.
pub const RATE_LIMIT_DEFAULT: u32 = 1_000;

/// The recently used keys of a database.
pub struct Keys {
    store: Arc<dyn AccessStore>,
    cache: Mutex<HashMap<[u8; 32], (Instant, Caller)>>,
    tickets: OnceCell<TicketKey>,
    limiter: RateLimiter,
    /// Held while the keys of a workspace are counted and one of them is revoked.
    pub(crate) revoking: tokio::sync::Mutex<()>,
}

impl Keys {
    /// Keys without their own limit may send `rate_limit` requests per second; 0 for no limit.
    pub fn new(store: Arc<dyn AccessStore>, rate_limit: u32) -> Self {
        Self {
            store,
            cache: Mutex::default(),
            tickets: OnceCell::new(),
            limiter: RateLimiter::new(rate_limit),
            revoking: Default::default(),
        }
    }

    /// The keys and people of a workspace may send this many requests per second together; 0 for no limit. The default
    /// is four times the limit of a key.
    pub fn with_workspace_rate(mut self, rate_limit: u32) -> Self {
        self.limiter.set_workspace_rate(rate_limit);
        self
    }

    /// The holder of a key, unless it was revoked, has expired or never existed.
    pub(crate) async fn find(&self, secret: &ApiKey, now: Timestamp) -> everstep_store::Result<Option<Caller>> {
        self.find_holder(secret.hash(), now).await
    }

    /// The same caller with its present permissions; none if the key was revoked, or the key or the token has expired.
    pub(crate) async fn find_again(&self, caller: &Caller, now: Timestamp) -> everstep_store::Result<Option<Caller>> {
        match &caller.principal {
            Principal::Key(holder) => self.find_holder(holder.hash, now).await,
            Principal::Person(_) => Ok((!caller.has_expired(now)).then(|| caller.clone())),
        }
    }

    /// The caller that created a ticket, while the ticket and the key are valid.
    pub(crate) async fn find_ticket(&self, ticket: &Ticket, now: Timestamp) -> everstep_store::Result<Option<Caller>> {
        if ticket.ends_at <= now || !self.ticket_key().await?.has_signed(ticket) {
            return Ok(None);
        }
        let caller = match &ticket.holder {
            TicketHolder::Key(hash) => self.find_holder(*hash, now).await?,
            TicketHolder::Person(ticket) => ticket.caller().filter(|caller| !caller.has_expired(now)),
        };
        Ok(caller.map(|caller| Caller { is_ticket: true, ..caller }))
    }

    /// Creates a ticket for a caller. It expires after a minute, or with the key or the token if that is earlier.
    pub(crate) async fn make_ticket(&self, caller: &Caller, now: Timestamp) -> everstep_store::Result<Ticket> {
        let end = now.plus(ticket::TICKET_LIFETIME);
        let end = caller.expires_at.map_or(end, |expiry| expiry.min(end));
        let holder = TicketHolder::from_caller(caller);
        Ok(self.ticket_key().await?.sign(holder, end))
    }

    /// Creates the code of a one-time link for the holder of a key. It expires after a minute, or with the key.
    pub(crate) async fn make_code(
        &self,
        caller: &Caller,
        holder: &KeyHolder,
        now: Timestamp,
    ) -> everstep_store::Result<SignInCode> {
        let end = now.plus(CODE_LIFETIME);
        let end = caller.expires_at.map_or(end, |expiry| expiry.min(end));
        Ok(SignInCode::sign(self.ticket_key().await?, id::new_id(now), holder.hash, end))
    }

    /// The caller that made a code, while the code and the key are valid. The key is read from the database: a code
    /// outlives no revocation.
    pub(crate) async fn find_maker(&self, code: &SignInCode, now: Timestamp) -> everstep_store::Result<Option<Caller>> {
        if code.ends_at <= now || !code.is_signed_by(self.ticket_key().await?) {
            return Ok(None);
        }
        self.forget(&code.maker);
        self.find_holder(code.maker, now).await
    }

    /// Whether a key with this limit may send no more than the server's default limit.
    pub(crate) fn is_within_default(&self, rate_limit: Option<u32>) -> bool {
        self.limiter.is_within(rate_limit)
    }

    /// Counts one request.
    pub(crate) fn count(&self, caller: &Caller) -> Result<(), Excess> {
        let (id, workspace, own_rate) = (caller.number(), caller.workspace.uuid(), caller.rate_limit());
        self.limiter.count_request(Requester { id, workspace, own_rate }, Instant::now())
    }

    /// Removes a key that was revoked here from the cache at once.
    pub(crate) fn forget(&self, hash: &[u8; 32]) {
        self.cache().remove(hash);
    }

    async fn ticket_key(&self) -> everstep_store::Result<&TicketKey> {
        self.tickets.get_or_try_init(|| TicketKey::from_store(&*self.store)).await
    }

    async fn find_holder(&self, hash: [u8; 32], now: Timestamp) -> everstep_store::Result<Option<Caller>> {
        let remembered = self.cache().get(&hash).filter(|(read_at, _)| read_at.elapsed() < CACHE_TTL).cloned();
        if let Some((_, caller)) = remembered {
            return Ok((!caller.has_expired(now)).then_some(caller));
        }
        let asked_at = Instant::now();
        let caller = self.store.find_key(&hash).await?.map(Caller::from_row).filter(|caller| !caller.has_expired(now));
        let mut cache = self.cache();
        match &caller {
            Some(caller) => {
                if cache.len() >= CACHED_CALLERS_MAX {
                    cache.retain(|_, (read_at, _)| read_at.elapsed() < CACHE_TTL);
                }
                if cache.len() < CACHED_CALLERS_MAX {
                    cache.insert(hash, (asked_at, caller.clone()));
                }
            }
            None => _ = cache.remove(&hash),
        }
        drop(cache);
        Ok(caller)
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], (Instant, Caller)>> {
        self.cache.lock().expect("no holder of the lock panics")
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::ids::WorkspaceId;
    use everstep_store::{KeyRow, sqlite};

    use super::*;
    use crate::auth::Permission;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn later(seconds: u64) -> Timestamp {
        NOW.plus(Duration::from_secs(seconds))
    }

    async fn add(store: &dyn AccessStore, change: impl FnOnce(KeyRow) -> KeyRow) -> (ApiKey, KeyRow) {
        let secret = ApiKey::generate();
        let row = change(secret.row(WorkspaceId::DEFAULT, "test", &[Permission::View], NOW));
        store.add_key(&row).await.unwrap();
        (secret, row)
    }

    #[tokio::test]
    async fn a_ticket_is_taken_by_every_node_until_it_ends() {
        let folder = tempfile::tempdir().unwrap();
        let store = sqlite::open(folder.path(), &Default::default()).unwrap().access;
        let (one, two) = (Keys::new(Arc::clone(&store), 0), Keys::new(Arc::clone(&store), 0));
        let (secret, row) = add(&*store, |row| row).await;
        let caller = one.find(&secret, NOW).await.unwrap().unwrap();
        let ticket = one.make_ticket(&caller, NOW).await.unwrap().reveal().parse().unwrap();
        for keys in [&one, &two] {
            let found = keys.find_ticket(&ticket, later(59)).await.unwrap().unwrap();
            assert_eq!((found.number(), found.is_ticket, found.may(Permission::View)), (row.id, true, true));
            assert!(!found.may(Permission::Manage));
            assert!(keys.find_ticket(&ticket, later(60)).await.unwrap().is_none());
        }
        // Another database has another secret.
        let folder = tempfile::tempdir().unwrap();
        let store = sqlite::open(folder.path(), &Default::default()).unwrap().access;
        store.add_key(&row).await.unwrap();
        assert!(Keys::new(store, 0).find_ticket(&ticket, NOW).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_ticket_ends_with_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let store = sqlite::open(folder.path(), &Default::default()).unwrap().access;
        let keys = Keys::new(Arc::clone(&store), 0);
        let (secret, row) = add(&*store, |row| row).await;
        let caller = keys.find(&secret, NOW).await.unwrap().unwrap();
        let ticket = keys.make_ticket(&caller, NOW).await.unwrap();
        store.revoke_key(WorkspaceId::DEFAULT, row.id, NOW).await.unwrap();
        keys.forget(&row.hash);
        assert!(keys.find_ticket(&ticket, later(1)).await.unwrap().is_none());

        let (secret, _) = add(&*store, |row| KeyRow { expires_at: Some(later(10)), ..row }).await;
        let caller = keys.find(&secret, NOW).await.unwrap().unwrap();
        let ticket = keys.make_ticket(&caller, NOW).await.unwrap();
        assert_eq!(ticket.ends_at, later(10));
        assert!(keys.find_ticket(&ticket, later(9)).await.unwrap().is_some());
        assert!(keys.find_ticket(&ticket, later(10)).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_key_expires_also_while_it_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let store = sqlite::open(folder.path(), &Default::default()).unwrap().access;
        let keys = Keys::new(Arc::clone(&store), 0);
        let (secret, _) = add(&*store, |row| KeyRow { expires_at: Some(later(1)), ..row }).await;
        assert!(keys.find(&secret, NOW).await.unwrap().is_some());
        assert!(keys.find(&secret, later(1)).await.unwrap().is_none());
        assert!(keys.find(&secret, NOW).await.unwrap().is_some());
    }
}
