//! Nodes on one PostgreSQL database, in one process. They reach each other by function calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::run::Reply;
use everstep_engine::{Engine, Error, Hint, Options, Peer, Peers, RunInput, World};
use everstep_handlers::{Ports, Registry};
use everstep_store::postgres;
use everstep_testkit::postgres::TestDatabase;

use crate::support;

pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// Nodes that reach each other by a function call, and the hints that they have sent, each with its receiver.
#[derive(Clone, Default)]
pub(crate) struct Street(pub(crate) Arc<Mutex<BTreeMap<String, Engine>>>, Arc<Mutex<Vec<(String, Hint)>>>);

impl Street {
    pub(crate) fn find(&self, address: &str) -> Option<Engine> {
        self.0.lock().unwrap().get(address).cloned()
    }

    /// The number of times that a node has received a hint.
    pub(crate) fn count(&self, address: &str, hint: Hint) -> usize {
        let hints = self.1.lock().unwrap();
        hints.iter().filter(|(receiver, sent)| receiver == address && *sent == hint).count()
    }
}

#[async_trait]
impl Peers for Street {
    async fn send(&self, peer: &Peer, input: RunInput) -> Result<Reply, Error> {
        match self.find(&peer.address) {
            Some(engine) => engine.receive(input).await,
            None => Err(Error::Unreachable(peer.id)),
        }
    }

    fn hint(&self, peer: &Peer, hint: Hint) {
        if let Some(engine) = self.find(&peer.address) {
            engine.hinted(hint);
            self.1.lock().unwrap().push((peer.address.clone(), hint));
        }
    }
}

/// Joins a database, and the street under a name.
pub(crate) async fn join(database: &TestDatabase<'_>, street: &Street, name: &str) -> Engine {
    let stores = postgres::open(&database.url(), &Default::default()).await.unwrap();
    let world = support::world(stores, Registry::standard(Ports::none()));
    let world = World { peers: Arc::new(street.clone()), ..world };
    let options = Options { node_lease: LEASE, address: Some(name.to_owned()), ..Options::default() };
    let engine = Engine::start(world, options).await.unwrap();
    street.0.lock().unwrap().insert(name.to_owned(), engine.clone());
    engine
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{what}"));
}
