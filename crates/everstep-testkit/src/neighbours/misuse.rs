//! The list of misuses.

use super::attack::Attack;
use super::misuses::{connections, decisions, load, tasks, writes};

/// What one workspace does to the disadvantage of all others, within its permissions and the default settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// Expressions with 503 filters on a text of 900 kB.
    Expression,
    /// Conditions of a state machine that need endless memory, depth or work.
    Guard,
    /// Checks of a definition with 250,000 edges.
    Definition,
    /// Scripts that consume all resources that they can get.
    Script,
    /// Runs that call a server that never answers.
    SlowHttp,
    /// 6,000 runs that stay in memory.
    Runs,
    /// Batches of a thousand starts on several connections.
    Batches,
    /// Queries of a file that do not end.
    FileQueries,
    /// A hundred bodies of 16 MB that do not end.
    Bodies,
    /// 2,000 streams.
    Streams,
    /// Sockets without an API key.
    Sockets,
    /// Requests with 60 API keys.
    Keys,
    /// Tickets, which a viewer may create.
    Tickets,
    /// Starts of workflows that do not exist, each under another name.
    Names,
    /// Workers that register a thousand new workflows each.
    WorkerHello,
    /// Ops on one record.
    RecordOps,
    /// Events for a thousand subscriptions.
    Publishes,
    /// Events with 900 kB of data for 500 subscriptions with an expression.
    LargeEvents,
    /// Actions in one run.
    Transitions,
}

impl Misuse {
    pub const ALL: [Self; 19] = [
        Self::Expression,
        Self::Guard,
        Self::Definition,
        Self::Script,
        Self::SlowHttp,
        Self::Runs,
        Self::Batches,
        Self::FileQueries,
        Self::Bodies,
        Self::Streams,
        Self::Sockets,
        Self::Keys,
        Self::Tickets,
        Self::Names,
        Self::WorkerHello,
        Self::RecordOps,
        Self::Publishes,
        Self::LargeEvents,
        Self::Transitions,
    ];

    /// The misuse in a few words.
    pub fn name(self) -> &'static str {
        self.case().trim_start_matches("neighbours-")
    }

    /// The name of its case in the benchmark.
    pub fn case(self) -> &'static str {
        match self {
            Self::Expression => "neighbours-expression",
            Self::Guard => "neighbours-guard",
            Self::Definition => "neighbours-definition",
            Self::Script => "neighbours-script",
            Self::SlowHttp => "neighbours-slow-http",
            Self::Runs => "neighbours-runs",
            Self::Batches => "neighbours-batches",
            Self::FileQueries => "neighbours-file-queries",
            Self::Bodies => "neighbours-bodies",
            Self::Streams => "neighbours-streams",
            Self::Sockets => "neighbours-sockets",
            Self::Keys => "neighbours-keys",
            Self::Tickets => "neighbours-tickets",
            Self::Names => "neighbours-names",
            Self::WorkerHello => "neighbours-worker-hello",
            Self::RecordOps => "neighbours-record-ops",
            Self::Publishes => "neighbours-publishes",
            Self::LargeEvents => "neighbours-large-events",
            Self::Transitions => "neighbours-transitions",
        }
    }

    /// Prepares the misuse, reports its beginning, and continues until it is cancelled.
    pub(super) async fn perform(self, attack: Attack) -> anyhow::Result<()> {
        match self {
            Self::Expression => decisions::evaluate_expressions(attack).await,
            Self::Guard => decisions::evaluate_guards(attack).await,
            Self::Definition => decisions::check_definitions(attack).await,
            Self::Script => tasks::run_scripts(attack).await,
            Self::SlowHttp => tasks::call_a_slow_server(attack).await,
            Self::FileQueries => tasks::query_files(attack).await,
            Self::Runs => load::start_runs(attack).await,
            Self::Batches => load::start_batches(attack).await,
            Self::Keys => load::use_many_keys(attack).await,
            Self::RecordOps => load::write_one_record(attack).await,
            Self::Publishes => load::publish_events(attack).await,
            Self::LargeEvents => load::publish_large_events(attack).await,
            Self::Transitions => load::act_in_one_run(attack).await,
            Self::Bodies => connections::send_endless_bodies(attack).await,
            Self::Streams => connections::open_streams(attack).await,
            Self::Sockets => connections::open_sockets(attack).await,
            Self::Tickets => writes::create_tickets(attack).await,
            Self::Names => writes::start_unknown_names(attack).await,
            Self::WorkerHello => writes::register_workflows(attack).await,
        }
    }
}
