//! `everstep keys`: who may use the server.

use std::process::ExitCode;

use anyhow::Context;
use everstep_api::auth::Secret;
use everstep_core::ids::WorkspaceId;
use everstep_engine::NodeClock;

use crate::args::{CreateKeyArgs, KeysArgs, KeysCommand};
use crate::config::Config;
use crate::{output, text, wire};

pub(crate) async fn run(args: &KeysArgs, config: &Config) -> anyhow::Result<ExitCode> {
    match &args.command {
        KeysCommand::Create(args) => create(args, config).await,
    }
}

async fn create(args: &CreateKeyArgs, config: &Config) -> anyhow::Result<ExitCode> {
    let mut permissions = args.permissions.clone();
    permissions.sort_unstable();
    permissions.dedup();
    let store = wire::open_store(&config.server.data, &config.database).await?;
    let secret = Secret::generate();
    let row = secret.row(WorkspaceId::DEFAULT, &args.name, &permissions, NodeClock::system().now());
    store.add_key(&row).await.context("saving the key")?;
    eprintln!("key {:?} with {}; it is shown only now:", text::safe(&args.name), row.permissions.join(", "));
    output::print(secret.reveal())?;
    Ok(ExitCode::SUCCESS)
}
