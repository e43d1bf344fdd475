//! `everstep config`: the effective settings, and their sources.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::Serialize;

use crate::args::{Cli, ConfigArgs};
use crate::{config, output, text};

/// Replaces the value of a secret setting.
const HIDDEN_VALUE: &str = "(hidden)";
/// Settings whose values are never shown.
const SECRET_SETTINGS: &[&str] =
    &["cluster_key", "jwt_secret", "n8n_webhook_url", "ops_webhook_url", "secrets_key", "secrets_old_keys", "smtp_url"];

/// Other names of settings, each with its setting, under which it is shown.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("everstep_max_retention_days", "max_retention_days"),
    ("everstep_sweeper_interval_ms", "sweeper_interval_ms"),
    ("workflow_store_max_value_bytes", "store_max_value_bytes"),
];

/// One setting.
#[derive(Debug, PartialEq, Serialize)]
struct Setting {
    /// Its name in the settings file.
    name: String,
    /// None if it has no value by default.
    value: Option<String>,
    from: String,
}

/// The settings of `everstep serve`, as they would be with the same flags.
pub(crate) fn run(args: &ConfigArgs, file: Option<&Path>) -> anyhow::Result<ExitCode> {
    let matches = Cli::command().get_matches();
    let matches = matches.subcommand_matches("config").expect("this is the given command");
    let source = file.map(|path| path.display().to_string()).unwrap_or_default();
    let file = file.map(config::read_values).transpose()?.unwrap_or_default();
    let settings = settings(matches, &file, &source);
    if args.json {
        output::print(serde_json::to_string_pretty(&settings)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["setting", "value", "from"]);
    for Setting { name, value, from } in settings {
        table.add_row([name, value.map_or_else(|| "-".to_owned(), |value| text::safe(&value)), from]);
    }
    output::print(table)?;
    Ok(ExitCode::SUCCESS)
}

fn settings(matches: &ArgMatches, file: &BTreeMap<String, String>, source: &str) -> Vec<Setting> {
    let cli = Cli::command();
    let command = cli.find_subcommand("config").expect("this command exists");
    let arguments: Vec<_> =
        cli.get_arguments().chain(command.get_arguments()).filter(|argument| argument.get_env().is_some()).collect();
    let mut seen = BTreeMap::new();
    for argument in &arguments {
        let name = argument.get_id().to_string();
        if OTHER_NAMES.iter().any(|(other, _)| *other == name) {
            continue;
        }
        let other = OTHER_NAMES.iter().find(|(_, setting)| *setting == name).map(|(other, _)| *other);
        let other = arguments.iter().find(|argument| Some(argument.get_id().as_str()) == other);
        let (value, from) = match given(matches, argument).or_else(|| given(matches, other?)) {
            Some((value, from)) => (Some(value), from),
            None => match file.get(&name) {
                Some(value) => (Some(value.clone()), source.to_owned()),
                None => (default_of(argument), "default".to_owned()),
            },
        };
        let value: Option<String> =
            if SECRET_SETTINGS.contains(&&*name) { value.map(|_| HIDDEN_VALUE.to_owned()) } else { value };
        let value = if name == "database_url" { value.map(|url| without_password(&url)) } else { value };
        seen.insert(name.clone(), Setting { name, value, from });
    }
    seen.into_values().collect()
}

/// The value of an argument on the command line or in the environment, and its flag or variable.
fn given(matches: &ArgMatches, argument: &clap::Arg) -> Option<(String, String)> {
    let name = argument.get_id().as_str();
    let from = match matches.value_source(name)? {
        ValueSource::CommandLine => format!("--{}", name.replace('_', "-")),
        ValueSource::EnvVariable => argument.get_env()?.to_string_lossy().into_owned(),
        _ => return None,
    };
    let value = matches.get_raw(name)?.map(|value| value.to_string_lossy()).collect();
    Some((value, from))
}

/// The default in the help of a setting: `[default: 10s]`.
pub(crate) fn default_of(argument: &clap::Arg) -> Option<String> {
    let help = argument.get_long_help().or(argument.get_help())?.to_string();
    let (_, rest) = help.rsplit_once("[default: ")?;
    Some(rest.split_once(']')?.0.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A database's URL without its password.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return HIDDEN_VALUE.to_owned() };
    // A password may also be a parameter.
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    match rest.rsplit_once('@') {
        Some((user, location)) => {
            let user = user.split_once(':').map_or(user, |(user, _)| user);
            format!("{scheme}://{user}@{location}")
        }
        None => format!("{scheme}://{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_shown_without_its_password() {
        for (url, shown) in [
            ("postgres://ada:s3@cr:et@db:5432/es", "postgres://ada@db:5432/es"),
            ("postgres://db/es?password=secret&user=ada", "postgres://db/es"),
            ("host=db password=secret", HIDDEN_VALUE),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }
}
