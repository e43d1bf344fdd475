//! `everstep workspaces`: the workspaces of a database or a server.

use std::process::ExitCode;

use anyhow::Context;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_net::Method;
use everstep_store::WorkspaceRow;
use serde_json::{Value, json};

use crate::args::{CreateWorkspaceArgs, ListWorkspacesArgs, WorkspacesArgs, WorkspacesCommand};
use crate::config::Config;
use crate::exit::invalid;
use crate::target::{self, LocalDatabase, Target};
use crate::{output, text};

pub(crate) async fn run(args: &WorkspacesArgs, config: &Config) -> anyhow::Result<ExitCode> {
    match &args.command {
        WorkspacesCommand::Create(args) => create(args, config).await,
        WorkspacesCommand::List(args) => list(args, config).await,
    }
}

async fn create(args: &CreateWorkspaceArgs, config: &Config) -> anyhow::Result<ExitCode> {
    everstep_api::check_workspace_name(&args.name).map_err(invalid)?;
    let options = if args.fetch { json!({"fetch": true}) } else { json!({}) };
    let secret = match Target::open_or_create(&args.remote, config).await? {
        Target::Database(database) => make(&database, &args.name, options).await?,
        Target::Server(server) => {
            let body = json!({"name": args.name, "options": options});
            target::field(&server.ask(Method::POST, "/v1/workspaces", Some(&body)).await?, "secret")?
        }
    };
    eprintln!("workspace {:?} with an admin API key; it is shown only once:", args.name);
    output::print(secret)?;
    Ok(ExitCode::SUCCESS)
}

async fn make(database: &LocalDatabase, name: &str, options: Value) -> anyhow::Result<String> {
    let taken = || invalid(format!("the workspace {name:?} already exists"));
    if database.stores.access.workspaces().await.context("reading the workspaces")?.iter().any(|row| row.name == name) {
        return Err(taken());
    }
    let id = WorkspaceId::from_uuid(everstep_api::new_id(database.now));
    let row = WorkspaceRow { id, name: name.to_owned(), options: Payload::from(options), created_at: database.now };
    let (secret, key) = everstep_api::first_key(&row, database.now);
    // The API key is saved first: a workspace without one would be unusable.
    database.stores.access.add_key(&key).await.context("saving the API key")?;
    if !database.stores.access.add_workspace(&row).await.context("saving the workspace")? {
        database.stores.access.revoke_key(id, key.id, database.now).await.context("revoking the API key")?;
        return Err(taken());
    }
    database.audit(WorkspaceId::DEFAULT, "everstep workspaces create", name).await?;
    Ok(secret.reveal().to_owned())
}

async fn list(args: &ListWorkspacesArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let workspaces = match Target::open(&args.remote, config).await? {
        Target::Database(database) => {
            database.stores.access.workspaces().await.context("reading the workspaces")?.iter().map(describe).collect()
        }
        Target::Server(server) => server.list("/v1/workspaces", "workspaces").await?,
    };
    if args.json {
        output::print(json!({"workspaces": workspaces}))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["NAME", "ID", "FETCH", "CREATED"]);
    for workspace in &workspaces {
        let shown = |name: &str| workspace[name].as_str().map(text::safe).unwrap_or_default();
        let fetch = if workspace["options"]["fetch"] == true { "yes" } else { "no" };
        table.add_row([shown("name"), shown("id"), fetch.to_owned(), shown("createdAt")]);
    }
    output::print(table)?;
    Ok(ExitCode::SUCCESS)
}

/// A workspace as the server shows it.
fn describe(row: &WorkspaceRow) -> Value {
    json!({
        "id": row.id,
        "name": row.name,
        "options": {"fetch": row.options.value()["fetch"] == true},
        "createdAt": row.created_at.to_string(),
    })
}
