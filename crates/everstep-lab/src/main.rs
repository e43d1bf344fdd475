//! The binary `everstep-lab`: the benchmark, the simulator and the load generator of Everstep. The server does not
//! contain them.

mod args;
mod bench;
mod load;
mod sim;

use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use everstep::config::Config;
use everstep::{exit, logging};

use crate::args::{Cli, Command};

/// The time for which blocking threads may run after the command has ended.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(100);

// The server's allocator, so that figures of the engine in this process are figures of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => exit::report(&error),
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let config = Config::load(&cli.settings())?;
    logging::start(&config.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    let code = runtime.block_on(perform(cli.command, config));
    // A script that blocks its thread must not keep the process alive.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    code
}

/// Performs a command. The future is boxed: `block_on` compiles a plain future three times, with everything in it.
fn perform(command: Command, config: Config) -> Pin<Box<dyn Future<Output = anyhow::Result<ExitCode>>>> {
    Box::pin(async move {
        match command {
            Command::Bench(args) => bench::run(*args).await,
            Command::Sim(args) => sim::run(&args),
            Command::Load(args) => load::run(&args, &config).await,
        }
    })
}
