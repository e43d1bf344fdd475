//! The effective settings: from the command line, the environment, the settings file and the defaults.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use everstep_api::auth::RATE_LIMIT_DEFAULT;
use everstep_api::auth::identity::IdentityOptions;
use everstep_api::{BodyOptions, FILE_BYTES_MAX, Streams};
use everstep_core::records::RecordLimits;
use everstep_engine::Options;
use everstep_handlers::{HttpBounds, MailServer, WebhookBounds};
use everstep_net::Guard;
use everstep_vault::SealKey;
use rustix::process::{Resource, getrlimit};
use serde::Deserialize;

use crate::cluster::Cluster;
use crate::command_settings::CommandSettings;
use crate::database::{DatabaseConfig, refuse_alone};
use crate::environment;
use crate::exit::invalid;
use crate::identity::IdentitySettings;
use crate::ops_notices::OpsUrl;
use crate::settings::{
    ClusterSettings, DatabaseSettings, EngineSettings, LogFormat, LogSettings, SecretsSettings, ServerSettings,
    TelemetrySettings,
};
use crate::telemetry::Telemetry;

/// The range of the number of shards. Thousands of them take gigabytes of memory, and delay the stop of the node.
const SHARDS: RangeInclusive<usize> = 1..=1_024;
/// The range of days for which changes of the data store are kept.
const HISTORY_DAYS: RangeInclusive<u32> = 1..=3_650;
/// The range of days for which events are kept.
const EVENT_RETENTION_DAYS: RangeInclusive<u32> = 1..=90;
/// The range of days for which dead letters are kept.
const DEAD_LETTER_DAYS: RangeInclusive<u32> = 1..=3_650;
/// The range of the longest timeout of a script.
const JS_TIMEOUT_MAX: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_600);
/// A node must be able to renew its lease several times before it expires.
const LEASE_MIN: Duration = Duration::from_millis(500);

const MIB: usize = 1024 * 1024;

/// The effective settings.
#[derive(Clone, Debug)]
pub struct Config {
    pub log: LogConfig,
    pub server: ServerConfig,
    pub database: DatabaseConfig,
    pub(crate) cluster: Cluster,
    pub(crate) engine: EngineConfig,
    pub(crate) telemetry: Telemetry,
    pub(crate) secrets: SecretsConfig,
    /// The identity provider, if the server accepts tokens.
    pub(crate) identity: Option<IdentityOptions>,
}

#[derive(Clone, Debug)]
pub(crate) struct SecretsConfig {
    pub(crate) key: Option<SealKey>,
    pub(crate) old_keys: Vec<SealKey>,
}

#[derive(Clone, Debug)]
pub struct LogConfig {
    pub(crate) filter: String,
    pub(crate) format: LogFormat,
}

#[derive(Clone, Debug)]
pub struct ServerConfig {
    pub(crate) listen: SocketAddr,
    pub data: PathBuf,
    pub(crate) shutdown_grace: Duration,
    pub(crate) streams: Streams,
    /// Requests per second of an API key without its own limit; 0 for no limit.
    pub(crate) rate_limit: u32,
    /// Requests per second of all callers of a workspace, if it is set; 0 for no limit.
    pub(crate) workspace_rate_limit: Option<u32>,
    /// The maximum number of open connections.
    pub(crate) connections_max: usize,
    /// The bounds of reading the bodies of requests.
    pub(crate) bodies: BodyOptions,
    /// The bound of an uploaded file, if one is set.
    pub(crate) file_bytes_max: Option<u64>,
    /// Whether browsers receive the web console.
    pub(crate) serves_console: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct EngineConfig {
    pub(crate) options: Options,
    pub(crate) javascript_threads: Option<usize>,
    pub(crate) http: HttpBounds,
    pub(crate) webhooks: WebhookBounds,
    /// The longest timeout of a script.
    pub(crate) js_timeout_max: Duration,
    /// The addresses that workflows may reach.
    pub(crate) guard: Guard,
    /// The folder of SQLite files that data sources may read.
    pub(crate) sqlite_sources: Option<PathBuf>,
    /// Whether scripts of every workspace may use `fetch`.
    pub(crate) allows_fetch: bool,
    /// The address that is notified of dead letters.
    pub(crate) ops_url: Option<OpsUrl>,
    /// The server that receives mails.
    pub(crate) mail_server: Option<MailServer>,
}

/// The settings file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    log: LogSettings,
    server: ServerSettings,
    database: DatabaseSettings,
    cluster: ClusterSettings,
    engine: EngineSettings,
    secrets: SecretsSettings,
    identity: IdentitySettings,
    /// From roles of people to permissions.
    roles: BTreeMap<String, String>,
    /// From permissions of other systems to those of this server.
    permissions: BTreeMap<String, String>,
    telemetry: TelemetrySettings,
}

