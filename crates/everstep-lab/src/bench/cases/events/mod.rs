//! Published events: what a publish costs, and how fast it reaches waits and subscriptions.
//!
//! `stage` has an engine whose items are observed, and `waits` opens the waits; the other files each measure a part of
//! the case.

mod http;
mod publish;
mod shapes;
mod size;
mod stage;
mod start;
mod subscriptions;
mod wait;
mod waits;
mod waits_at_once;

use crate::bench::args::Plan;
use crate::bench::figure::Figure;

/// A part of the case, which can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Part {
    Wait,
    Size,
    Shapes,
    Publish,
    Subscriptions,
    WaitsAtOnce,
    Start,
    Http,
}

impl Part {
    pub(in crate::bench) const ALL: [Self; 8] = [
        Self::Wait,
        Self::Size,
        Self::Shapes,
        Self::Publish,
        Self::Subscriptions,
        Self::WaitsAtOnce,
        Self::Start,
        Self::Http,
    ];

    pub(in crate::bench) fn name(self) -> &'static str {
        match self {
            Self::Wait => "events-wait",
            Self::Size => "events-size",
            Self::Shapes => "events-shapes",
            Self::Publish => "events-publish",
            Self::Subscriptions => "events-subscriptions",
            Self::WaitsAtOnce => "events-waits",
            Self::Start => "events-start",
            Self::Http => "events-http",
        }
    }

    pub(in crate::bench) async fn measure(self, plan: &Plan) -> anyhow::Result<Vec<Figure>> {
        let name = self.name();
        match self {
            Self::Wait => wait::measure(plan, name).await,
            Self::Size => size::measure(plan, name).await,
            Self::Shapes => shapes::measure(plan, name).await,
            Self::Publish => publish::measure(plan, name).await,
            Self::Subscriptions => subscriptions::measure(plan, name).await,
            Self::WaitsAtOnce => waits_at_once::measure(plan, name).await,
            Self::Start => start::measure(plan, name).await,
            Self::Http => http::measure(plan, name).await,
        }
    }
}

/// A number of rows or requests; a quick measurement has fewer.
fn count(plan: &Plan, usual: usize, quick: usize) -> usize {
    if plan.is_quick { quick } else { usual }
}
