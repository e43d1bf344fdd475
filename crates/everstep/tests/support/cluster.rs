//! Several servers on one PostgreSQL database.

use everstep_testkit::postgres::{Cluster, TestDatabase};

use super::{Client, Folder, Server};

/// A database, a data folder for its nodes, and their common settings.
pub(crate) struct Site<'a> {
    pub(crate) database: TestDatabase<'a>,
    pub(crate) folder: Folder,
    settings: Vec<(String, String)>,
}

impl Site<'static> {
    /// On the server that all tests of a process share.
    pub(crate) fn new() -> Self {
        Self::on(Cluster::shared())
    }
}

impl<'a> Site<'a> {
    pub(crate) fn on(cluster: &'a Cluster) -> Self {
        Self { database: cluster.database(), folder: Folder::new(), settings: Vec::new() }
    }

    /// A setting for all nodes that are started from now on, such as `EVERSTEP_NODE_LEASE`.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The folder with the first key.
    pub(crate) fn data(&self) -> String {
        self.folder.at("data")
    }

    /// Starts a node and waits until it is ready.
    pub(crate) fn start(&self) -> Server {
        self.start_with(&[])
    }

    pub(crate) fn start_with(&self, args: &[&str]) -> Server {
        self.start_at(&self.database.url(), args)
    }

    /// Starts a node that reaches the database by another URL: through a proxy, or a pooler.
    pub(crate) fn start_at(&self, url: &str, args: &[&str]) -> Server {
        let data = self.data();
        let args = [&["--data", &data], args].concat();
        let mut settings: Vec<_> = self.settings.iter().map(|(name, value)| (&**name, &**value)).collect();
        settings.push(("EVERSTEP_DATABASE_URL", url));
        Server::with(&args, &settings)
    }

    /// Two nodes, each with a client.
    pub(crate) fn start_two(&self) -> ((Server, Client), (Server, Client)) {
        let (one, two) = (self.start(), self.start());
        let clients = (one.client(), two.client());
        ((one, clients.0), (two, clients.1))
    }
}