impl Config {
    /// Flags override the environment (which the command's settings include), and the environment overrides the file.
    pub fn load(command: &CommandSettings) -> anyhow::Result<Self> {
        environment::check(environment::variables())?;
        let file = command.config.as_deref().map(read_file).transpose()?.unwrap_or_default();
        let file = if command.uses_database {
            file
        } else {
            File { database: Default::default(), cluster: Default::default(), ..file }
        };
        let rust_log = std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
        let log = LogConfig {
            filter: command
                .log
                .log
                .clone()
                .or(file.log.log)
                .or(rust_log)
                .unwrap_or_else(|| command.log_default.to_owned()),
            format: command.log.log_format.or(file.log.log_format).unwrap_or_default(),
        };
        let streams = streams(&command.server, &file.server)?;
        let bodies = bodies(&command.server, &file.server)?;
        let file_bytes_max = file_bytes_max(command.server.file_max_bytes.or(file.server.file_max_bytes))?;
        let connections_max = connections_max(&command.server, &file.server)?;
        let server = ServerConfig {
            listen: command.server.listen.or(file.server.listen).unwrap_or((Ipv4Addr::LOCALHOST, 7373).into()),
            data: command.server.data.clone().or(file.server.data).unwrap_or_else(|| PathBuf::from("./data")),
            shutdown_grace: command
                .server
                .shutdown_grace
                .or(file.server.shutdown_grace)
                .map_or(Duration::from_secs(10), |span| span.0),
            streams,
            rate_limit: command.server.rate_limit.or(file.server.rate_limit).unwrap_or(RATE_LIMIT_DEFAULT),
            workspace_rate_limit: command.server.workspace_rate_limit.or(file.server.workspace_rate_limit),
            connections_max,
            bodies,
            file_bytes_max,
            serves_console: command.server.console.or(file.server.console).unwrap_or(true),
        };
        let secrets = SecretsConfig::new(&command.secrets, &file.secrets)?;
        let identity = if command.serves_people {
            command.identity.clone().or(file.identity).options(file.roles, &file.permissions)?
        } else {
            None
        };
        let mut database = DatabaseConfig::new(&command.database, &file.database)?;
        let cluster = Cluster::new(&command.cluster, &file.cluster, server.listen, database.is_shared())?;
        let mut engine = EngineConfig::new(&command.engine, &file.engine, command.runs_own_file)?;
        if let Some(HumanDuration(lease)) = command.cluster.node_lease.or(file.cluster.node_lease) {
            refuse_alone("node-lease", !database.is_shared())?;
            if lease < LEASE_MIN {
                return Err(invalid(format!("node-lease must be at least {} ms", LEASE_MIN.as_millis())));
            }
            engine.options.node_lease = lease;
        }
        if let DatabaseConfig::Postgres { options, .. } = &mut database {
            options.heartbeat_timeout = engine.options.node_lease / 2;
        }
        let telemetry = Telemetry::new(&command.telemetry, &file.telemetry)?;
        Ok(Self { log, server, database, cluster, engine, secrets, identity, telemetry })
    }
}

impl SecretsConfig {
    fn new(typed: &SecretsSettings, file: &SecretsSettings) -> anyhow::Result<Self> {
        let read = |name: &str, text: &str| text.parse().map_err(|error| invalid(format!("{name}: {error}")));
        let key = typed.secrets_key.as_ref().or(file.secrets_key.as_ref());
        let old = typed.secrets_old_keys.as_ref().or(file.secrets_old_keys.as_ref());
        let old = old.map_or("", |text| text).split(',').filter(|text| !text.trim().is_empty());
        Ok(Self {
            key: key.map(|text| read("secrets-key", text)).transpose()?,
            old_keys: old.map(|text| read("secrets-old-keys", text)).collect::<anyhow::Result<_>>()?,
        })
    }
}

