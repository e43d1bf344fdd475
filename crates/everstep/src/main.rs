//! The binary: reads what was typed, wires the parts together and speaks to people.

mod args;
pub mod bench;
mod client_args;
mod cluster;
mod commands;
mod config;
mod database;
mod definition;
mod exit;
mod fetches;
mod first_key;
mod input;
mod live;
mod logging;
mod output;
mod place;
#[cfg(test)]
mod reference;
mod remote;
mod secrets_key;
mod settings;
mod signals;
mod spans;
mod steps;
mod telemetry;
mod text;
mod wire;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;

use crate::args::{Cli, Command};
use crate::commands::client;
use crate::config::Config;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => exit::report(&error),
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let config = Config::load(&cli)?;
    logging::start(&config.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    let code = runtime.block_on(async {
        match cli.command {
            Command::Run(args) => commands::run::run(args, &config).await,
            Command::Validate(args) => commands::validate::run(&args),
            Command::Serve(_) => commands::serve::run(&config).await,
            Command::Load(args) => commands::load::run(args, &config).await,
            Command::Start(args) => client::start::run(&args).await,
            Command::Runs(args) => client::runs::run(&args).await,
            Command::Show(args) => client::show::run(&args).await,
            Command::Logs(args) => client::logs::run(&args).await,
            Command::Signal(args) => client::control::signal(&args).await,
            Command::Cancel(args) => client::control::cancel(&args).await,
            Command::Pause(args) => client::control::control(&args, "pause").await,
            Command::Resume(args) => client::control::control(&args, "resume").await,
            Command::Retry(args) => client::control::control(&args, "retry").await,
            Command::Fork(args) => client::control::fork(&args).await,
            Command::Import(args) => client::transfer::import(&args).await,
            Command::Export(args) => client::transfer::export(&args).await,
            Command::Keys(args) => commands::keys::run(&args, &config).await,
            Command::Workspaces(args) => commands::workspaces::run(&args, &config).await,
            Command::Secrets(args) => commands::secrets::run(&args, &config).await,
            Command::Nodes(args) => commands::nodes::run(&args, &config).await,
            Command::Bench(args) => bench::run(args).await,
            Command::Config(args) => commands::config::run(&args, cli.config.as_deref()),
            Command::Openapi(_) => commands::openapi::run(),
            Command::Sim(args) => commands::sim::run(&args),
        }
    });
    // A script that does not let go of its thread must not keep the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    code
}
