//! The arguments of the commands about events and subscriptions.

use clap::Subcommand;

use crate::id_args;
use crate::settings::RemoteSettings;

/// Publish an event and print its id.
///
/// Every subscription whose pattern matches the topic starts a run, and every run that waits for the event continues.
/// The command prints the id after the server has stored the event; no later crash loses the event.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep publish user.signup signup.json
  everstep publish user.signup --data '{\"user\": 7}' --id signup-7
  everstep publish order.paid - --wait < order.json")]
pub(crate) struct PublishArgs {
    /// The topic: segments separated by dots, such as user.signup.
    pub(crate) topic: String,

    /// The data of the event: a file with JSON, or - for standard input. Without it, the data is null.
    pub(crate) file: Option<String>,

    /// The data of the event as JSON, @FILE, or - for standard input, instead of a file.
    #[arg(long, short, value_name = "JSON|@FILE|-", allow_hyphen_values = true, conflicts_with = "file")]
    pub(crate) data: Option<String>,

    /// The event's id: an event is published once per source and id, however often the command is repeated.
    #[arg(long)]
    pub(crate) id: Option<String>,

    /// The part of your system in which the fact occurred [default: api].
    #[arg(long)]
    pub(crate) source: Option<String>,

    /// What the fact is about, such as the number of an order.
    #[arg(long)]
    pub(crate) subject: Option<String>,

    /// Wait until the event has reached all subscriptions and waits, and print their counts.
    #[arg(long)]
    pub(crate) wait: bool,

    /// Print the response of the server as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// List published events, newest first; or show one, with the runs and waits that it has reached.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep events --topic user.signup --since 1h
  everstep events 019a8a3f-6c1e-7d58-9f3e-0d4b3a6f0c11")]
pub(crate) struct EventsArgs {
    /// The id of an event, as `everstep publish` prints it.
    #[arg(conflicts_with_all = ["topic", "since", "until", "limit"])]
    pub(crate) event: Option<String>,

    /// Only events of this topic.
    #[arg(long)]
    pub(crate) topic: Option<String>,

    /// Only events published at this time or later: 2026-01-01T00:00:00Z, or 1h for one hour ago.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,

    /// Only events published before this time, in the same forms.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,

    /// The maximum number of events.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,

    /// Print {"events": […]}, or the event, as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// Create, list, pause, resume and delete subscriptions: a topic pattern with a workflow that its events start.
#[derive(Debug, clap::Args)]
pub(crate) struct SubscriptionsArgs {
    #[command(subcommand)]
    pub(crate) command: SubscriptionsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SubscriptionsCommand {
    Create(CreateSubscriptionArgs),
    List(ListSubscriptionsArgs),
    /// Pause a subscription: events that are published while it is paused do not reach it.
    Pause(SubscriptionArgs),
    /// Resume a paused subscription.
    Resume(SubscriptionArgs),
    /// Delete a subscription. Runs that it has started continue.
    Delete(SubscriptionArgs),
}

/// Subscribe a workflow to a topic pattern and print the id of the subscription.
///
/// In a pattern, * is exactly one segment and # is any number of segments, including none: user.* matches user.signup,
/// and order.# matches order, order.paid and order.paid.late. Each event that is published from now on, and that the
/// filter accepts, starts one run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep subscriptions create 'user.*' onboard-user
  everstep subscriptions create order.paid ship --filter '{\"country\": \"SE\"}'
  everstep subscriptions create order.paid ship --input '{\"order\": {\"$expr\": \"payload.order\"}}'")]
pub(crate) struct CreateSubscriptionArgs {
    /// The topic pattern.
    pub(crate) pattern: String,

    /// The name of the workflow.
    pub(crate) workflow: String,

    /// A version of the workflow, instead of the active one at the time of the event.
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,

    /// Only events whose data contains this JSON, and for which its field `$expr`, if there is one, is true: JSON,
    /// @FILE, or -.
    #[arg(long, value_name = "JSON|@FILE|-")]
    pub(crate) filter: Option<String>,

    /// The input of the runs, with expressions over event and payload; by default the data of the event: JSON, @FILE,
    /// or -.
    #[arg(long, short, value_name = "JSON|@FILE|-")]
    pub(crate) input: Option<String>,

    /// Print the response of the server as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// List the subscriptions of the workspace, including those that definitions declare as triggers.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep subscriptions list --pattern 'user.*'")]
pub(crate) struct ListSubscriptionsArgs {
    /// Only subscriptions with exactly this pattern.
    #[arg(long)]
    pub(crate) pattern: Option<String>,

    /// Print {"subscriptions": […]} as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}

/// The argument of a command about one subscription.
#[derive(Debug, clap::Args)]
pub(crate) struct SubscriptionArgs {
    /// The id of the subscription, as `everstep subscriptions list` shows it.
    #[arg(value_parser = id_args::read_subscription_id)]
    pub(crate) id: uuid::Uuid,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
}