impl EngineConfig {
    fn new(typed: &EngineSettings, file: &EngineSettings, runs_own_file: bool) -> anyhow::Result<Self> {
        let defaults = Options::default();
        let retention_days = agreed(
            "max-retention-days",
            ("WORKFLOWS_MAX_RETENTION_DAYS", typed.max_retention_days),
            ("EVERSTEP_MAX_RETENTION_DAYS", typed.everstep_max_retention_days),
        )?;
        let sweeper_interval_ms = agreed(
            "sweeper-interval-ms",
            ("WORKFLOWS_SWEEPER_INTERVAL_MS", typed.sweeper_interval_ms),
            ("EVERSTEP_SWEEPER_INTERVAL_MS", typed.everstep_sweeper_interval_ms),
        )?;
        let options = Options {
            shards: match typed.shards.or(file.shards) {
                Some(shards) if !SHARDS.contains(&shards) => {
                    let (least, most) = (SHARDS.start(), SHARDS.end());
                    return Err(invalid(format!("shards must be from {least} to {most}")));
                }
                shards => shards.unwrap_or(defaults.shards),
            },
            max_active_runs: at_least_one(
                "max-active-runs",
                typed.max_active_runs.or(file.max_active_runs),
                defaults.max_active_runs,
            )?,
            max_state_bytes: typed
                .max_state_mib
                .or(file.max_state_mib)
                .map_or(defaults.max_state_bytes, |mib| mib.saturating_mul(MIB)),
            park_after: typed.park_after.or(file.park_after).map_or(defaults.park_after, |span| span.0),
            worker_lease: match typed.worker_lease.or(file.worker_lease) {
                Some(HumanDuration(lease)) if lease < LEASE_MIN => {
                    return Err(invalid(format!("worker-lease must be at least {} ms", LEASE_MIN.as_millis())));
                }
                lease => lease.map_or(defaults.worker_lease, |span| span.0),
            },
            max_retention_days: match retention_days.or(file.max_retention_days) {
                Some(0) => return Err(invalid("max-retention-days must be at least 1")),
                days => days.unwrap_or(defaults.max_retention_days),
            },
            sweep_every: match sweeper_interval_ms.or(file.sweeper_interval_ms) {
                Some(0) => return Err(invalid("sweeper-interval-ms must be at least 1")),
                interval => interval.map_or(defaults.sweep_every, Duration::from_millis),
            },
            record_limits: RecordLimits { value_bytes: value_bytes(typed, file)? },
            record_history_days: match typed.store_history_days.or(file.store_history_days) {
                Some(days) if !HISTORY_DAYS.contains(&days) => {
                    let (least, most) = (HISTORY_DAYS.start(), HISTORY_DAYS.end());
                    return Err(invalid(format!("store-history-days must be from {least} to {most}")));
                }
                days => days.unwrap_or(defaults.record_history_days),
            },
            event_retention_days: match typed.event_retention_days.or(file.event_retention_days) {
                Some(days) if !EVENT_RETENTION_DAYS.contains(&days) => {
                    let (least, most) = (EVENT_RETENTION_DAYS.start(), EVENT_RETENTION_DAYS.end());
                    return Err(invalid(format!("event-retention-days must be from {least} to {most}")));
                }
                days => days.unwrap_or(defaults.event_retention_days),
            },
            dead_letter_days: match typed.dead_letter_days.or(file.dead_letter_days) {
                Some(days) if !DEAD_LETTER_DAYS.contains(&days) => {
                    let (least, most) = (DEAD_LETTER_DAYS.start(), DEAD_LETTER_DAYS.end());
                    return Err(invalid(format!("dead-letter-days must be from {least} to {most}")));
                }
                days => days.unwrap_or(defaults.dead_letter_days),
            },
            record_sweep_every: match typed.store_sweep.or(file.store_sweep) {
                Some(HumanDuration(Duration::ZERO)) => return Err(invalid("store-sweep must be at least 1ms")),
                period => period.map_or(defaults.record_sweep_every, |span| span.0),
            },
            ..defaults
        };
        let javascript_threads = match typed.javascript_threads.or(file.javascript_threads) {
            Some(0) => return Err(invalid("javascript-threads must be at least 1")),
            threads => threads,
        };
        let http = http_bounds(typed, file)?;
        let webhooks = webhook_bounds(typed, file)?;
        let js_timeout_max = match typed.js_timeout_max.or(file.js_timeout_max) {
            Some(HumanDuration(longest)) if !JS_TIMEOUT_MAX.contains(&longest) => {
                return Err(invalid("js-timeout-max must be from 1s to 1h"));
            }
            longest => longest.map_or(everstep_sandbox::TIMEOUT_MAX_DEFAULT, |span| span.0),
        };
        let guard = match typed.allow_addresses.as_deref().or(file.allow_addresses.as_deref()) {
            Some(networks) => networks.parse().map_err(|error| invalid(format!("allow-addresses: {error}")))?,
            // A user who runs a local file can reach the same addresses without Everstep.
            None if runs_own_file => Guard::open(),
            None => Guard::default(),
        };
        let sqlite_sources = typed.sqlite_sources_dir.clone().or_else(|| file.sqlite_sources_dir.clone());
        let allows_fetch = runs_own_file;
        let ops_url = ops_url(typed, file)?;
        Ok(Self {
            options,
            javascript_threads,
            http,
            webhooks,
            js_timeout_max,
            guard,
            sqlite_sources,
            allows_fetch,
            ops_url,
            mail_server: mail_server(typed, file)?,
        })
    }
}

