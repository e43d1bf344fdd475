//! The variables of the environment that begin with `EVERSTEP_`: an unknown one is an error. One that begins with
//! `WORKFLOW_` or `WORKFLOWS_`, as those of other programs do, is an error if it is nearly the name of a setting.

use std::ffi::OsString;

use clap::CommandFactory;
use everstep_core::graph::nearest;

use crate::args::Cli;
use crate::exit::invalid;

const PREFIX: &str = "EVERSTEP_";
/// Some settings have such names, and so have variables of other programs.
const SHARED_PREFIXES: &[&str] = &["WORKFLOW_", "WORKFLOWS_"];

/// Names that people write for a setting which has another name, and the variable that they mean.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("EVERSTEP_ADDRESS", "EVERSTEP_LISTEN"),
    ("EVERSTEP_BIND", "EVERSTEP_LISTEN"),
    ("EVERSTEP_DATABASE", "EVERSTEP_DATABASE_URL"),
    ("EVERSTEP_DB", "EVERSTEP_DATABASE_URL"),
    ("EVERSTEP_DB_URL", "EVERSTEP_DATABASE_URL"),
    ("EVERSTEP_HOST", "EVERSTEP_LISTEN"),
    ("EVERSTEP_KEY", "EVERSTEP_API_KEY"),
    ("EVERSTEP_LOG_LEVEL", "EVERSTEP_LOG"),
    ("EVERSTEP_PORT", "EVERSTEP_LISTEN"),
    ("EVERSTEP_SERVER_URL", "EVERSTEP_URL"),
    ("EVERSTEP_TOKEN", "EVERSTEP_API_KEY"),
];

/// The variables of this process whose name is text.
pub(crate) fn variables() -> impl Iterator<Item = (String, OsString)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
}

/// Refuses variables that have no meaning: a mistyped setting must not be ignored.
pub(crate) fn check(variables: impl Iterator<Item = (String, OsString)>) -> anyhow::Result<()> {
    let known = known_variables();
    for (name, value) in variables {
        let is_ours = name.starts_with(PREFIX);
        if !is_ours && !is_shared(&name) {
            continue;
        }
        if known.contains(&name) || is_of_kubernetes(&name, &value.to_string_lossy()) {
            continue;
        }
        let meant = OTHER_NAMES.iter().find(|(other, _)| *other == name).map(|(_, variable)| *variable);
        let is_candidate = |candidate: &&str| is_ours || (is_shared(candidate) && is_typo(candidate, &name));
        let candidates = known.iter().map(String::as_str).filter(is_candidate);
        let hint = match meant.or_else(|| nearest(&name, candidates)) {
            Some("EVERSTEP_LISTEN") => {
                "did you mean EVERSTEP_LISTEN? It holds an address with a port, such as 127.0.0.1:7373".to_owned()
            }
            Some(variable) => format!("did you mean {variable}?"),
            // It belongs to another program.
            None if !is_ours => continue,
            None => format!("the variables are {}", known.join(", ")),
        };
        return Err(invalid(format!("the environment has an unknown variable {name}; {hint}")));
    }
    Ok(())
}

/// Whether one name may be the other with a typo: they differ at one place, in at most two characters. A name with
/// another word belongs to another program.
fn is_typo(name: &str, other: &str) -> bool {
    let (name, other) = (name.as_bytes(), other.as_bytes());
    let before = name.iter().zip(other).take_while(|(a, b)| a == b).count();
    let rest = name.len().min(other.len()) - before;
    let after = name.iter().rev().zip(other.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    name.len().max(other.len()) - before - after <= 2
}

fn is_shared(name: &str) -> bool {
    SHARED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether Kubernetes sets a variable for a service whose name is `everstep` or begins with `everstep-`. For each port
/// it sets `X_SERVICE_HOST`, `X_SERVICE_PORT`, `X_SERVICE_PORT_NAME`, `X_PORT=tcp://…`, `X_PORT_7373_TCP=tcp://…` and
/// `X_PORT_7373_TCP_PROTO`, `_PORT` and `_ADDR`.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    let is_address = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    if name.ends_with("_SERVICE_HOST") || name.ends_with("_SERVICE_PORT") || name.contains("_SERVICE_PORT_") {
        return true;
    }
    if name.ends_with("_PORT") && is_address {
        return true;
    }
    let Some((_, port)) = name.split_once("_PORT_") else { return false };
    let mut parts = port.split('_');
    let is_number = parts.next().is_some_and(|number| number.parse::<u16>().is_ok());
    let is_protocol = parts.next().is_some_and(|protocol| matches!(protocol, "TCP" | "UDP" | "SCTP"));
    let is_field = parts.next().is_none_or(|field| matches!(field, "PROTO" | "PORT" | "ADDR"));
    is_number && is_protocol && is_field && parts.next().is_none()
}

