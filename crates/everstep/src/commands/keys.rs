//! `everstep keys`: the API keys of a database or a server.

use std::process::ExitCode;

use anyhow::Context;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use everstep_api::auth::{ApiKey, Grant, NewKey};
use everstep_net::Method;
use everstep_store::KeyRow;
use serde_json::{Value, json};

use crate::args::{CreateKeyArgs, KeysArgs, KeysCommand, ListKeysArgs, RevokeKeyArgs};
use crate::config::Config;
use crate::exit::invalid;
use crate::target::{self, Target};
use crate::{output, text};

pub(crate) async fn run(args: &KeysArgs, config: &Config) -> anyhow::Result<ExitCode> {
    match &args.command {
        KeysCommand::Create(args) => create(args, config).await,
        KeysCommand::List(args) => list(args, config).await,
        KeysCommand::Revoke(args) => revoke(args, config).await,
    }
}

async fn create(args: &CreateKeyArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let allows = Grant::from_request(args.role, args.permissions.clone()).map_err(invalid)?;
    let now = everstep_engine::NodeClock::system().now();
    let expires_at = args.expires.map(|span| now.plus(span.0));
    let new = NewKey { name: args.name.clone(), allows, expires_at, rate_limit: args.rate_limit };
    new.check(now).map_err(invalid)?;
    let secret = match Target::open_or_create(&args.remote, config).await? {
        Target::Database(database) => {
            let workspace = database.workspace(args.workspace.workspace.as_deref()).await?;
            let secret = ApiKey::generate();
            let row = new.row(&secret, workspace, now);
            database.stores.access.add_key(&row).await.context("saving the API key")?;
            database.audit(workspace, "everstep keys create", &row.id.to_string()).await?;
            secret.reveal().to_owned()
        }
        Target::Server(server) => {
            target::refuse_workspace(args.workspace.workspace.as_deref())?;
            let mut body = json!({"name": new.name});
            match &new.allows {
                Grant::Role(role) => body["role"] = json!(role),
                Grant::Permissions(permissions) => body["permissions"] = json!(permissions),
            }
            if let Some(end) = new.expires_at {
                body["expiresAt"] = end.to_string().into();
            }
            if let Some(limit) = new.rate_limit {
                body["rateLimit"] = limit.into();
            }
            target::field(&server.ask(Method::POST, "/v1/keys", Some(&body)).await?, "secret")?
        }
    };
    let words: Vec<_> = new.allows.permissions().iter().map(|permission| permission.as_str()).collect();
    eprintln!("API key {:?} with {}; it is shown only once:", text::safe(&args.name), words.join(", "));
    output::print(secret)?;
    Ok(ExitCode::SUCCESS)
}

async fn list(args: &ListKeysArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let workspace = args.workspace.workspace.as_deref();
    let keys = match Target::open(&args.remote, config).await? {
        Target::Database(database) => {
            let rows = database
                .stores
                .access
                .list_keys(database.workspace(workspace).await?)
                .await
                .context("reading the API keys")?;
            rows.iter().map(describe).collect()
        }
        Target::Server(server) => {
            target::refuse_workspace(workspace)?;
            server.list("/v1/keys", "keys").await?
        }
    };
    if args.json {
        output::print(json!({"keys": keys}))?;
    } else {
        output::print(table(&keys))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn revoke(args: &RevokeKeyArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let name = match Target::open(&args.remote, config).await? {
        Target::Database(database) => {
            let workspace = database.workspace(args.workspace.workspace.as_deref()).await?;
            let revoked = database
                .stores
                .access
                .revoke_key(workspace, args.id, database.now)
                .await
                .context("revoking the API key")?;
            let row = revoked.ok_or_else(|| invalid(format!("the API key {} was not found", args.id)))?;
            database.audit(workspace, "everstep keys revoke", &row.id.to_string()).await?;
            row.name
        }
        Target::Server(server) => {
            target::refuse_workspace(args.workspace.workspace.as_deref())?;
            let revoked = server.ask(Method::DELETE, &format!("/v1/keys/{}", args.id), None).await?;
            target::field(&revoked, "name")?
        }
    };
    eprintln!("API key {:?} is revoked", text::safe(&name));
    Ok(ExitCode::SUCCESS)
}

/// An API key as the server shows it.
fn describe(row: &KeyRow) -> Value {
    json!({
        "id": row.id,
        "name": row.name,
        "role": row.role,
        "permissions": row.permissions,
        "rateLimit": row.rate_limit,
        "createdAt": row.created_at.to_string(),
        "expiresAt": row.expires_at.map(|time| time.to_string()),
        "revokedAt": row.revoked_at.map(|time| time.to_string()),
    })
}

fn table(keys: &[Value]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["ID", "NAME", "ALLOWS", "CREATED", "STATE"]);
    for key in keys {
        let shown = |name: &str| key[name].as_str().map(text::safe);
        let words = || {
            let words = key["permissions"].as_array().into_iter().flatten().filter_map(Value::as_str);
            text::safe(&words.collect::<Vec<_>>().join(", "))
        };
        let state = match (shown("revokedAt"), shown("expiresAt")) {
            (Some(time), _) => format!("revoked {time}"),
            (None, Some(time)) => format!("expires {time}"),
            (None, None) => "good".to_owned(),
        };
        let allows = shown("role").unwrap_or_else(words);
        let row = [shown("id"), shown("name"), Some(allows), shown("createdAt"), Some(state)];
        table.add_row(row.map(Option::unwrap_or_default));
    }
    table
}
