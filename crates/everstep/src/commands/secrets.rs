//! `everstep secrets`: secrets that steps may use.

use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use anyhow::Context;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use everstep_net::Method;
use everstep_vault::{Error, SECRET_BYTES_MAX, SealKey, SecretInfo};
use serde_json::{Value, json};

use crate::args::{DeleteSecretArgs, ListSecretsArgs, SecretsArgs, SecretsCommand, SetSecretArgs};
use crate::config::Config;
use crate::exit::invalid;
use crate::target::{self, Target};
use crate::{output, text, wire};

const PAGE_SIZE: usize = 500;

pub(crate) async fn run(args: &SecretsArgs, config: &Config) -> anyhow::Result<ExitCode> {
    match &args.command {
        SecretsCommand::Set(args) => set(args, config).await,
        SecretsCommand::List(args) => list(args, config).await,
        SecretsCommand::Delete(args) => delete(args, config).await,
        SecretsCommand::Key(_) => {
            output::print(&*SealKey::generate().reveal())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn set(args: &SetSecretArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let value = read(args)?;
    let workspace = args.workspace.workspace.as_deref();
    match Target::open_or_create(&args.remote, config).await? {
        Target::Database(database) => {
            let workspace = database.workspace(workspace).await?;
            let vault = wire::open_vault(&database.stores.resources, &config.server.data, config)?;
            vault.put(workspace, &args.name, &value, database.now).await.map_err(describe_error)?;
            database.audit(workspace, "everstep secrets set", &args.name).await?;
        }
        Target::Server(server) => {
            target::refuse_workspace(workspace)?;
            server.ask(Method::PUT, &path(&args.name)?, Some(&json!({"value": value}))).await?;
        }
    }
    eprintln!("secret {:?} is set", args.name);
    Ok(ExitCode::SUCCESS)
}

async fn list(args: &ListSecretsArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let workspace = args.workspace.workspace.as_deref();
    let secrets = match Target::open(&args.remote, config).await? {
        Target::Database(database) => {
            let workspace = database.workspace(workspace).await?;
            let vault = wire::open_vault(&database.stores.resources, &config.server.data, config)?;
            let mut all: Vec<SecretInfo> = Vec::new();
            loop {
                let after = all.last().map(|info| info.name.clone());
                let page = vault.list(workspace, after.as_deref(), PAGE_SIZE).await.map_err(describe_error)?;
                let is_last = page.len() < PAGE_SIZE;
                all.extend(page);
                if is_last {
                    break all.iter().map(describe).collect();
                }
            }
        }
        Target::Server(server) => {
            target::refuse_workspace(workspace)?;
            server.list("/v1/secrets", "secrets").await?
        }
    };
    if args.json {
        output::print(json!({"secrets": secrets}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["NAME", "CREATED", "SET"]);
    for secret in &secrets {
        let shown = |name: &str| secret[name].as_str().map(text::safe).unwrap_or_default();
        table.add_row([shown("name"), shown("createdAt"), shown("updatedAt")]);
    }
    output::print(table)?;
    Ok(ExitCode::SUCCESS)
}

async fn delete(args: &DeleteSecretArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let workspace = args.workspace.workspace.as_deref();
    match Target::open(&args.remote, config).await? {
        Target::Database(database) => {
            let workspace = database.workspace(workspace).await?;
            let vault = wire::open_vault(&database.stores.resources, &config.server.data, config)?;
            vault.delete(workspace, &args.name).await.map_err(describe_error)?;
            database.audit(workspace, "everstep secrets delete", &args.name).await?;
        }
        Target::Server(server) => {
            target::refuse_workspace(workspace)?;
            server.ask(Method::DELETE, &path(&args.name)?, None).await?;
        }
    }
    eprintln!("secret {:?} is deleted", text::safe(&args.name));
    Ok(ExitCode::SUCCESS)
}

/// The value of a secret. The line end of a single line is removed: an editor or `echo` has added it.
fn read(args: &SetSecretArgs) -> anyhow::Result<String> {
    // More bytes than a secret may have are not read.
    let most = SECRET_BYTES_MAX as u64 + 2;
    let mut bytes = Vec::new();
    match &args.from_file {
        Some(path) => {
            let about = || format!("reading {}", path.display());
            let file = std::fs::File::open(path).map_err(|error| invalid(error.to_string())).with_context(about)?;
            file.take(most).read_to_end(&mut bytes).with_context(about)?;
        }
        None => {
            let stdin = std::io::stdin();
            if stdin.is_terminal() {
                eprintln!("type the value, then a line end and Ctrl-D:");
            }
            stdin.take(most).read_to_end(&mut bytes).context("reading standard input")?;
        }
    }
    let mut value = String::from_utf8(bytes).map_err(|_| invalid("a secret must be text in UTF-8"))?;
    if value.matches('\n').count() == 1 && value.ends_with('\n') {
        let line = value.trim_end_matches('\n').trim_end_matches('\r').len();
        value.truncate(line);
    }
    Ok(value)
}

fn describe(info: &SecretInfo) -> Value {
    json!({
        "name": info.name,
        "createdAt": info.created_at.to_string(),
        "updatedAt": info.updated_at.to_string(),
    })
}

fn path(name: &str) -> anyhow::Result<String> {
    // A name that needs escaping is not valid.
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)) {
        return Err(invalid(format!(
            "{name:?} is not a valid name of a secret: use letters, digits, `_`, `.` and `-`"
        )));
    }
    Ok(format!("/v1/secrets/{name}"))
}

/// An invalid value is an error of the user; every other error is ours.
fn describe_error(error: Error) -> anyhow::Error {
    match error {
        Error::Store(error) => error.into(),
        error => invalid(error.to_string()),
    }
}
