//! The arguments of the commands that use a server.

use std::path::PathBuf;

use crate::config::HumanDuration;
use crate::settings::RemoteSettings;

/// Start a run of a workflow on a server and print its id.
///
/// With --wait the command prints the id on standard error, waits for the end of the run and prints its output. It
/// continues to wait if the connection is lost, until 30 attempts to connect have failed. It exits with 1 if the run
/// fails, and with 4 if the run is paused.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep start order --input '{\"amount\": 20}' --key order-17
  everstep start order --input @order.json --wait
  everstep start reminder --delay 36h
  everstep start report --at 2026-12-01T06:00:00Z")]
pub(crate) struct StartArgs {
    /// The workflow's name.
    pub(crate) workflow: String,

    /// The run's input: JSON, @FILE for a file with JSON, or - for standard input.
    #[arg(long, short, default_value = "{}", value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) input: String,

    /// The run's idempotency key: a workflow has one run per key, however often it is started.
    #[arg(long)]
    pub(crate) key: Option<String>,

    /// A version of the workflow, instead of the active one.
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,

    /// A tag of the run, as NAME=VALUE; may be repeated.
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) tags: Vec<(String, String)>,

    /// Begin the run at this time, such as 2026-12-01T06:00:00Z: until then it is pending.
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    pub(crate) at: Option<String>,

    /// Begin the run after this time, such as 90s, 15m, 36h or 7d; at most 365 days.
    #[arg(long, value_name = "DURATION")]
    pub(crate) delay: Option<HumanDuration>,

    /// Start the run although no worker has ever registered the workflow: the run waits for a worker.
    #[arg(long)]
    pub(crate) allow_unserved: bool,

    /// Wait until the run has ended or is paused, and print its output.
    #[arg(long)]
    pub(crate) wait: bool,

    /// Print the response of the server as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// List runs, newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep runs --workflow order --status failed --since 1h
  everstep runs --since 2026-01-01T00:00:00Z --until 2026-02-01T00:00:00Z
  everstep runs --input customer.id=42 --json")]
pub(crate) struct RunsArgs {
    /// Only runs of this workflow.
    #[arg(long)]
    pub(crate) workflow: Option<String>,

    /// Only runs with one of these statuses: pending, running, waiting, paused, completed, failed, cancelled.
    #[arg(long, value_delimiter = ',')]
    pub(crate) status: Vec<String>,

    /// Only runs created at this time or later: 2026-01-01T00:00:00Z, or 1h for one hour ago.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,

    /// Only runs created before this time, in the same forms.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,

    /// Only runs whose input has this value at a path, as PATH=VALUE; may be repeated.
    #[arg(long = "input", value_name = "PATH=VALUE", value_parser = pair)]
    pub(crate) input: Vec<(String, String)>,

    /// Only runs with this tag, as NAME=VALUE; may be repeated.
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) tags: Vec<(String, String)>,

    /// The maximum number of runs.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,

    /// Print {"runs": […]} as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Show a run: what it waits for, and its steps on a timeline.
///
/// The column SEQ is the last journal entry of each step: `everstep fork RUN --at SEQ` starts a run that continues
/// after this entry.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep show 0199a8a3f")]
pub(crate) struct ShowArgs {
    /// The run's id, or its beginning if no other id begins with it.
    pub(crate) run: String,

    /// Print {"run": …, "steps": […]} as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Show the lines that the steps of a run have logged.
#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// The run's id, or its beginning if no other id begins with it.
    pub(crate) run: String,

    /// Only lines of this step: fetch, or each[3].fetch inside an iteration.
    #[arg(long)]
    pub(crate) step: Option<String>,

    /// Print {"logs": […]} as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Print the journal of a run, one line per entry.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep journal 0199a8a3f")]
pub(crate) struct JournalArgs {
    /// The run's id, or its beginning if no other id begins with it.
    pub(crate) run: String,

    /// Only entries after this one.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) after: u64,

    /// Print {"entries": […]} as JSON, with the complete data of each entry.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Print the journal of a run, and new entries as they are written, until the run ends.
///
/// Exits with 0 if the run completed and with 1 if it failed or was cancelled. The command continues to follow a paused
/// run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep follow 0199a8a3f")]
pub(crate) struct FollowArgs {
    /// The run's id, or its beginning if no other id begins with it.
    pub(crate) run: String,

    /// Only entries after this one.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) after: u64,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Send a signal to a run.
///
/// Exits with 1 if no step of the run waits for it. The message then names the signals that the run waits for, or the
/// match that the payload must contain.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep signal 0199… approve --payload '{\"by\": \"ada\"}'")]
pub(crate) struct SignalArgs {
    /// The run's id, or its beginning if no other id begins with it.
    pub(crate) run: String,

    /// The signal's name.
    pub(crate) event: String,

    /// The payload of the signal: JSON, @FILE, or - for standard input.
    #[arg(long, short, default_value = "{}", value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) payload: String,

