//! By what right somebody follows. It is looked at again while the stream lasts.

use std::time::Duration;

use axum::http::HeaderMap;

use crate::auth::{self, Caller, Permission, Secret};
use crate::problem::Problem;
use crate::server::Served;

/// How often the right is looked at. The holders of keys are remembered for three seconds, so that a key that was
/// revoked ends its streams within five.
pub(crate) const LOOKED_AT: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(crate) struct Pass {
    pub(crate) caller: Caller,
    secret: Secret,
}

impl Pass {
    /// The pass of whoever sent these headers; none when they hold no key.
    pub(crate) async fn of_headers(served: &Served, headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        match auth::given(headers)? {
            Some(key) => Self::of_key(served, key).await.map(Some),
            None => Ok(None),
        }
    }

    pub(crate) async fn of_key(served: &Served, key: &str) -> Result<Self, Problem> {
        let (caller, secret) = auth::by_key(served, key).await?;
        Ok(Self { caller, secret })
    }

    /// Whether the key is as good as it was. A database that does not answer takes no right away.
    pub(crate) async fn holds(&self, served: &Served) -> bool {
        match served.keys.find(&self.secret).await {
            Ok(caller) => {
                caller.is_some_and(|caller| caller.may(Permission::View) == self.caller.may(Permission::View))
            }
            Err(_) => true,
        }
    }
}