/// The address that is notified of dead letters. Its text may contain a secret, and is not part of a message.
fn ops_url(typed: &EngineSettings, file: &EngineSettings) -> anyhow::Result<Option<OpsUrl>> {
    let set = [
        ("ops-webhook-url", &typed.ops_webhook_url),
        ("ops-webhook-url", &file.ops_webhook_url),
        ("N8N_WEBHOOK_URL", &typed.n8n_webhook_url),
    ];
    let mut set = set.into_iter().filter_map(|(name, url)| Some((name, url.as_deref().filter(|url| !url.is_empty())?)));
    let Some((name, url)) = set.next() else { return Ok(None) };
    url.parse().map(Some).map_err(|error| invalid(format!("{name} {error}")))
}

/// The mail server. Its URL may contain a password, and is not part of a message.
fn mail_server(typed: &EngineSettings, file: &EngineSettings) -> anyhow::Result<Option<MailServer>> {
    let find = |typed: &Option<String>, file: &Option<String>| {
        let set = typed.clone().or_else(|| file.clone());
        set.filter(|text| !text.trim().is_empty())
    };
    match (find(&typed.smtp_url, &file.smtp_url), find(&typed.smtp_from, &file.smtp_from)) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(invalid("smtp-url needs smtp-from, the sender of the mails")),
        (None, Some(_)) => Err(invalid("smtp-from has no effect without smtp-url, the mail server")),
        (Some(url), Some(from)) => MailServer::new(&url, &from).map(Some).map_err(|error| {
            let name = if error.is_sender { "smtp-from" } else { "smtp-url" };
            invalid(format!("{name} {}", error.message))
        }),
    }
}

fn http_bounds(typed: &EngineSettings, file: &EngineSettings) -> anyhow::Result<HttpBounds> {
    let defaults = HttpBounds::default();
    let per_workspace = typed.max_http_per_workspace.or(file.max_http_per_workspace);
    let per_host = typed.max_http_per_host.or(file.max_http_per_host);
    let mib = at_least_one("max-http-mib", typed.max_http_mib.or(file.max_http_mib), defaults.memory_bytes / MIB)?;
    Ok(HttpBounds {
        workspace_max: at_least_one("max-http-per-workspace", per_workspace, defaults.workspace_max)?,
        host_max: at_least_one("max-http-per-host", per_host, defaults.host_max)?,
        memory_bytes: mib.saturating_mul(MIB),
    })
}

