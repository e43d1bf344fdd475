//! The settings, which can be set in three ways: on the command line, in the environment, in the settings file.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches, ValueEnum};
use serde::Deserialize;

use crate::config::HumanDuration;

/// `[log]` in the settings file.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// What to log on standard error: error, warn, info, debug, trace, or a filter such as everstep_engine=debug,info.
    /// If it is not given, RUST_LOG is read [default: info for serve, else warn].
    #[arg(
        long,
        global = true,
        env = "EVERSTEP_LOG",
        hide_env_values = true,
        value_name = "FILTER",
        help_heading = "Global options"
    )]
    pub(crate) log: Option<String>,

    /// The format of log lines [default: text].
    #[arg(
        long,
        global = true,
        env = "EVERSTEP_LOG_FORMAT",
        hide_env_values = true,
        value_name = "FORMAT",
        help_heading = "Global options"
    )]
    pub(crate) log_format: Option<LogFormat>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// `[server]` in the settings file.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    /// The address to listen on; port 0 selects a free port [default: 127.0.0.1:7373].
    #[arg(long, env = "EVERSTEP_LISTEN", hide_env_values = true, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,

    /// The data folder, which is created if it does not exist: the SQLite database, which only one process at a time
    /// can use, and the first API key [default: ./data].
    #[arg(long, env = "EVERSTEP_DATA", hide_env_values = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// How long to wait for tasks in progress before stopping, such as 10s [default: 10s].
    #[arg(long, env = "EVERSTEP_SHUTDOWN_GRACE", hide_env_values = true, value_name = "DURATION")]
    pub(crate) shutdown_grace: Option<HumanDuration>,

    /// The maximum number of streams of this node: event streams, WebSockets, Socket.IO connections, and the runs
    /// that a connection follows. A workspace may have at most half of them [default: 2000].
    #[arg(long, env = "EVERSTEP_MAX_STREAMS", hide_env_values = true, value_name = "N")]
    pub(crate) max_streams: Option<usize>,

    /// The maximum number of streams of one API key at a node [default: 200].
    #[arg(long, env = "EVERSTEP_MAX_STREAMS_PER_KEY", hide_env_values = true, value_name = "N")]
    pub(crate) max_streams_per_key: Option<usize>,

    /// Requests per second that an API key may send to this server, if the key has no limit of its own; 0 for no limit
    /// [default: 1000].
    #[arg(long, env = "EVERSTEP_RATE_LIMIT", hide_env_values = true, value_name = "N")]
    pub(crate) rate_limit: Option<u32>,

    /// Requests per second that all API keys and people of a workspace may send to this server together; 0 for no limit.
    /// A key with a limit above --rate-limit does not count [default: four times --rate-limit].
    #[arg(long, env = "EVERSTEP_WORKSPACE_RATE_LIMIT", hide_env_values = true, value_name = "N")]
    pub(crate) workspace_rate_limit: Option<u32>,

    /// The maximum number of open HTTP connections; at least 16. When it is reached, the connection that has been idle for
    /// the longest time is closed for a new one [default: the limit of open files (ulimit -n), less a quarter of it
    /// and at most 4096].
    #[arg(long, env = "EVERSTEP_MAX_CONNECTIONS", hide_env_values = true, value_name = "N")]
    pub(crate) max_connections: Option<usize>,

    /// Memory for the bodies of requests that are being read or processed, in MiB; at least 72. A request for which there
    /// is no memory waits up to 5 s and is then rejected; an API key may use at most a quarter [default: 256].
    #[arg(long, env = "EVERSTEP_BODY_MEMORY_MIB", hide_env_values = true, value_name = "MIB")]
    pub(crate) body_memory_mib: Option<usize>,

    /// The maximum size of an uploaded file in bytes; from 1 to 262144000 (250 MiB) [default: 26214400].
    #[arg(long, env = "EVERSTEP_FILE_MAX_BYTES", hide_env_values = true, value_name = "BYTES")]
    pub(crate) file_max_bytes: Option<u64>,

    /// Whether browsers receive the web console at / [default: true].
    #[arg(
        long,
        env = "EVERSTEP_CONSOLE",
        hide_env_values = true,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub(crate) console: Option<bool>,
}

impl ServerSettings {
    /// The settings of a command that does not listen: only its data folder.
    pub fn in_folder(data: Option<PathBuf>) -> Self {
        Self { data, ..Self::default() }
    }
}

