//! The arguments of `everstep dlq`.

use clap::{Subcommand, ValueEnum};

use crate::id_args;
use crate::settings::RemoteSettings;

/// List, show, requeue and discard dead letters: work that failed permanently.
#[derive(Debug, clap::Args)]
pub(crate) struct DlqArgs {
    #[command(subcommand)]
    pub(crate) command: DlqCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DlqCommand {
    List(ListLettersArgs),
    /// Show a dead letter with its config and its attempts.
    Show(ShowLetterArgs),
    Requeue(RequeueArgs),
    Discard(DiscardArgs),
}

/// The selection of dead letters.
#[derive(Debug, clap::Args)]
pub(crate) struct LetterFilter {
    /// Only dead letters of this source.
    #[arg(long)]
    pub(crate) source: Option<LetterSource>,

    /// Only dead letters of this kind, such as webhook.
    #[arg(long)]
    pub(crate) kind: Option<String>,

    /// Only dead letters of runs of this workflow.
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<String>,

    /// Only dead letters of this run.
    #[arg(long, value_name = "ID", value_parser = id_args::read_run_id)]
    pub(crate) run: Option<uuid::Uuid>,

    /// Only dead letters whose last attempt failed with this code, such as HTTP_STATUS.
    #[arg(long, value_name = "CODE")]
    pub(crate) error: Option<String>,

    /// Only dead letters written at this time or later: 2026-01-01T00:00:00Z, or 1h for one hour ago.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,

    /// Only dead letters written before this time, in the same forms.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LetterSource {
    /// A side effect of a state machine.
    Delivery,
    /// A workflow that an event could not start.
    Start,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LetterStatus {
    Dead,
    Queued,
    Delivered,
    Discarded,
}

/// List dead letters, newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep dlq list --status dead --since 1d
  everstep dlq list --workflow document-approval --error HTTP_STATUS")]
pub(crate) struct ListLettersArgs {
    /// Only dead letters with this status.
    #[arg(long)]
    pub(crate) status: Option<LetterStatus>,

    #[command(flatten)]
    pub(crate) filter: LetterFilter,

    /// The maximum number of dead letters.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,

    /// Print {"deadLetters": […]} as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// The argument of a command about one dead letter.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowLetterArgs {
    /// The id of the dead letter, as `everstep dlq list` shows it.
    #[arg(value_parser = id_args::read_letter_id)]
    pub(crate) id: uuid::Uuid,

    /// Print the dead letter as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Requeue one dead letter, or all that a filter selects: a node performs the work again, with the same config and id.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep dlq requeue 019a8a3f-6c1e-7d58-9f3e-0d4b3a6f0c11
  everstep dlq requeue --workflow document-approval --error HTTP_STATUS --dry-run
  everstep dlq requeue --all")]
pub(crate) struct RequeueArgs {
    #[command(flatten)]
    pub(crate) selection: LetterSelection,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Discard one dead letter, or all that a filter selects. A discarded one cannot be requeued.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep dlq discard 019a8a3f-6c1e-7d58-9f3e-0d4b3a6f0c11 --reason 'the order was cancelled'
  everstep dlq discard --until 2026-05-01T00:00:00Z --reason 'before the last release'")]
pub(crate) struct DiscardArgs {
    #[command(flatten)]
    pub(crate) selection: LetterSelection,

    /// The reason, which other users of the workspace can read.
    #[arg(long)]
    pub(crate) reason: Option<String>,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// One dead letter, or those of a filter.
#[derive(Debug, clap::Args)]
pub(crate) struct LetterSelection {
    /// The id of one dead letter.
    #[arg(
        value_parser = id_args::read_letter_id,
        conflicts_with_all = ["source", "kind", "workflow", "run", "error", "since", "until", "all", "dry_run"]
    )]
    pub(crate) id: Option<uuid::Uuid>,

    #[command(flatten)]
    pub(crate) filter: LetterFilter,

    /// Select all dead letters with the status dead.
    #[arg(long, conflicts_with_all = ["source", "kind", "workflow", "run", "error", "since", "until"])]
    pub(crate) all: bool,

    /// Only count the selected dead letters.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
