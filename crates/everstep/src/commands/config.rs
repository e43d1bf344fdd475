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
    let mut seen = BTreeMap::new();
    for argument in cli.get_arguments().chain(command.get_arguments()) {
        let Some(variable) = argument.get_env() else { continue };
        let (name, variable) = (argument.get_id().to_string(), variable.to_string_lossy().into_owned());
        let default = default_of(argument);
        let typed = || matches.get_raw(&name).map(|values| values.map(|value| value.to_string_lossy()).collect());
        let (value, from) = match matches.value_source(&name) {
            Some(ValueSource::CommandLine) => (typed(), format!("--{}", name.replace('_', "-"))),
            Some(ValueSource::EnvVariable) => (typed(), variable),
            _ => match file.get(&name) {
                Some(value) => (Some(value.clone()), source.to_owned()),
                None => (default, "default".to_owned()),
            },
        };
        let value: Option<String> =
            if SECRET_SETTINGS.contains(&&*name) { value.map(|_| HIDDEN_VALUE.to_owned()) } else { value };
        let value = if name == "database_url" { value.map(|url| without_password(&url)) } else { value };
        seen.insert(name.clone(), Setting { name, value, from });
    }
    seen.into_values().collect()
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
