//! The settings of one command from its flags and the environment, before the settings file is read.

use std::path::PathBuf;

use crate::args::{Cli, Command, ConfigArgs, KeysCommand, SecretsCommand, WorkspacesCommand};
use crate::identity::IdentitySettings;
use crate::settings::{
    ClusterSettings, DatabaseSettings, EngineSettings, LogSettings, SecretsSettings, ServerSettings, StorageSettings,
    TelemetrySettings,
};

/// The settings that [`Config::load`](crate::config::Config::load) needs of a command. A command leaves out the
/// settings for which it has no flags.
#[derive(Default)]
pub struct CommandSettings {
    /// The settings file.
    pub config: Option<PathBuf>,
    pub log: LogSettings,
    /// The log filter if none is given.
    pub log_default: &'static str,
    pub server: ServerSettings,
    pub database: DatabaseSettings,
    pub cluster: ClusterSettings,
    pub engine: EngineSettings,
    pub secrets: SecretsSettings,
    pub identity: IdentitySettings,
    pub telemetry: TelemetrySettings,
    /// Whether the database of the settings file applies. Otherwise the command uses SQLite in its folder.
    pub uses_database: bool,
    /// Whether the command serves people, so that the identity provider of the settings file applies.
    pub serves_people: bool,
    /// Whether the command runs a local file of its user, which may reach every address that the machine reaches.
    pub runs_own_file: bool,
}

impl From<&Cli> for CommandSettings {
    fn from(cli: &Cli) -> Self {
        let at = |storage: &StorageSettings| Self {
            server: ServerSettings::in_folder(storage.data.clone()),
            database: storage.database.clone(),
            uses_database: true,
            ..Self::default()
        };
        let settings = match &cli.command {
            Command::Serve(args) | Command::Config(ConfigArgs { serve: args, .. }) => Self {
                server: args.server.clone(),
                database: args.database.clone(),
                cluster: args.cluster.clone(),
                engine: args.engine.clone(),
                secrets: args.secrets.clone(),
                identity: args.identity.clone(),
                telemetry: args.telemetry.clone(),
                uses_database: true,
                serves_people: true,
                ..Self::default()
            },
            Command::Keys(args) => at(match &args.command {
                KeysCommand::Create(args) => &args.storage,
                KeysCommand::List(args) => &args.storage,
                KeysCommand::Revoke(args) => &args.storage,
            }),
            Command::Workspaces(args) => at(match &args.command {
                WorkspacesCommand::Create(args) => &args.storage,
                WorkspacesCommand::List(args) => &args.storage,
            }),
            Command::Secrets(args) => match &args.command {
                SecretsCommand::Set(args) => Self { secrets: args.secrets.clone(), ..at(&args.storage) },
                SecretsCommand::List(args) => at(&args.storage),
                SecretsCommand::Delete(args) => at(&args.storage),
                SecretsCommand::Key(_) => Self::default(),
            },
            Command::Nodes(args) => at(&args.storage),
            Command::Run(args) => Self {
                engine: args.engine.clone(),
                secrets: args.secrets.clone(),
                runs_own_file: true,
                ..Self::default()
            },
            Command::Validate(_)
            | Command::Start(_)
            | Command::Runs(_)
            | Command::Show(_)
            | Command::Journal(_)
            | Command::Follow(_)
            | Command::Logs(_)
            | Command::Signal(_)
            | Command::Act(_)
            | Command::Actions(_)
            | Command::History(_)
            | Command::Cancel(_)
            | Command::Pause(_)
            | Command::Resume(_)
            | Command::Retry(_)
            | Command::Fork(_)
            | Command::Publish(_)
            | Command::Events(_)
            | Command::Subscriptions(_)
            | Command::Dlq(_)
            | Command::Workflows(_)
            | Command::Import(_)
            | Command::Export(_)
            | Command::Delete(_)
            | Command::Workers(_)
            | Command::Open(_)
            | Command::Health(_)
            | Command::Openapi(_)
            | Command::Completions(_) => Self::default(),
        };
        // A disk that becomes full concerns a server; for a command that ends soon the line would only disturb scripts.
        let log_default = match cli.command {
            Command::Serve(_) => "info",
            _ => "everstep_store::sqlite::disk=error,warn",
        };
        Self { config: cli.config.clone(), log: cli.log.clone(), log_default, ..settings }
    }
}
