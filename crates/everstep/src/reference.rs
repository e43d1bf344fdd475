//! The page of all settings, `docs/reference/configuration.md`.
//!
//! `BLESS=1 cargo test -p everstep reference` writes it again.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Args, Command};
use everstep_testkit::contents;

use crate::commands::config::default_of;
use crate::config::is_key;
use crate::environment::known_variables;
use crate::identity::IdentitySettings;
use crate::settings::{
    ClusterSettings, DatabaseSettings, EngineSettings, LogSettings, RemoteSettings, SecretsSettings, ServerSettings,
    TelemetrySettings,
};

const HEAD: &str = "\
# Configuration

<!-- Generated from the settings by `BLESS=1 cargo test -p everstep reference`. -->

Every setting can be set in three ways: by a flag, by an environment variable, and in the TOML file that `--config` or `EVERSTEP_CONFIG` names.
A flag overrides the environment, and the environment overrides the file.
Unknown flags, unknown keys of the file, and unknown variables that begin with `EVERSTEP_` are rejected, except the variables that Kubernetes sets for a service.
A variable that begins with `WORKFLOW_` or `WORKFLOWS_` is rejected if its name is nearly that of a setting.
`everstep config` shows the effective settings and their sources; it accepts the flags of `everstep serve`, and shows no secret.
Durations are written as `500ms`, `10s`, `5m`, `2h` or `7d`.

```toml
[server]
listen = \"0.0.0.0:7373\"
data = \"/var/lib/everstep\"

[engine]
park_after = \"1m\"
```
";

const TAIL: &str = "
`EVERSTEP_SERVER`, the former name of `EVERSTEP_URL`, is accepted too.
If both are set and name different servers, a command that would use them fails; with `--server` it uses neither.
`WORKFLOW_STORE_MAX_VALUE_BYTES` is another name of `EVERSTEP_STORE_MAX_VALUE_BYTES`, `EVERSTEP_MAX_RETENTION_DAYS` of `WORKFLOWS_MAX_RETENTION_DAYS`, and `EVERSTEP_SWEEPER_INTERVAL_MS` of `WORKFLOWS_SWEEPER_INTERVAL_MS`; if both names of a setting are set and differ, the server does not start.
`N8N_WEBHOOK_URL` is read if `EVERSTEP_OPS_WEBHOOK_URL` is not set.

## Roles and permissions of people

Two tables of the file map the words of an identity provider; see [people and tokens](../guides/people.md#roles-and-permissions).
They have no flags and no variables.

```toml
[roles]
Clerk = \"workflow:act\"

[permissions]
\"contracts.read\" = \"workflow:view\"
```

## Other variables

| variable | meaning |
|---|---|
| `RUST_LOG` | the log filter, if `--log` is not given |
| `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SDK_DISABLED` | as OpenTelemetry defines them: see [telemetry](../guides/telemetry.md) |
| `SSL_CERT_FILE`, `SSL_CERT_DIR` | the certificates that are trusted, in place of the machine's |
";

/// The settings of one table of the file; without a table they are not in the file.
struct Group {
    title: &'static str,
    table: Option<&'static str>,
    arguments: Vec<Arg>,
}

fn groups() -> Vec<Group> {
    fn group<T: Args>(title: &'static str, table: Option<&'static str>) -> Group {
        let command = T::augment_args(Command::new("settings"));
        let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned().collect();
        Group { title, table, arguments }
    }
    vec![
        group::<ServerSettings>("The server", Some("server")),
        group::<DatabaseSettings>("The database", Some("database")),
        group::<ClusterSettings>("Several nodes", Some("cluster")),
        group::<EngineSettings>("The engine", Some("engine")),
        group::<SecretsSettings>("Secrets", Some("secrets")),
        group::<IdentitySettings>("People", Some("identity")),
        group::<TelemetrySettings>("Metrics and traces", Some("telemetry")),
        group::<LogSettings>("The log", Some("log")),
        group::<RemoteSettings>("Commands that use a server", None),
    ]
}

fn page() -> String {
    let mut sections = String::new();
    for Group { title, table, arguments } in groups() {
        let place = match table {
            Some(table) => format!("`[{table}]` in the file."),
            None => "Not in the file: they belong to the user of a command.".to_owned(),
        };
        let _ = write!(sections, "\n## {title}\n\n{place}\n\n");
        sections += "| key | flag | variable | default | meaning |\n|---|---|---|---|---|\n";
        for argument in arguments {
            let key = if table.is_some() { format!("`{}`", argument.get_id()) } else { "-".to_owned() };
            let flag = argument.get_long().expect("every setting has a flag");
            let variable = argument.get_env().expect("every setting has a variable").to_string_lossy().into_owned();
            let default = default_of(&argument).map_or_else(|| "-".to_owned(), |default| default.replace('|', "\\|"));
            let _ = writeln!(sections, "| {key} | `--{flag}` | `{variable}` | {default} | {} |", meaning(&argument));
        }
    }
    sections += TAIL;
    format!("{HEAD}\n{}{sections}", contents::table(&sections))
}

/// The help of a setting, without the default.
fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or(argument.get_help()).expect("every setting has a help").to_string();
    let text = help.rsplit_once("[default: ").map_or(&*help, |(text, _)| text);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    if text.ends_with('.') { text } else { format!("{text}.") }
}

#[test]
fn the_page_of_settings_equals_the_settings() {
    let page = page();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "docs/reference/configuration.md is out of date: write it again with BLESS=1");
    let missing: Vec<_> =
        known_variables().into_iter().filter(|variable| !page.contains(&format!("`{variable}`"))).collect();
    assert!(missing.is_empty(), "the page of settings does not name {missing:?}");
}

#[test]
fn every_setting_has_its_key_in_the_file() {
    for Group { table, arguments, .. } in groups() {
        let Some(table) = table else { continue };
        for argument in arguments {
            let (key, flag) = (argument.get_id().as_str(), argument.get_long().expect("every setting has a flag"));
            assert_eq!(key.replace('_', "-"), flag);
            assert!(is_key(table, key), "{key} is not a key of [{table}]");
        }
    }
    assert!(!is_key("server", "datta"));
}