fn webhook_bounds(typed: &EngineSettings, file: &EngineSettings) -> anyhow::Result<WebhookBounds> {
    let defaults = WebhookBounds::default();
    let per_target = typed.delivery_per_target.or(file.delivery_per_target);
    let places = typed.delivery_concurrency.or(file.delivery_concurrency);
    Ok(WebhookBounds {
        target_max: at_least_one("delivery-per-target", per_target, defaults.target_max)?,
        places: at_least_one("delivery-concurrency", places, defaults.places)?,
    })
}

/// The value of a setting whose variable has another name. The two variables must not contradict each other.
fn agreed<T: Copy + Display + PartialEq>(
    name: &str,
    (variable, given): (&str, Option<T>),
    (other_variable, other): (&str, Option<T>),
) -> anyhow::Result<Option<T>> {
    match (given, other) {
        (Some(given), Some(other)) if given != other => {
            Err(invalid(format!("{name} is {given} and {other_variable} is {other}; set only {variable}")))
        }
        (given, other) => Ok(given.or(other)),
    }
}

/// The maximum size of a value.
fn value_bytes(typed: &EngineSettings, file: &EngineSettings) -> anyhow::Result<usize> {
    let given = agreed(
        "store-max-value-bytes",
        ("EVERSTEP_STORE_MAX_VALUE_BYTES", typed.store_max_value_bytes),
        ("WORKFLOW_STORE_MAX_VALUE_BYTES", typed.workflow_store_max_value_bytes),
    )?;
    let bytes = given.or(file.store_max_value_bytes);
    let (least, most) = (RecordLimits::VALUE_BYTES.start(), RecordLimits::VALUE_BYTES.end());
    match bytes {
        Some(bytes) if !RecordLimits::VALUE_BYTES.contains(&bytes) => {
            Err(invalid(format!("store-max-value-bytes must be from {least} to {most}")))
        }
        bytes => Ok(bytes.unwrap_or(RecordLimits::default().value_bytes)),
    }
}

fn streams(typed: &ServerSettings, file: &ServerSettings) -> anyhow::Result<Streams> {
    let defaults = Streams::default();
    let per_key = typed.max_streams_per_key.or(file.max_streams_per_key);
    let per_node = at_least_one("max-streams", typed.max_streams.or(file.max_streams), defaults.per_node)?;
    Ok(Streams::shared(per_node, at_least_one("max-streams-per-key", per_key, defaults.per_key)?))
}

const CONNECTIONS_MIN: usize = 16;
/// Open files of the process that are never connections of clients: those of the database, of data sources, and
/// connections to other servers. A quarter of all, but not more than this.
const OTHER_FILES_MAX: u64 = 4_096;

fn connections_max(typed: &ServerSettings, file: &ServerSettings) -> anyhow::Result<usize> {
    match typed.max_connections.or(file.max_connections) {
        Some(count) if count < CONNECTIONS_MIN => {
            Err(invalid(format!("max-connections must be at least {CONNECTIONS_MIN}")))
        }
        Some(count) => Ok(count),
        None => Ok(connections_of_files(getrlimit(Resource::Nofile).current)),
    }
}

/// The number of connections for a process that may open this many files; none for no limit.
fn connections_of_files(files: Option<u64>) -> usize {
    let connections = files.map_or(u64::MAX, |files| files - (files / 4).min(OTHER_FILES_MAX));
    usize::try_from(connections).unwrap_or(usize::MAX).max(CONNECTIONS_MIN)
}

/// The least memory for bodies: a quarter of it is enough for the largest body.
const BODY_MEMORY_MIB_MIN: usize = 72;

fn bodies(typed: &ServerSettings, file: &ServerSettings) -> anyhow::Result<BodyOptions> {
    let defaults = BodyOptions::default();
    match typed.body_memory_mib.or(file.body_memory_mib) {
        Some(mib) if mib < BODY_MEMORY_MIB_MIN => {
            Err(invalid(format!("body-memory-mib must be at least {BODY_MEMORY_MIB_MIN}")))
        }
        Some(mib) => Ok(BodyOptions { bytes_max: (mib as u64).saturating_mul(1024 * 1024), ..defaults }),
        None => Ok(defaults),
    }
}

fn file_bytes_max(given: Option<u64>) -> anyhow::Result<Option<u64>> {
    match given {
        Some(bytes) if !(1..=FILE_BYTES_MAX).contains(&bytes) => {
            Err(invalid(format!("file-max-bytes must be from 1 to {FILE_BYTES_MAX}")))
        }
        given => Ok(given),
    }
}

