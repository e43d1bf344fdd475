//! The command line. `config` gives it its meaning.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use everstep_api::auth::{Permission, Role};

use crate::client_args::{
    ActArgs, ActionsArgs, CancelArgs, ControlArgs, DeleteArgs, ExportArgs, FollowArgs, ForkArgs, HealthArgs,
    HistoryArgs, ImportArgs, JournalArgs, LogsArgs, OpenArgs, RunsArgs, ShowArgs, SignalArgs, StartArgs, WorkersArgs,
    WorkflowsArgs,
};
use crate::config::HumanDuration;
use crate::dead_letter_args::DlqArgs;
use crate::event_args::{EventsArgs, PublishArgs, SubscriptionsArgs};
use crate::id_args;
use crate::identity::IdentitySettings;
use crate::settings::{
    ClusterSettings, DatabaseSettings, EngineSettings, LogSettings, RemoteSettings, SecretsSettings, ServerSettings,
    StorageSettings, TelemetrySettings,
};

/// A durable workflow engine.
///
/// A workflow is a graph of nodes or a state machine in a JSON or YAML file, or a function in a worker. Everstep writes
/// every step of a run to a journal before it continues, so a run survives crashes and restarts: a step that has
/// completed is not performed again, and a step that was in progress is repeated.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// A TOML file with settings. Flags override the environment, and the environment overrides the file.
    #[arg(
        long,
        global = true,
        env = "EVERSTEP_CONFIG",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) log: LogSettings,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Exit codes:
  0    success; a run completed
  1    a run failed or was cancelled; a signal or a control was ignored
  2    a file, an input, a setting or a request is invalid
  3    the command could not be executed: no data folder, port, database or server,
       or a rejected API key
  4    a run is paused
  130  interrupted (SIGINT or SIGTERM) before the end

everstep --version --verbose also prints the digest of the web console in this build.

Every setting has three names: --max-active-runs on the command line,
EVERSTEP_MAX_ACTIVE_RUNS in the environment, and max_active_runs in the file of --config,
under its table: [log], [server], [database], [cluster], [engine], [secrets],
[identity] or [telemetry].";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Validate(ValidateArgs),
    Serve(ServeArgs),
    Start(StartArgs),
    Runs(RunsArgs),
    Show(ShowArgs),
    Journal(JournalArgs),
    Follow(FollowArgs),
    Logs(LogsArgs),
    Signal(SignalArgs),
    Act(ActArgs),
    Actions(ActionsArgs),
    History(HistoryArgs),
    Cancel(CancelArgs),
    /// Pause a run: the server dispatches no further step of it until it is resumed.
    Pause(ControlArgs),
    /// Resume a paused run.
    Resume(ControlArgs),
    /// Retry the failed steps of a failed run.
    Retry(ControlArgs),
    Fork(ForkArgs),
    Publish(PublishArgs),
    Events(EventsArgs),
    Subscriptions(SubscriptionsArgs),
    Dlq(DlqArgs),
    Workflows(WorkflowsArgs),
    Import(ImportArgs),
    Export(ExportArgs),
    Delete(DeleteArgs),
    Workers(WorkersArgs),
    Open(OpenArgs),
    Keys(KeysArgs),
    Workspaces(WorkspacesArgs),
    Secrets(SecretsArgs),
    Nodes(NodesArgs),
    Health(HealthArgs),
    Config(ConfigArgs),
    Openapi(OpenapiArgs),
    Completions(CompletionsArgs),
}

/// Run a workflow file to its end and print its output.
///
/// The run's output is printed on standard output as one JSON document; everything else (the progress of the nodes, the
/// log lines of javascript nodes) is on standard error. If the run is paused, the command prints the reason and exits
/// with 4.
///
/// Without --data the run is stored in a temporary folder that is removed afterwards. With --data the run is stored in
/// that folder. With --data and --key, the same command continues the run, or prints its output if it has ended. This
/// command always uses SQLite in a folder, even if the settings contain a database URL.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep run order.json --input '{\"amount\": 20}'
  everstep run order.yaml --input @order-input.json --data ./data --key order-17
  generate | everstep run order.yaml --input - --quiet > result.json")]
pub(crate) struct RunArgs {
    /// The workflow: a JSON or YAML file.
    pub(crate) file: PathBuf,

    /// The run's input: JSON, @FILE for a file with JSON, or - for standard input.
    #[arg(long, short, default_value = "{}", value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) input: String,

    /// Store the run in this data folder, which is created if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// The run's idempotency key: a workflow has one run per key, however often it is started.
    #[arg(long, requires = "data")]
    pub(crate) key: Option<String>,

