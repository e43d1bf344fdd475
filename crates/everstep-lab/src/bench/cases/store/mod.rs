//! The data store: what records cost the database, the nodes of a graph, callers in the process and clients over HTTP.
//!
//! `ops` makes the ops, `fill` fills a namespace, `writers` keeps callers busy; the other files each measure a part of the
//! case.

mod fill;
mod http;
mod idle;
mod latency;
mod limit;
mod nodes;
mod one_key;
mod ops;
mod size;
mod two_nodes;
mod writers;

use crate::bench::args::{Plan, Site};
use crate::bench::figure::Figure;

/// Records in the database of the parts that measure many of them.
const RECORDS: usize = 1_000_000;
const QUICK_RECORDS: usize = 20_000;

/// A part of the case, which can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Part {
    Limit,
    Nodes,
    Latency,
    OneKey,
    Http,
    Size,
    /// On a database that nodes can share.
    TwoNodes,
    Idle,
    /// One of the nodes of [`Self::TwoNodes`], in a separate process: alone, or one of two.
    OneNode,
    HalfNode,
    /// The process that [`Self::Idle`] measures.
    IdleNode,
}

impl Part {
    pub(in crate::bench) const ALL: [Self; 8] =
        [Self::Limit, Self::Nodes, Self::Latency, Self::OneKey, Self::Http, Self::Size, Self::TwoNodes, Self::Idle];
    /// Parts that other parts measure in separate processes.
    pub(in crate::bench) const CHILDREN: [Self; 3] = [Self::OneNode, Self::HalfNode, Self::IdleNode];

    pub(in crate::bench) fn name(self) -> &'static str {
        match self {
            Self::Limit => "store-limit",
            Self::Nodes => "store-nodes",
            Self::Latency => "store-latency",
            Self::OneKey => "store-one-key",
            Self::Http => "store-http",
            Self::Size => "store-size",
            Self::TwoNodes => "store-two-nodes",
            Self::Idle => "store-idle",
            Self::OneNode => "store-one-node",
            Self::HalfNode => "store-half-node",
            Self::IdleNode => "store-idle-node",
        }
    }

    /// The parts that can be measured on a database.
    pub(in crate::bench) fn all_on(site: &Site) -> impl Iterator<Item = Self> {
        let is_shared = matches!(site, Site::Postgres(_));
        Self::ALL.into_iter().filter(move |part| is_shared || *part != Self::TwoNodes)
    }

    pub(in crate::bench) async fn measure(self, plan: &Plan) -> anyhow::Result<Vec<Figure>> {
        let name = self.name();
        match self {
            Self::Limit => limit::measure(plan, name).await,
            Self::Nodes => nodes::measure(plan, name).await,
            Self::Latency => latency::measure(plan, name).await,
            Self::OneKey => one_key::measure(plan, name).await,
            Self::Http => http::measure(plan, name).await,
            Self::Size => size::measure(plan, name).await,
            Self::TwoNodes => two_nodes::measure(plan, name).await,
            Self::Idle => idle::measure(plan, name).await,
            Self::OneNode | Self::HalfNode => two_nodes::measure_node(plan, self).await,
            Self::IdleNode => idle::measure_node(plan, name).await,
        }
    }
}