fn at_least_one(name: &str, given: Option<usize>, default: usize) -> anyhow::Result<usize> {
    match given {
        Some(0) => Err(invalid(format!("{name} must be at least 1"))),
        given => Ok(given.unwrap_or(default)),
    }
}

fn read_file(path: &Path) -> anyhow::Result<File> {
    let read = || format!("reading the settings in {}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| invalid(error.to_string())).with_context(read)?;
    toml::from_str(&text).map_err(|error| invalid(error.to_string().trim_end())).with_context(read)
}

/// The settings in a file, by name.
pub(crate) fn read_values(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    // Its content was found valid before.
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let mut tables: BTreeMap<String, BTreeMap<String, toml::Value>> = toml::from_str(&text)?;
    // The names in these tables are those of an identity provider, not of settings.
    tables.retain(|table, _| !["roles", "permissions"].contains(&&**table));
    let values = tables.into_values().flatten();
    Ok(values.map(|(name, value)| (name, value.as_str().map_or_else(|| value.to_string(), str::to_owned))).collect())
}

/// Whether the settings file may have this key in this table.
#[cfg(test)]
pub(crate) fn is_key(table: &str, key: &str) -> bool {
    // No setting is a table, so a known key is rejected because of its value.
    let error = toml::from_str::<File>(&format!("[{table}]\n{key} = {{}}")).expect_err("no setting is a table");
    !error.to_string().contains("unknown field")
}

/// A duration as people write it: `500ms`, `10s`, `5m`, `2h`, `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct HumanDuration(pub(crate) Duration);

impl FromStr for HumanDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = &text[..text.len() - unit.len()];
        let millis = match unit {
            "ms" => Some(1),
            "s" => Some(1_000),
            "m" => Some(60_000),
            "h" => Some(3_600_000),
            "d" => Some(86_400_000),
            _ => None,
        };
        let total = number.parse::<u64>().ok().zip(millis).and_then(|(number, unit)| number.checked_mul(unit));
        let total = total
            .ok_or_else(|| format!("{text:?} is not a valid duration; write for example 500ms, 10s, 5m, 2h or 7d"))?;
        Ok(Self(Duration::from_millis(total)))
    }
}

