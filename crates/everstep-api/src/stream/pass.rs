//! By what right somebody follows. It is looked at again while the stream lasts.

use std::time::Duration;

use crate::auth::{Caller, Permission};
use crate::server::AppState;

/// How often the right is looked at. The holders of keys are remembered for three seconds, so that a key that was
/// revoked ends its streams within five.
pub(crate) const KEY_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Whether a key is as good as it was; that of a ticket, too: a stream outlives the ticket that opened it.
/// A database that does not answer takes no right away.
pub(crate) async fn holds(app: &AppState, caller: &Caller) -> bool {
    match app.keys.find_again(caller, app.engine.world().clock.now()).await {
        Ok(now) => now.is_some_and(|now| now.may(Permission::View) == caller.may(Permission::View)),
        Err(_) => true,
    }
}
