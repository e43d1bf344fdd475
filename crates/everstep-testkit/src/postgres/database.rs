//! A database of one test.

use super::cluster::Cluster;

/// A fresh database. It is dropped with this value, even if connections to it are open.
#[derive(Debug)]
pub struct TestDatabase<'a> {
    cluster: &'a Cluster,
    name: String,
}

impl<'a> TestDatabase<'a> {
    pub(super) fn create(cluster: &'a Cluster, name: String, template: Option<&str>) -> Self {
        let template = template.map(|template| format!(" template {template}")).unwrap_or_default();
        cluster.sql("postgres", &format!("create database {name}{template}"));
        Self { cluster, name }
    }

    /// Its URL, for its owner.
    pub fn url(&self) -> String {
        self.cluster.url(&self.name)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn cluster(&self) -> &'a Cluster {
        self.cluster
    }

    /// Executes statements in it as the administrator. Returns the rows, with `|` between columns.
    pub fn sql(&self, statements: &str) -> Vec<String> {
        self.cluster.sql(&self.name, statements)
    }
}

impl Drop for TestDatabase<'_> {
    fn drop(&mut self) {
        // A failing test may have stopped the server; the test must fail for its own reason.
        let drop = || self.cluster.sql("postgres", &format!("drop database if exists {} with (force)", self.name));
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(drop));
    }
}