    /// The signal's idempotency key: the same key again changes nothing.
    #[arg(long)]
    pub(crate) key: Option<String>,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Perform an action in a run of a state machine, or vote for it.
///
/// The command acts with the rights of the API key, or of a person's token in EVERSTEP_API_KEY.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep act 0199a8a3f APPROVE --comment checked
  everstep act 0199a8a3f BOOK --data '{\"account\": \"4711\"}' --at-version 2")]
pub(crate) struct ActArgs {
    /// The run's id, or its beginning if no other id begins with it.
    pub(crate) run: String,

    /// An action of the present state; `everstep actions` lists them.
    pub(crate) action: String,

    /// A comment for the history.
    #[arg(long)]
    pub(crate) comment: Option<String>,

    /// Values that are merged into the context of the run: a JSON object, @FILE, or - for standard input.
    #[arg(long, short, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) data: Option<String>,

    /// Act only if the run has this version. The default is its version when the request arrives.
    #[arg(long, value_name = "N")]
    pub(crate) at_version: Option<u32>,

    /// The digest of the values that you were shown; `everstep actions` prints it if an action needs it. The request is
    /// rejected if the values have changed.
    #[arg(long, value_name = "DIGEST")]
    pub(crate) shown: Option<String>,

    /// The id of a file that you have uploaded with POST /v1/files; repeat it for several files.
    #[arg(long = "file", value_name = "ID")]
    pub(crate) files: Vec<String>,

    /// Withdraw your vote for the action.
    #[arg(long)]
    pub(crate) withdraw: bool,

    /// The idempotency key of the request: the same request with the same key again changes nothing.
    #[arg(long)]
    pub(crate) key: Option<String>,

    /// Print the response of the server as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Show the state of a run of a state machine, and the actions that you can perform in it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep actions 0199a8a3f")]
pub(crate) struct ActionsArgs {
    /// The run's id, or its beginning if no other id begins with it.
    pub(crate) run: String,

    /// Print the response of the server as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Print the history of a run of a state machine: transitions, votes, assignments and timers, one line each.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep history 0199a8a3f")]
pub(crate) struct HistoryArgs {
    /// The run's id, or its beginning if no other id begins with it.
    pub(crate) run: String,

    /// Print {"entries": […]} as JSON, with the changes of the context.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Cancel a run.
#[derive(Debug, clap::Args)]
pub(crate) struct CancelArgs {
    /// The run's id, or its beginning if no other id begins with it.
    pub(crate) run: String,

    /// The reason, which is stored in the run's journal.
    #[arg(long)]
    pub(crate) reason: Option<String>,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// The argument of a control: a run.
#[derive(Debug, clap::Args)]
pub(crate) struct ControlArgs {
    /// The run's id, or its beginning if no other id begins with it.
    pub(crate) run: String,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Start a new run that continues from an entry of another run's journal, and print its id.
#[derive(Debug, clap::Args)]
pub(crate) struct ForkArgs {
    /// The run's id, or its beginning if no other id begins with it.
    pub(crate) run: String,

    /// The last entry of the journal to copy, as `everstep show` prints it; without it, the last entry before the end
    /// of the run.
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,

    /// Print the response of the server as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// List the workflows of a server, with the number of their runs in each status.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep workflows")]
pub(crate) struct WorkflowsArgs {
    /// Print {"workflows": […]} as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// List the connected workers, with the workflows that they serve.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep workers")]
pub(crate) struct WorkersArgs {
    /// Print {"workers": […], "silentNodes": […]} as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Sign in to the web console: print a one-time link to it, and open the link if the output is a terminal.
///
/// The link is valid for a minute and can be used once. The browser receives an API key of its own, with the permissions
/// of the key of this command, which expires after 12 hours.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep open
  everstep open --server https://everstep.example.com")]
pub(crate) struct OpenArgs {
    /// Only print the link.
    #[arg(long)]
    pub(crate) no_browser: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Delete a workflow with all its versions. Runs that have ended are kept.
///
/// The server rejects the deletion while runs of the workflow have not ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep delete order-copy")]
pub(crate) struct DeleteArgs {
    /// The workflow's name.
    pub(crate) workflow: String,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Report whether a server is ready, for health checks of containers and scripts.
///
/// Requests /readyz, without an API key. Exits with 0 if the server is ready, and with 3 if it is not or does not answer.
/// A server whose database does not answer is live and not ready.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep health --server http://127.0.0.1:7373")]
pub(crate) struct HealthArgs {
    /// Request /livez instead, which reports only whether the process answers.
    #[arg(long)]
    pub(crate) live: bool,

    /// Print the server's answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Save a workflow on a server: a definition, or the output of `everstep export`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep import order.yaml
  everstep import exported.json --name order-copy")]
pub(crate) struct ImportArgs {
    /// A JSON or YAML file.
    pub(crate) file: PathBuf,

    /// The workflow's name; the default is the name in the file, or the file's name without its extension.
    #[arg(long)]
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Print a workflow of a server as a document that any server can import.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep export order > order.json")]
pub(crate) struct ExportArgs {
    /// The workflow's name.
    pub(crate) workflow: String,

    /// A version, instead of the active one.
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    if name.is_empty() { Err("the name is empty".to_owned()) } else { Ok((name.to_owned(), value.to_owned())) }
}