    /// The workflow's name in the data folder. The default is the file's name, without its extension.
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// Print only the output of the run, or the reason of its failure.
    #[arg(long, short)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) engine: EngineSettings,
    #[command(flatten)]
    pub(crate) secrets: SecretsSettings,
}

/// Check a workflow file and report every problem in it.
///
/// Exits with 0 if the workflow is valid and with 2 if it is not. Each problem has its place in the file (a JSON
/// pointer), the reason, and a hint.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep validate order.yaml")]
pub(crate) struct ValidateArgs {
    /// The workflow: a JSON or YAML file.
    pub(crate) file: PathBuf,

    /// Print {"valid": …, "problems": […]} on standard output, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the settings that `everstep serve` would use, and the source of each.
///
/// Accepts the flags of `everstep serve`. Keys and passwords are not shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep config --config everstep.toml")]
pub(crate) struct ConfigArgs {
    /// Print an array of settings as JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// Run the server, which executes runs and serves the HTTP API.
///
/// All data is in one database: SQLite in the data folder, or PostgreSQL with --database-url, which several servers may
/// share. The first start creates an admin API key, writes it to admin.key in the data folder, and prints it once if
/// the output is a terminal.
///
/// /livez responds while the process runs. /readyz responds with 200 while the server can work, else with 503; its body
/// has the node's id, the state of the database and the number of active runs.
///
/// On SIGTERM or SIGINT the server accepts no more work, waits up to --shutdown-grace for tasks in progress, and
/// releases its runs, so that the next server continues them at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep serve --listen 127.0.0.1:7373 --data ./data
  EVERSTEP_DATABASE_URL=postgres://me:secret@db/everstep everstep serve --listen 10.0.0.7:7373")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) server: ServerSettings,
    #[command(flatten)]
    pub(crate) database: DatabaseSettings,
    #[command(flatten)]
    pub(crate) cluster: ClusterSettings,
    #[command(flatten)]
    pub(crate) engine: EngineSettings,
    #[command(flatten)]
    pub(crate) secrets: SecretsSettings,
    #[command(flatten)]
    pub(crate) identity: IdentitySettings,

    #[command(flatten)]
    pub(crate) telemetry: TelemetrySettings,
}

/// Create, list and revoke the API keys of programs and people.
///
/// The commands write to the database directly, so every user of the database may create API keys. Only one process at
/// a time can use the embedded SQLite database: while a server uses the data folder, the commands send requests to that
/// server, with the API key in EVERSTEP_API_KEY or that in admin.key of the folder.
#[derive(Debug, clap::Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    Create(CreateKeyArgs),
    List(ListKeysArgs),
    Revoke(RevokeKeyArgs),
}

/// Create an API key and print it. It is shown only once: the database stores only its SHA-256 hash.
///
/// Permissions: workflow:read (read definitions), workflow:view (read runs with their data), workflow:act (act in runs
/// of state machines), workflow:manage (start and control runs, publish events; implies act), workflow:publish (save
/// definitions and subscriptions), workflow:admin (everything), worker:serve (execute workflows written as code).
///
/// Roles: viewer (read, view), operator (viewer and manage), publisher (operator and publish), admin (everything),
/// worker (serve).
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("allows").required(true).args(["role", "permissions"])))]
#[command(after_help = "\
Examples:
  everstep keys create --name dashboard --role viewer --expires 30d
  everstep keys create --name ci --permissions workflow:publish,workflow:read
  everstep keys create --name ops --role admin --workspace shop --database-url postgres://…")]
pub(crate) struct CreateKeyArgs {
    /// The purpose of the API key, for people.
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) name: String,

    /// The permissions of the API key, as a role.
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<Role>,

    /// The permissions of the API key, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "PERMISSION")]
    pub(crate) permissions: Option<Vec<Permission>>,

    /// The lifetime of the API key, such as 12h or 30d. Without it, the key is valid until it is revoked.
    #[arg(long, value_name = "DURATION")]
    pub(crate) expires: Option<HumanDuration>,

    /// Requests per second that the API key may send to each server; 0 for no limit. The default is the limit of the
    /// server.
    #[arg(long, value_name = "N")]
    pub(crate) rate_limit: Option<u32>,

    #[command(flatten)]
    pub(crate) workspace: WorkspaceName,
    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
    #[command(flatten)]
    pub(crate) storage: StorageSettings,
}

/// The workspace of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkspaceName {
    /// The workspace, by its name [default: default; with --server, that of the API key].
    #[arg(long, value_name = "NAME")]
    pub(crate) workspace: Option<String>,
}

/// List the API keys of a workspace, including revoked ones. The keys themselves are not shown: they are not stored.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep keys list --data ./data")]
pub(crate) struct ListKeysArgs {
    /// Print {"keys": […]} on standard output, for programs.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) workspace: WorkspaceName,
    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
    #[command(flatten)]
    pub(crate) storage: StorageSettings,
}