/// Every variable that some command reads.
pub(crate) fn known_variables() -> Vec<String> {
    fn collect(command: &clap::Command, variables: &mut Vec<String>) {
        let read = command.get_arguments().filter_map(clap::Arg::get_env);
        variables.extend(read.map(|name| name.to_string_lossy().into_owned()));
        command.get_subcommands().for_each(|command| collect(command, variables));
    }
    let mut variables = Vec::new();
    collect(&Cli::command(), &mut variables);
    variables.sort();
    variables.dedup();
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str, value: &str) -> Option<String> {
        check(std::iter::once((name.to_owned(), value.into()))).err().map(|error| error.to_string())
    }

    #[test]
    fn a_mistyped_variable_is_refused_with_the_nearest_name() {
        for (name, value) in [("EVERSTEP_DATA", "x"), ("EVERSTEP_PARK_AFTER", "1s"), ("HOME", "/root")] {
            assert_eq!(refusal(name, value), None);
        }
        for (name, meant) in [
            ("EVERSTEP_DATTA", "EVERSTEP_DATA?"),
            ("EVERSTEP_APIKEY", "EVERSTEP_API_KEY?"),
            ("EVERSTEP_DATABASE_ULR", "EVERSTEP_DATABASE_URL?"),
            ("EVERSTEP_DB", "EVERSTEP_DATABASE_URL?"),
            ("EVERSTEP_PORT", "EVERSTEP_LISTEN?"),
            ("EVERSTEP_HOST", "EVERSTEP_LISTEN?"),
            ("EVERSTEP_MAX_RETENTION_DAY", "EVERSTEP_MAX_RETENTION_DAYS?"),
        ] {
            let refusal = refusal(name, "8080").unwrap_or_default();
            assert!(refusal.contains(&format!("unknown variable {name}; did you mean {meant}")), "{refusal}");
        }
        let refusal = refusal("EVERSTEP_SOMETHING_ELSE_ENTIRELY", "1").unwrap_or_default();
        assert!(refusal.contains("the variables are EVERSTEP_ADVERTISE_URL, "), "{refusal}");
        assert!(OTHER_NAMES.iter().all(|(_, meant)| known_variables().iter().any(|known| known == meant)));
    }

    #[test]
    fn a_variable_of_another_program_is_ignored_unless_it_is_nearly_a_setting() {
        for name in [
            "WORKFLOWS_MAX_RETENTION_DAYS",
            "WORKFLOWS_SWEEPER_INTERVAL_MS",
            "WORKFLOW_STORE_MAX_VALUE_BYTES",
            "EVERSTEP_MAX_RETENTION_DAYS",
            "EVERSTEP_SWEEPER_INTERVAL_MS",
            "WORKFLOW_ID",
            "WORKFLOW_API_KEY",
            "WORKFLOWS_DATABASE_URL",
            "WORKFLOWS_SERVICE_HOST",
            "WORKFLOWS_RETENTION_DAYS",
            "WORKFLOWS_CLEANUP_INTERVAL_MS",
            "WORKFLOWS_POLLING_INTERVAL_MS",
            "WORKFLOWS_MAX_EXECUTION_DAYS",
            "WORKFLOW_STORE_MAX_QUEUE_BYTES",
            "WORKFLOW_STORE_MAX_KEY_BYTES",
            "WORKFLOWSMAX",
        ] {
            assert_eq!(refusal(name, "1"), None, "{name}");
        }
        for (name, meant) in [
            ("WORKFLOW_MAX_RETENTION_DAYS", "WORKFLOWS_MAX_RETENTION_DAYS?"),
            ("WORKFLOWS_MAX_RETENTION_DAY", "WORKFLOWS_MAX_RETENTION_DAYS?"),
            ("WORKFLOWS_SWEEPER_INTERVALL_MS", "WORKFLOWS_SWEEPER_INTERVAL_MS?"),
            ("WORKFLOWS_STORE_MAX_VALUE_BYTES", "WORKFLOW_STORE_MAX_VALUE_BYTES?"),
        ] {
            let refusal = refusal(name, "1").unwrap_or_default();
            assert!(refusal.contains(&format!("unknown variable {name}; did you mean {meant}")), "{refusal}");
        }
    }

    #[test]
    fn the_variables_of_a_kubernetes_service_are_ignored() {
        for (name, value) in [
            ("EVERSTEP_SERVICE_HOST", "10.0.0.1"),
            ("EVERSTEP_SERVICE_PORT", "7373"),
            ("EVERSTEP_SERVICE_PORT_HTTP", "7373"),
            ("EVERSTEP_PORT", "tcp://10.0.0.1:7373"),
            ("EVERSTEP_PORT_7373_TCP", "tcp://10.0.0.1:7373"),
            ("EVERSTEP_PORT_7373_TCP_PROTO", "tcp"),
            ("EVERSTEP_PORT_7373_TCP_PORT", "7373"),
            ("EVERSTEP_PORT_7373_TCP_ADDR", "10.0.0.1"),
            ("EVERSTEP_METRICS_SERVICE_HOST", "10.0.0.2"),
            ("EVERSTEP_METRICS_PORT_9090_TCP_ADDR", "10.0.0.2"),
        ] {
            assert_eq!(refusal(name, value), None, "{name}={value}");
        }
        for (name, value) in [("EVERSTEP_PORT_NUMBER", "1"), ("EVERSTEP_PORT_7373_HTTP", "1"), ("EVERSTEP_PORT", "7")] {
            assert!(refusal(name, value).is_some(), "{name}={value}");
        }
    }
}
