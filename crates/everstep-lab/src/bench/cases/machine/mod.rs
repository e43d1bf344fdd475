//! State machines: a server in a separate process, and clients that approve runs over HTTP.
//!
//! `stage` sets it up, `client` sends the requests, `traffic` is many clients, `sink` receives webhooks; the other files
//! each measure a part of the case. Runs of a machine wait in the database between two requests, so every measured
//! request finds its run *parked*, unless a webhook of the run is being sent.

mod client;
mod files;
mod growth;
mod hung;
mod latency;
mod letters;
mod load;
mod race;
mod review;
mod sink;
mod stage;
mod traffic;
mod webhooks;

use super::case::SAMPLES;
use super::server;
use crate::bench::args::Plan;
use crate::bench::figure::Figure;
use crate::bench::report;

/// A part of the case, which can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Part {
    Latency,
    Load,
    Race,
    Review,
    Growth,
    Webhooks,
    Hung,
    Letters,
    Files,
}

impl Part {
    pub(in crate::bench) const ALL: [Self; 9] = [
        Self::Latency,
        Self::Load,
        Self::Race,
        Self::Review,
        Self::Growth,
        Self::Webhooks,
        Self::Hung,
        Self::Letters,
        Self::Files,
    ];

    pub(in crate::bench) fn name(self) -> &'static str {
        match self {
            Self::Latency => "machine-latency",
            Self::Load => "machine-load",
            Self::Race => "machine-race",
            Self::Review => "machine-review",
            Self::Growth => "machine-growth",
            Self::Webhooks => "machine-webhooks",
            Self::Hung => "machine-hung",
            Self::Letters => "machine-letters",
            Self::Files => "machine-files",
        }
    }

    pub(in crate::bench) async fn measure(self, plan: &Plan) -> anyhow::Result<Vec<Figure>> {
        server::find_program()?;
        let name = self.name();
        match self {
            Self::Latency => latency::measure(plan, name).await,
            Self::Load => load::measure(plan, name).await,
            Self::Race => race::measure(plan, name).await,
            Self::Review => review::measure(plan, name).await,
            Self::Growth => growth::measure(plan, name).await,
            Self::Webhooks => webhooks::measure(plan, name).await,
            Self::Hung => hung::measure(plan, name).await,
            Self::Letters => letters::measure(plan, name).await,
            Self::Files => files::measure(plan, name).await,
        }
    }
}

/// The numbers of the samples of a part: a quick measurement takes one. Each is announced.
fn samples(plan: &Plan, part: &'static str) -> impl Iterator<Item = usize> + use<> {
    let samples = if plan.is_quick { 1 } else { SAMPLES };
    (1..=samples).inspect(move |sample| report::tell(&format!("{part}: sample {sample} of {samples}")))
}