impl TryFrom<String> for HumanDuration {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let read = |text: &str| text.parse::<HumanDuration>().map(|span| span.0.as_millis());
        assert_eq!(read("500ms"), Ok(500));
        assert_eq!(read("10s"), Ok(10_000));
        assert_eq!(read("7d"), Ok(604_800_000));
        for wrong in ["", "10", "s", "-1s", "1.5s", "1w", "99999999999999999999s", "18446744073709551615d", "5é"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn connections_leave_files_for_the_database() {
        let of = |files| connections_of_files(Some(files));
        assert_eq!([of(0), of(256), of(1_024), of(65_536)], [16, 192, 768, 61_440]);
        assert_eq!(connections_of_files(None), usize::MAX);
    }

    #[test]
    fn the_size_of_a_value_has_two_variables_that_must_agree() {
        let settings = |bytes, other| EngineSettings {
            store_max_value_bytes: bytes,
            workflow_store_max_value_bytes: other,
            ..EngineSettings::default()
        };
        let read = |typed: EngineSettings| {
            value_bytes(&typed, &settings(Some(4_096), None)).map_err(|error| error.to_string())
        };
        assert_eq!(read(settings(None, None)), Ok(4_096));
        assert_eq!(read(settings(None, Some(2_048))), Ok(2_048));
        assert_eq!(read(settings(Some(2_048), Some(2_048))), Ok(2_048));
        let differ = read(settings(Some(2_048), Some(2_049))).unwrap_err();
        assert!(differ.contains("set only EVERSTEP_STORE_MAX_VALUE_BYTES"), "{differ}");
        for bytes in [1_023, 768 * 1024 + 1] {
            assert!(read(settings(Some(bytes), None)).unwrap_err().contains("must be from 1024 to 786432"));
        }
    }

    #[test]
    fn the_settings_of_the_retention_have_two_variables_that_must_agree() {
        let read = |days, other_days, millis, other_millis| {
            let typed = EngineSettings {
                max_retention_days: days,
                everstep_max_retention_days: other_days,
                sweeper_interval_ms: millis,
                everstep_sweeper_interval_ms: other_millis,
                ..EngineSettings::default()
            };
            let file = EngineSettings { max_retention_days: Some(90), ..EngineSettings::default() };
            let options = EngineConfig::new(&typed, &file, false).map(|config| config.options);
            let read = options.map(|options| (options.max_retention_days, options.sweep_every.as_millis()));
            read.map_err(|error| error.to_string())
        };
        let default = Options::default().sweep_every.as_millis();
        assert_eq!(read(None, None, None, None), Ok((90, default)));
        assert_eq!(read(None, Some(10), None, Some(50)), Ok((10, 50)));
        assert_eq!(read(Some(10), Some(10), Some(50), None), Ok((10, 50)));
        for ((days, other_days, millis, other_millis), message) in [
            ((Some(10), Some(11), None, None), "set only WORKFLOWS_MAX_RETENTION_DAYS"),
            ((None, None, Some(50), Some(51)), "set only WORKFLOWS_SWEEPER_INTERVAL_MS"),
            ((None, Some(0), None, None), "max-retention-days must be at least 1"),
            ((None, None, None, Some(0)), "sweeper-interval-ms must be at least 1"),
        ] {
            let error = read(days, other_days, millis, other_millis).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn the_number_of_shards_and_of_threads_is_bounded() {
        let read = |shards, javascript_threads| {
            let typed = EngineSettings { shards, javascript_threads, ..EngineSettings::default() };
            let config = EngineConfig::new(&typed, &EngineSettings::default(), false);
            config.map(|config| config.options.shards).map_err(|error| error.to_string())
        };
        assert_eq!((read(Some(1), Some(1)), read(Some(1_024), None)), (Ok(1), Ok(1_024)));
        for shards in [0, 1_025, 20_000] {
            assert_eq!(read(Some(shards), None), Err("shards must be from 1 to 1024".to_owned()));
        }
        assert_eq!(read(None, Some(0)), Err("javascript-threads must be at least 1".to_owned()));
    }

    #[test]
    fn a_mail_server_that_cannot_be_used_is_refused() {
        let settings = |url: Option<&str>, from: Option<&str>| EngineSettings {
            smtp_url: url.map(str::to_owned),
            smtp_from: from.map(str::to_owned),
            ..EngineSettings::default()
        };
        let read = |url, from| {
            let read = mail_server(&settings(url, from), &EngineSettings::default());
            read.map(|server| server.is_some()).map_err(|error| error.to_string())
        };
        let (url, from) = (Some("smtp://ann:pw@mail.example.com"), Some("Everstep <no-reply@example.com>"));
        assert_eq!((read(None, None), read(url, from), read(Some(""), Some(" "))), (Ok(false), Ok(true), Ok(false)));
        for (url, from, message) in [
            (url, None, "smtp-url needs smtp-from, the sender of the mails"),
            (None, from, "smtp-from has no effect without smtp-url, the mail server"),
            (Some("mail.example.com:587"), from, "smtp-url must begin with smtp:// or smtps://"),
            (Some("smtp://ann@mail.example.com"), from, "smtp-url must have both a user and a password, or neither"),
            (
                url,
                Some("no address"),
                "smtp-from is not the address of a mail; write for example `Everstep <no-reply@example.com>`",
            ),
        ] {
            assert_eq!(read(url, from), Err(message.to_owned()), "{url:?} {from:?}");
        }
    }

    #[test]
    fn an_unknown_key_in_the_file_is_refused() {
        let error = toml::from_str::<File>("[server]\nlisten = \"127.0.0.1:1\"\ndatta = \"x\"").unwrap_err();
        assert!(error.to_string().contains("unknown field `datta`"), "{error}");
        let file = toml::from_str::<File>("[engine]\npark_after = \"1m\"\n[log]\nlog_format = \"json\"").unwrap();
        assert_eq!(file.engine.park_after, Some(HumanDuration(Duration::from_secs(60))));
        assert_eq!(file.log.log_format, Some(LogFormat::Json));
    }
}
