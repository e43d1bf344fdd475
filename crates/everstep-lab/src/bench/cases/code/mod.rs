//! Code workflows: a server of this program and a worker of the TypeScript SDK, each in a separate process.
//!
//! `stage` sets them up, `starter` starts runs, `among` fills a database, `commits` counts transactions; the other files each measure a part of the case.

mod alone;
mod among;
mod client;
mod cold;
mod commits;
mod first;
mod load;
mod sleeping;
mod stage;
mod starter;
mod starts;
mod worker;

use self::worker::Carrier;
pub(in crate::bench) use self::worker::Kit;
use crate::bench::args::Plan;
use crate::bench::cases::server;
use crate::bench::figure::Figure;

/// A part of the case, which can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum Part {
    Socket,
    Http,
    Load,
    LoadHttp,
    Client,
    Parallel,
    First,
    Starts,
    Sleeping,
    Cold,
}

impl Part {
    pub(in crate::bench) const ALL: [Self; 10] = [
        Self::Socket,
        Self::Http,
        Self::Load,
        Self::LoadHttp,
        Self::Client,
        Self::Parallel,
        Self::First,
        Self::Starts,
        Self::Sleeping,
        Self::Cold,
    ];

    pub(in crate::bench) fn name(self) -> &'static str {
        match self {
            Self::Socket => "code-socket",
            Self::Http => "code-http",
            Self::Load => "code-load",
            Self::LoadHttp => "code-load-http",
            Self::Client => "code-client",
            Self::Parallel => "code-parallel",
            Self::First => "code-first",
            Self::Starts => "code-starts",
            Self::Sleeping => "code-sleeping",
            Self::Cold => "code-cold",
        }
    }

    pub(in crate::bench) async fn measure(self, plan: &Plan) -> anyhow::Result<Vec<Figure>> {
        server::find_program()?;
        plan.kit.check()?;
        let name = self.name();
        match self {
            Self::Socket => alone::measure_chain(plan, name, Carrier::Socket).await,
            Self::Http => alone::measure_chain(plan, name, Carrier::Http).await,
            Self::Load => load::measure(plan, name, Carrier::Socket).await,
            Self::LoadHttp => load::measure(plan, name, Carrier::Http).await,
            Self::Client => client::measure(plan, name).await,
            Self::Parallel => alone::measure_fan(plan, name).await,
            Self::First => first::measure(plan, name).await,
            Self::Starts => starts::measure(plan, name).await,
            Self::Sleeping => sleeping::measure(plan, name).await,
            Self::Cold => cold::measure(plan, name).await,
        }
    }
}