/// `[secrets]` in the settings file.
#[derive(Clone, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretsSettings {
    /// The key with which secrets are sealed: 32 bytes, as hexadecimal digits or in base64, the same on all servers of
    /// a database; set it in the environment rather than in the file. `everstep secrets key` creates one [default: with
    /// SQLite one that is created and stored in secrets.key in the data folder; with PostgreSQL none, and secrets are
    /// rejected].
    #[arg(
        long,
        env = "EVERSTEP_SECRETS_KEY",
        hide_env_values = true,
        value_name = "KEY",
        help_heading = "Secrets options"
    )]
    pub(crate) secrets_key: Option<String>,

    /// Earlier keys, separated by commas, with which the server decrypts secrets that were not set again since. A
    /// secret that is set again is sealed with --secrets-key.
    #[arg(
        long,
        env = "EVERSTEP_SECRETS_OLD_KEYS",
        hide_env_values = true,
        value_name = "KEYS",
        help_heading = "Secrets options"
    )]
    pub(crate) secrets_old_keys: Option<String>,
}

impl fmt::Debug for SecretsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretsSettings(…)")
    }
}

/// A server that a command uses over HTTP. Not in the settings file, because it belongs to the user of the command.
#[derive(Clone, Default)]
pub(crate) struct RemoteSettings {
    pub(crate) server: Option<String>,
    pub(crate) api_key: Option<String>,
}

#[derive(clap::Args)]
struct RemoteArgs {
    /// The URL of a running server, such as http://127.0.0.1:7373. Commands that can use the database directly send
    /// their requests to this server instead.
    #[arg(long, env = "EVERSTEP_URL", hide_env_values = true, value_name = "URL", help_heading = "Server options")]
    server: Option<String>,

    /// The former name of EVERSTEP_URL.
    #[arg(long, env = "EVERSTEP_SERVER", hide = true, hide_env_values = true, value_name = "URL")]
    former_server: Option<String>,

    /// The API key for the server; other users of the machine may see a flag, so prefer the variable.
    #[arg(long, env = "EVERSTEP_API_KEY", hide_env_values = true, value_name = "KEY", help_heading = "Server options")]
    api_key: Option<String>,
}

impl FromArgMatches for RemoteSettings {
    /// The flag overrides both variables. Two variables that name different servers are an error.
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let RemoteArgs { server, former_server, api_key } = RemoteArgs::from_arg_matches(matches)?;
        let is_flag = matches.value_source("server") == Some(ValueSource::CommandLine);
        let server = server.filter(|url| is_flag || !url.is_empty());
        let former_server = former_server.filter(|url| !is_flag && !url.is_empty());
        let base = |url: &str| url.trim_end_matches('/').to_owned();
        if let (Some(url), Some(former)) = (&server, &former_server)
            && base(url) != base(former)
        {
            let message = "EVERSTEP_URL and EVERSTEP_SERVER name different servers; set only EVERSTEP_URL (EVERSTEP_SERVER is its former name)\n";
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, message));
        }
        Ok(Self { server: server.or(former_server), api_key })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for RemoteSettings {
    fn augment_args(command: clap::Command) -> clap::Command {
        RemoteArgs::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        RemoteArgs::augment_args_for_update(command)
    }
}

impl fmt::Debug for RemoteSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RemoteSettings(…)")
    }
}

/// The location of the data, for commands that only read it.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct StorageSettings {
    /// The data folder with the SQLite database, unless --database-url is set [default: ./data].
    #[arg(long, env = "EVERSTEP_DATA", hide_env_values = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) database: DatabaseSettings,
}

/// `[database]` in the settings file.
#[derive(Clone, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSettings {
    /// A PostgreSQL database (14 or later) that several nodes may share: postgres://user:password@host:port/name.
    /// Without it an SQLite database in the data folder stores all data.
    #[arg(
        long,
        env = "EVERSTEP_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL",
        help_heading = "Database options"
    )]
    pub(crate) database_url: Option<String>,

    /// Whether a connection pooler, such as PgBouncer in transaction mode, is between the server and PostgreSQL
    /// [default: false].
    #[arg(
        long,
        env = "EVERSTEP_DATABASE_POOLED",
        hide_env_values = true,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Database options"
    )]
    pub(crate) database_pooled: Option<bool>,

    /// The maximum number of connections to PostgreSQL [default: 10].
    #[arg(
        long,
        env = "EVERSTEP_DATABASE_CONNECTIONS",
        hide_env_values = true,
        value_name = "N",
        help_heading = "Database options"
    )]
    pub(crate) database_connections: Option<usize>,
}