/// Revoke an API key: it is rejected after three seconds at the latest.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep keys revoke 019a8a3f-6c1e-7d58-9f3e-0d4b3a6f0c11")]
pub(crate) struct RevokeKeyArgs {
    /// The id of the API key, as `everstep keys list` shows it.
    #[arg(value_parser = id_args::read_key_id)]
    pub(crate) id: uuid::Uuid,

    #[command(flatten)]
    pub(crate) workspace: WorkspaceName,
    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
    #[command(flatten)]
    pub(crate) storage: StorageSettings,
}

/// Create and list workspaces: an API key gives access to one workspace only.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkspacesArgs {
    #[command(subcommand)]
    pub(crate) command: WorkspacesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkspacesCommand {
    Create(CreateWorkspaceArgs),
    List(ListWorkspacesArgs),
}

/// Create a workspace and print an admin API key for it, which is shown only once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep workspaces create shop --data ./data")]
pub(crate) struct CreateWorkspaceArgs {
    /// Its name: letters, digits, `_`, `.` or `-`, at most 64.
    pub(crate) name: String,

    /// Allow its javascript nodes to use `fetch`.
    #[arg(long)]
    pub(crate) fetch: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
    #[command(flatten)]
    pub(crate) storage: StorageSettings,
}

/// List the workspaces of a database.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep workspaces list --data ./data")]
pub(crate) struct ListWorkspacesArgs {
    /// Print {"workspaces": […]} on standard output, for programs.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
    #[command(flatten)]
    pub(crate) storage: StorageSettings,
}

/// Set, list and delete secrets that steps use as {"$secret": "name"}. No command shows their values.
#[derive(Debug, clap::Args)]
pub(crate) struct SecretsArgs {
    #[command(subcommand)]
    pub(crate) command: SecretsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecretsCommand {
    Set(SetSecretArgs),
    List(ListSecretsArgs),
    Delete(DeleteSecretArgs),
    Key(SecretsKeyArgs),
}

/// Set a secret. Its value is read from standard input or from a file, so that no list of processes shows it.
///
/// The line end of a value with one line is removed; a value with several lines is stored unchanged.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep secrets set stripe-key < stripe.txt
  everstep secrets set tls-key --from-file key.pem")]
pub(crate) struct SetSecretArgs {
    /// Its name: letters, digits, `_`, `.` or `-`, at most 128.
    pub(crate) name: String,

    /// Read the value from this file, instead of standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) from_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) workspace: WorkspaceName,
    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
    #[command(flatten)]
    pub(crate) secrets: SecretsSettings,
    #[command(flatten)]
    pub(crate) storage: StorageSettings,
}

/// List the names of secrets, and when they were set.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep secrets list --data ./data")]
pub(crate) struct ListSecretsArgs {
    /// Print {"secrets": […]} on standard output, for programs.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) workspace: WorkspaceName,
    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
    #[command(flatten)]
    pub(crate) storage: StorageSettings,
}

/// Delete a secret. Steps that need it fail from then on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep secrets delete stripe-key --data ./data")]
pub(crate) struct DeleteSecretArgs {
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) workspace: WorkspaceName,
    #[command(flatten)]
    pub(crate) remote: RemoteSettings,
    #[command(flatten)]
    pub(crate) storage: StorageSettings,
}

/// Print a new key for EVERSTEP_SECRETS_KEY, with which secrets are sealed.
///
/// Store it separately from the database: with both, the secrets can be read; without the key, they are lost. To change
/// the key, put the old one into EVERSTEP_SECRETS_OLD_KEYS until every secret has been set again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  export EVERSTEP_SECRETS_KEY=$(everstep secrets key)")]
pub(crate) struct SecretsKeyArgs {}

/// List the nodes of a database: their ids, their addresses, and their leases.
///
/// A node that was shut down, or whose lease has expired, is fenced: it cannot write to the database, and its row is
/// deleted after a day.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep nodes --database-url postgres://me:secret@db/everstep")]
pub(crate) struct NodesArgs {
    /// Print {"nodes": […]} on standard output, for programs.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) storage: StorageSettings,
}

/// Print the OpenAPI 3.1 document of the HTTP API.
///
/// A server returns the same document at /v1/openapi.json, and shows it to people at /docs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  everstep openapi > openapi.json")]
pub(crate) struct OpenapiArgs {}

/// Print a script that completes the commands and flags in a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everstep completions bash > ~/.local/share/bash-completion/completions/everstep
  everstep completions zsh > ~/.zfunc/_everstep
  everstep completions fish > ~/.config/fish/completions/everstep.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}
