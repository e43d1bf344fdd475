//! Resolves names to addresses that may be reached. The connector receives no others, so a name that resolves
//! to another address later cannot bypass the check.

use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::error::Error;
use crate::guard::Guard;

pub(crate) struct Resolver(pub(crate) Arc<Guard>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let host = name.as_str();
            let unresolved = |_| Error::Unresolved(host.to_owned());
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await.map_err(unresolved)?.collect();
            let permitted: Vec<SocketAddr> =
                found.iter().copied().filter(|address| guard.permits(address.ip())).collect();
            if found.is_empty() {
                return Err(Error::Unresolved(host.to_owned()).into());
            }
            if permitted.is_empty() {
                tracing::info!(host, addresses = ?found, "blocked a name that resolves to a private address");
                return Err(Error::Refused { host: host.to_owned() }.into());
            }
            Ok(Box::new(permitted.into_iter()) as Addrs)
        })
    }
}