impl fmt::Debug for DatabaseSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseSettings(…)")
    }
}

/// `[cluster]` in the settings file.
#[derive(Clone, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSettings {
    /// How long other nodes wait for a silent node before they take its runs; at least 500ms, and the same on all nodes
    /// [default: 10s].
    #[arg(
        long,
        env = "EVERSTEP_NODE_LEASE",
        hide_env_values = true,
        value_name = "DURATION",
        help_heading = "Cluster options (with PostgreSQL)"
    )]
    pub(crate) node_lease: Option<HumanDuration>,

    /// The address to listen on for other nodes [default: the host of --listen, with a free port].
    #[arg(
        long,
        env = "EVERSTEP_CLUSTER_LISTEN",
        hide_env_values = true,
        value_name = "ADDRESS",
        help_heading = "Cluster options (with PostgreSQL)"
    )]
    pub(crate) cluster_listen: Option<SocketAddr>,

    /// The address at which other nodes reach this one, as http://HOST:PORT [default: --cluster-listen; if that is
    /// 0.0.0.0, the local address from which the node reaches the database].
    #[arg(
        long,
        env = "EVERSTEP_ADVERTISE_URL",
        hide_env_values = true,
        value_name = "URL",
        help_heading = "Cluster options (with PostgreSQL)"
    )]
    pub(crate) advertise_url: Option<String>,

    /// The key with which nodes sign requests to each other; at least 32 characters, the same on all nodes; set it in
    /// the environment rather than in the file [default: one that the first node creates and the database stores].
    #[arg(
        long,
        env = "EVERSTEP_CLUSTER_KEY",
        hide_env_values = true,
        value_name = "KEY",
        help_heading = "Cluster options (with PostgreSQL)"
    )]
    pub(crate) cluster_key: Option<String>,
}

impl fmt::Debug for ClusterSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterSettings(…)")
    }
}

