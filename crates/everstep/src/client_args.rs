//! What was typed for the commands that ask a server.

use std::path::PathBuf;

use crate::settings::RemoteSettings;

/// Start a run of a workflow on a server and print its id.
///
/// With --wait the command follows the run to its end and prints its output; it exits with 1 if the run fails.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep start order --input '{\"amount\": 20}' --key order-17
  everstep start order --input @order.json --wait")]
pub(crate) struct StartArgs {
    /// The workflow's name.
    pub(crate) workflow: String,

    /// The run's input: JSON, @FILE for a file with JSON, or - for standard input.
    #[arg(long, short, default_value = "{}", value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) input: String,

    /// The run's idempotency key: there is one run of a workflow per key, whatever is started again.
    #[arg(long)]
    pub(crate) key: Option<String>,

    /// A version of the workflow, in place of the active one.
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,

    /// A tag of the run, as NAME=VALUE; may be given several times.
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) tags: Vec<(String, String)>,

    /// Wait for the run's end and print its output.
    #[arg(long)]
    pub(crate) wait: bool,

    /// Print the server's answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// List runs, newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep runs --workflow order --status failed --since 2026-01-01T00:00:00Z
  everstep runs --input customer.id=42 --json")]
pub(crate) struct RunsArgs {
    /// Only runs of this workflow.
    #[arg(long)]
    pub(crate) workflow: Option<String>,

    /// Only runs with one of these statuses: pending, running, waiting, paused, completed, failed, cancelled.
    #[arg(long, value_delimiter = ',')]
    pub(crate) status: Vec<String>,

    /// Only runs created at this time or later, such as 2026-01-01T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,

    /// Only runs created before this time.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,

    /// Only runs whose input has this value at a path, as PATH=VALUE; may be given several times.
    #[arg(long = "input", value_name = "PATH=VALUE", value_parser = pair)]
    pub(crate) input: Vec<(String, String)>,

    /// Only runs with this tag, as NAME=VALUE; may be given several times.
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) tags: Vec<(String, String)>,

    /// How many at most.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,

    /// Print {"runs": […]} as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Show a run: what it waits for, and its steps on a line of time.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The run's id.
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
    /// The run's id.
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

/// Send a signal to a run.
///
/// Exits with 1 when nothing in the run waits for it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep signal 0199… approve --payload '{\"by\": \"ada\"}'")]
pub(crate) struct SignalArgs {
    /// The run's id.
    pub(crate) run: String,

    /// The event's name.
    pub(crate) event: String,

    /// What the signal says: JSON, @FILE, or - for standard input.
    #[arg(long, short, default_value = "{}", value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) payload: String,

    /// The signal's idempotency key: the same key again changes nothing.
    #[arg(long)]
    pub(crate) key: Option<String>,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Cancel a run.
#[derive(Debug, clap::Args)]
pub(crate) struct CancelArgs {
    /// The run's id.
    pub(crate) run: String,

    /// Why; it stands in the run's journal.
    #[arg(long)]
    pub(crate) reason: Option<String>,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// A run, and nothing else.
#[derive(Debug, clap::Args)]
pub(crate) struct ControlArgs {
    /// The run's id.
    pub(crate) run: String,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Start a new run that goes on from an entry of another's journal, and print its id.
#[derive(Debug, clap::Args)]
pub(crate) struct ForkArgs {
    /// The run's id.
    pub(crate) run: String,

    /// The last entry of the journal to take over; without it, the last one at which the run had not ended.
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,

    /// Print the server's answer as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Save a workflow on a server: a definition, or what `everstep export` has written.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep import order.yaml
  everstep import exported.json --name order-copy")]
pub(crate) struct ImportArgs {
    /// A JSON or YAML file.
    pub(crate) file: PathBuf,

    /// The workflow's name; without it the one in the file, or the file's own name without its extension.
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

    /// A version, in place of the active one.
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    if name.is_empty() { Err("the name is empty".to_owned()) } else { Ok((name.to_owned(), value.to_owned())) }
}
