//! The cases by name.

use everstep_testkit::neighbours::Misuse;

use super::{
    code, events, follow, growth, guards, http, idle, latency, lists, machine, neighbours, shape, sleeping, starts,
    stats, store, sweep, throughput, two_nodes,
};
use crate::bench::args::{Plan, Site};
use crate::bench::figure::Figure;
use crate::bench::process;
use crate::bench::shapes::{self, Shape};

/// The number of samples whose median is a figure with a budget.
pub(in crate::bench) const SAMPLES: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(in crate::bench) enum Case {
    Throughput,
    Latency,
    Starts,
    Growth,
    Sleeping,
    Idle,
    Http,
    /// The cost of a follower of the workspace; measured only when it is named.
    Follow,
    /// The cost of the figures of minutes; measured only when it is named.
    Stats,
    /// Runs beside a sweep of many others; measured only when it is named.
    Sweep,
    /// Lists of many runs; measured only when it is named.
    Lists,
    /// Conditions of state machines, without any store; measured only when it is named.
    Guards,
    /// On a database that nodes can share.
    TwoNodes,
    /// One of the nodes of [`Self::TwoNodes`], in a separate process: alone, or one of two.
    OneNode,
    HalfNode,
    Shape(Shape),
    /// A part of `code`, which needs more than this program, and so is measured only if it is named.
    Code(code::Part),
    /// A part of `machine`, which needs the server, and so is measured only if it is named.
    Machine(machine::Part),
    /// A part of `store`, which fills a database; measured only if it is named.
    Store(store::Part),
    /// A part of `events`, which opens many waits; measured only if it is named.
    Events(events::Part),
    /// A misuse of `neighbours`, which needs the server; measured only if it is named.
    Neighbours(Misuse),
}

impl Case {
    const NAMED: [Self; 8] = [
        Self::Throughput,
        Self::Latency,
        Self::Starts,
        Self::Growth,
        Self::Sleeping,
        Self::Idle,
        Self::Http,
        Self::TwoNodes,
    ];

    fn all() -> impl Iterator<Item = Self> {
        Self::NAMED.into_iter().chain(Self::shapes())
    }

    fn shapes() -> impl Iterator<Item = Self> {
        shapes::ALL.iter().copied().map(Self::Shape)
    }

    fn code() -> impl Iterator<Item = Self> {
        code::Part::ALL.into_iter().map(Self::Code)
    }

    fn machine() -> impl Iterator<Item = Self> {
        machine::Part::ALL.into_iter().map(Self::Machine).chain([Self::Guards])
    }

    fn store() -> impl Iterator<Item = Self> {
        store::Part::ALL.into_iter().map(Self::Store)
    }

    fn events() -> impl Iterator<Item = Self> {
        events::Part::ALL.into_iter().map(Self::Events)
    }

    fn neighbours() -> impl Iterator<Item = Self> {
        Misuse::ALL.into_iter().map(Self::Neighbours)
    }

    /// Cases that other cases measure in separate processes.
    fn children() -> impl Iterator<Item = Self> {
        let of_store = store::Part::CHILDREN.into_iter().map(Self::Store);
        [Self::OneNode, Self::HalfNode].into_iter().chain(of_store)
    }

    pub(in crate::bench) fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::Starts => "starts",
            Self::Growth => "growth",
            Self::Sleeping => "sleeping",
            Self::Idle => "idle",
            Self::Http => "http",
            Self::Follow => "follow",
            Self::Stats => "stats",
            Self::Sweep => "sweep",
            Self::Lists => "lists",
            Self::Guards => "guards",
            Self::TwoNodes => "two-nodes",
            Self::OneNode => two_nodes::ONE,
            Self::HalfNode => two_nodes::HALF,
            Self::Shape(shape) => shape.name,
            Self::Code(part) => part.name(),
            Self::Machine(part) => part.name(),
            Self::Store(part) => part.name(),
            Self::Events(part) => part.name(),
            Self::Neighbours(misuse) => misuse.case(),
        }
    }

    pub(in crate::bench) fn find(name: &str) -> anyhow::Result<Self> {
        let public = || {
            let alone = [Self::Follow, Self::Stats, Self::Sweep, Self::Lists].into_iter();
            let named = alone.chain(Self::machine()).chain(Self::code());
            Self::all().chain(named).chain(Self::store()).chain(Self::events()).chain(Self::neighbours())
        };
        let names = || public().map(Self::name).collect::<Vec<_>>().join(", ");
        let found = public().chain(Self::children()).find(|case| case.name() == name);
        found.ok_or_else(|| {
            let names = names();
            anyhow::anyhow!(
                "the case {name:?} does not exist; the cases are shapes, code, machine, store, events, neighbours, \
                 {names}"
            )
        })
    }

    /// The named cases, or all that need only this program. `shapes` is every shape; `code`, `machine`, `store`,
    /// `events` and `neighbours` are every part of those cases.
    pub(in crate::bench) fn find_all(names: &[String], site: &Site) -> anyhow::Result<Vec<Self>> {
        let is_shared = matches!(site, Site::Postgres(_));
        if names.is_empty() {
            return Ok(Self::all().filter(|case| is_shared || !matches!(case, Self::TwoNodes)).collect());
        }
        let of_two = names.iter().find(|name| name.ends_with("two-nodes"));
        anyhow::ensure!(is_shared || of_two.is_none(), "{} needs --server", of_two.map_or("", String::as_str));
        let mut cases = Vec::new();
        for name in names {
            match name.as_str() {
                "shapes" => cases.extend(Self::shapes()),
                "code" => cases.extend(Self::code()),
                "machine" => cases.extend(Self::machine()),
                "events" => cases.extend(Self::events()),
                "neighbours" => cases.extend(Self::neighbours()),
                "store" => cases.extend(store::Part::all_on(site).map(Self::Store)),
                name => cases.push(Self::find(name)?),
            }
        }
        Ok(cases)
    }

    pub(in crate::bench) async fn measure(self, plan: &Plan) -> anyhow::Result<Vec<Figure>> {
        match self {
            Self::Sleeping | Self::Idle => process::measure_in_child(self.name(), plan).await,
            _ => self.measure_here(plan).await,
        }
    }

    /// Measures in this process, whatever it has done before.
    pub(in crate::bench) async fn measure_here(self, plan: &Plan) -> anyhow::Result<Vec<Figure>> {
        match self {
            Self::Throughput => throughput::measure(plan).await,
            Self::Latency => latency::measure(plan).await,
            Self::Starts => starts::measure(plan).await,
            Self::Growth => growth::measure(plan).await,
            Self::Sleeping => sleeping::measure(plan).await,
            Self::Idle => idle::measure(plan).await,
            Self::Http => http::measure(plan).await,
            Self::Follow => follow::measure(plan).await,
            Self::Stats => stats::measure(plan).await,
            Self::Sweep => sweep::measure(plan).await,
            Self::Lists => lists::measure(plan).await,
            Self::Guards => guards::measure(plan),
            Self::TwoNodes => two_nodes::measure(plan).await,
            Self::OneNode | Self::HalfNode => two_nodes::measure_node(self.name(), plan).await,
            Self::Shape(shape) => shape::measure(shape, plan).await,
            Self::Code(part) => part.measure(plan).await,
            Self::Machine(part) => part.measure(plan).await,
            Self::Store(part) => part.measure(plan).await,
            Self::Events(part) => part.measure(plan).await,
            Self::Neighbours(misuse) => neighbours::measure(plan, misuse).await,
        }
    }
}
