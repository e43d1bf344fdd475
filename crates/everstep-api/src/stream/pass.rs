//! The permission of a follower. It is checked again while the stream lasts.

use std::time::Duration;

use crate::auth::{Caller, Permission};
use crate::server::AppState;

/// The period of the check. Callers are cached for three seconds, so a revoked key ends its streams within five.
pub(crate) const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Whether a key is still valid, including the key of a ticket: a stream outlives the ticket that opened it. If the
/// database does not reply, the key stays valid.
pub(crate) async fn holds(app: &AppState, caller: &Caller) -> bool {
    match app.keys.find_again(caller, app.engine.world().clock.now()).await {
        Ok(now) => now.is_some_and(|now| now.may(Permission::View) == caller.may(Permission::View)),
        Err(_) => true,
    }
}