/// `[engine]` in the settings file.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSettings {
    /// The number of shards, the loops that own runs; 1 to 1024 [default: half the cores].
    #[arg(long, env = "EVERSTEP_SHARDS", hide_env_values = true, value_name = "N", help_heading = "Engine options")]
    pub(crate) shards: Option<usize>,

    /// The maximum number of runs in memory; further runs wait in the database until a place is free [default: 4096].
    #[arg(
        long,
        env = "EVERSTEP_MAX_ACTIVE_RUNS",
        hide_env_values = true,
        value_name = "N",
        help_heading = "Engine options"
    )]
    pub(crate) max_active_runs: Option<usize>,

    /// The maximum memory for the states of waiting runs, in MiB; beyond it, waiting runs are parked (removed from
    /// memory) [default: 256].
    #[arg(
        long,
        env = "EVERSTEP_MAX_STATE_MIB",
        hide_env_values = true,
        value_name = "MIB",
        help_heading = "Engine options"
    )]
    pub(crate) max_state_mib: Option<usize>,

    /// A waiting run in which nothing is due within this time is parked (removed from memory) [default: 30s].
    #[arg(
        long,
        env = "EVERSTEP_PARK_AFTER",
        hide_env_values = true,
        value_name = "DURATION",
        help_heading = "Engine options"
    )]
    pub(crate) park_after: Option<HumanDuration>,

    /// How long a worker of code workflows may be silent before its runs go to other workers; at least 500ms [default:
    /// 30s].
    #[arg(
        long,
        env = "EVERSTEP_WORKER_LEASE",
        hide_env_values = true,
        value_name = "DURATION",
        help_heading = "Engine options"
    )]
    pub(crate) worker_lease: Option<HumanDuration>,

    /// The maximum number of days for which a run is kept after its end, whatever its start requests [default: 365].
    #[arg(
        long,
        env = "WORKFLOWS_MAX_RETENTION_DAYS",
        hide_env_values = true,
        value_name = "DAYS",
        help_heading = "Engine options"
    )]
    pub(crate) max_retention_days: Option<u32>,

    /// Another name of WORKFLOWS_MAX_RETENTION_DAYS.
    #[arg(long, env = "EVERSTEP_MAX_RETENTION_DAYS", hide = true, hide_env_values = true, value_name = "DAYS")]
    #[serde(skip)]
    pub(crate) everstep_max_retention_days: Option<u32>,

    /// Milliseconds between two searches for runs whose retention has passed [default: 300000].
    #[arg(
        long,
        env = "WORKFLOWS_SWEEPER_INTERVAL_MS",
        hide_env_values = true,
        value_name = "MS",
        help_heading = "Engine options"
    )]
    pub(crate) sweeper_interval_ms: Option<u64>,

    /// Another name of WORKFLOWS_SWEEPER_INTERVAL_MS.
    #[arg(long, env = "EVERSTEP_SWEEPER_INTERVAL_MS", hide = true, hide_env_values = true, value_name = "MS")]
    #[serde(skip)]
    pub(crate) everstep_sweeper_interval_ms: Option<u64>,

    /// The maximum size of a record's value in the data store, in bytes of JSON: 1024 to 786432 [default: 262144].
    #[arg(
        long,
        env = "EVERSTEP_STORE_MAX_VALUE_BYTES",
        hide_env_values = true,
        value_name = "BYTES",
        help_heading = "Engine options"
    )]
    pub(crate) store_max_value_bytes: Option<usize>,

    /// The name of EVERSTEP_STORE_MAX_VALUE_BYTES in other engines.
    #[arg(long, env = "WORKFLOW_STORE_MAX_VALUE_BYTES", hide = true, hide_env_values = true, value_name = "BYTES")]
    #[serde(skip)]
    pub(crate) workflow_store_max_value_bytes: Option<usize>,

    /// The number of days for which changes of the data store are kept, 1 to 3650; those of a run are also kept while
    /// the run exists [default: 30].
    #[arg(
        long,
        env = "EVERSTEP_STORE_HISTORY_DAYS",
        hide_env_values = true,
        value_name = "DAYS",
        help_heading = "Engine options"
    )]
    pub(crate) store_history_days: Option<u32>,

    /// The number of days for which events and their results are kept, 1 to 90 [default: 7].
    #[arg(
        long,
        env = "EVERSTEP_EVENT_RETENTION_DAYS",
        hide_env_values = true,
        value_name = "DAYS",
        help_heading = "Engine options"
    )]
    pub(crate) event_retention_days: Option<u32>,

    /// The number of days for which a dead letter is kept after its last attempt, 1 to 3650. Delivered and discarded ones
    /// are kept for 7 days [default: 90].
    #[arg(
        long,
        env = "EVERSTEP_DEAD_LETTER_DAYS",
        hide_env_values = true,
        value_name = "DAYS",
        help_heading = "Engine options"
    )]
    pub(crate) dead_letter_days: Option<u32>,

    /// The URL that receives a POST for each new dead letter; it may have a private address [default: N8N_WEBHOOK_URL, else
    /// none, and the server logs a warning when it starts].
    #[arg(
        long,
        env = "EVERSTEP_OPS_WEBHOOK_URL",
        hide_env_values = true,
        value_name = "URL",
        help_heading = "Engine options"
    )]
    pub(crate) ops_webhook_url: Option<String>,

    /// The name of EVERSTEP_OPS_WEBHOOK_URL in other engines.
    #[arg(long, env = "N8N_WEBHOOK_URL", hide = true, hide_env_values = true, value_name = "URL")]
    #[serde(skip)]
    pub(crate) n8n_webhook_url: Option<String>,

    /// The mail server, such as smtp://user:password@mail.example.com:587 or smtps://mail.example.com: it receives the
    /// mails of workspaces that have no notifyUrl. STARTTLS is required for smtp://, unless the host is this machine
    /// [default: none].
    #[arg(
        long,
        env = "EVERSTEP_SMTP_URL",
        hide_env_values = true,
        value_name = "URL",
        help_heading = "Engine options"
    )]
    pub(crate) smtp_url: Option<String>,

    /// The sender of the mails, such as "Everstep <no-reply@example.com>"; required with --smtp-url [default: none].
    #[arg(
        long,
        env = "EVERSTEP_SMTP_FROM",
        hide_env_values = true,
        value_name = "ADDRESS",
        help_heading = "Engine options"
    )]
    pub(crate) smtp_from: Option<String>,

    /// The time between two searches for expired records and old changes of the data store [default: 60s].
    #[arg(
        long,
        env = "EVERSTEP_STORE_SWEEP",
        hide_env_values = true,
        value_name = "DURATION",
        help_heading = "Engine options"
    )]
    pub(crate) store_sweep: Option<HumanDuration>,

    /// Threads for javascript nodes [default: one fewer than there are cores].
    #[arg(
        long,
        env = "EVERSTEP_JAVASCRIPT_THREADS",
        hide_env_values = true,
        value_name = "N",
        help_heading = "Engine options"
    )]
    pub(crate) javascript_threads: Option<usize>,

    /// The maximum number of requests of http nodes that one workspace has in progress at a node [default: 128].
    #[arg(
        long,
        env = "EVERSTEP_MAX_HTTP_PER_WORKSPACE",
        hide_env_values = true,
        value_name = "N",
        help_heading = "Engine options"
    )]
    pub(crate) max_http_per_workspace: Option<usize>,

    /// The maximum number of requests of http nodes that one workspace has in progress with one host [default: 64].
    #[arg(
        long,
        env = "EVERSTEP_MAX_HTTP_PER_HOST",
        hide_env_values = true,
        value_name = "N",
        help_heading = "Engine options"
    )]
    pub(crate) max_http_per_host: Option<usize>,

    /// Memory for all requests of http nodes in progress, in MiB; each counts as 64 KiB [default: 64].
    #[arg(
        long,
        env = "EVERSTEP_MAX_HTTP_MIB",
        hide_env_values = true,
        value_name = "MIB",
        help_heading = "Engine options"
    )]
    pub(crate) max_http_mib: Option<usize>,

    /// The maximum number of webhooks that a node sends at the same time to one host, for one workspace. The same bound
    /// applies to mails, separately [default: 5].
    #[arg(
        long,
        env = "EVERSTEP_DELIVERY_PER_TARGET",
        hide_env_values = true,
        value_name = "N",
        help_heading = "Engine options"
    )]
    pub(crate) delivery_per_target: Option<usize>,

    /// The maximum number of webhooks that a node sends at the same time. The same bound applies to mails, separately
    /// [default: 256].
    #[arg(
        long,
        env = "EVERSTEP_DELIVERY_CONCURRENCY",
        hide_env_values = true,
        value_name = "N",
        help_heading = "Engine options"
    )]
    pub(crate) delivery_concurrency: Option<usize>,

    /// The longest timeout of a javascript node, at most an hour [default: 60s].
    #[arg(
        long,
        env = "EVERSTEP_JS_TIMEOUT_MAX",
        hide_env_values = true,
        value_name = "DURATION",
        help_heading = "Engine options"
    )]
    pub(crate) js_timeout_max: Option<HumanDuration>,

    /// Private addresses (loopback, private, reserved) that workflows may reach: networks separated by commas, such as
    /// 10.0.0.0/8,127.0.0.1, or all [default: none; with `everstep run`, all].
    #[arg(
        long,
        env = "EVERSTEP_ALLOW_ADDRESSES",
        hide_env_values = true,
        value_name = "NETWORKS",
        help_heading = "Engine options"
    )]
    pub(crate) allow_addresses: Option<String>,

    /// The folder whose SQLite files data sources may read [default: none, and no file is read].
    #[arg(
        long,
        env = "EVERSTEP_SQLITE_SOURCES_DIR",
        hide_env_values = true,
        value_name = "DIR",
        help_heading = "Engine options"
    )]
    pub(crate) sqlite_sources_dir: Option<PathBuf>,
}

/// `[telemetry]` in the settings file.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySettings {
    /// Serve /metrics also at this address, without an API key: for a network that only Prometheus reaches [default:
    /// none; /metrics at --listen needs an admin API key].
    #[arg(
        long,
        env = "EVERSTEP_METRICS_LISTEN",
        hide_env_values = true,
        value_name = "ADDRESS",
        help_heading = "Telemetry options"
    )]
    pub(crate) metrics_listen: Option<SocketAddr>,

    /// Send spans of runs, steps and signals by OTLP (HTTP, protobuf) [default: false].
    #[arg(
        long,
        env = "OTLP_ENABLED",
        hide_env_values = true,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Telemetry options"
    )]
    pub(crate) otlp_enabled: Option<bool>,

    /// The address to which spans are sent; OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME
    /// and OTEL_RESOURCE_ATTRIBUTES are read as well [default: http://localhost:4318].
    #[arg(long, env = "OTLP_ENDPOINT", hide_env_values = true, value_name = "URL", help_heading = "Telemetry options")]
    pub(crate) otlp_endpoint: Option<String>,
}
