//! The entry of the binary: from the command line to the command.

use std::ffi::OsString;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;

use crate::args::{Cli, Command};
use crate::command_settings::CommandSettings;
use crate::commands::{self, client};
use crate::config::Config;
use crate::{exit, logging, output};

/// The time for which blocking threads may run after the command has ended.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(100);

/// Parses the command line, performs the command and reports an error to a person.
pub fn main() -> ExitCode {
    let result = if asks_for_details(std::env::args_os().skip(1)) { print_details() } else { run(Cli::parse()) };
    match result {
        Ok(code) => code,
        Err(error) => exit::report(&error),
    }
}

/// Whether the arguments are `--version --verbose`. The parser ends at `--version`, so it does not see the second one.
fn asks_for_details(args: impl Iterator<Item = OsString>) -> bool {
    let args: Vec<_> = args.collect();
    args.len() == 2
        && args.iter().any(|arg| arg == "--version" || arg == "-V")
        && args.iter().any(|arg| arg == "--verbose")
}

/// Prints the version, and what this build contains.
fn print_details() -> anyhow::Result<ExitCode> {
    let console = everstep_api::console_digest().unwrap_or("none");
    output::print(format_args!("everstep {}\nconsole: {console}", env!("CARGO_PKG_VERSION")))?;
    Ok(ExitCode::SUCCESS)
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let config = Config::load(&CommandSettings::from(&cli))?;
    logging::start(&config.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    let code = runtime.block_on(perform(cli, config));
    // A script that blocks its thread must not keep the process alive.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    code
}

/// Performs a command. The future is boxed: `block_on` compiles a plain future three times, with everything in it.
fn perform(cli: Cli, config: Config) -> Pin<Box<dyn Future<Output = anyhow::Result<ExitCode>>>> {
    Box::pin(async move {
        match cli.command {
            Command::Run(args) => commands::run::run(args, &config).await,
            Command::Validate(args) => commands::validate::run(&args),
            Command::Serve(_) => commands::serve::run(&config).await,
            Command::Start(args) => client::start::run(&args).await,
            Command::Runs(args) => client::runs::run(&args).await,
            Command::Show(args) => client::show::run(&args).await,
            Command::Journal(args) => client::journal::run(&args).await,
            Command::Follow(args) => client::follow::run(&args).await,
            Command::Logs(args) => client::logs::run(&args).await,
            Command::Signal(args) => client::control::signal(&args).await,
            Command::Act(args) => client::machine::act(&args).await,
            Command::Actions(args) => client::machine::actions(&args).await,
            Command::History(args) => client::machine::history(&args).await,
            Command::Cancel(args) => client::control::cancel(&args).await,
            Command::Pause(args) => client::control::control(&args, "pause").await,
            Command::Resume(args) => client::control::control(&args, "resume").await,
            Command::Retry(args) => client::control::control(&args, "retry").await,
            Command::Fork(args) => client::control::fork(&args).await,
            Command::Publish(args) => client::events::publish(&args).await,
            Command::Events(args) => client::events::events(&args).await,
            Command::Subscriptions(args) => client::subscriptions::run(&args).await,
            Command::Dlq(args) => client::dead_letters::run(&args).await,
            Command::Workflows(args) => client::workflows::list(&args).await,
            Command::Import(args) => client::transfer::import(&args).await,
            Command::Export(args) => client::transfer::export(&args).await,
            Command::Delete(args) => client::workflows::delete(&args).await,
            Command::Workers(args) => client::workers::run(&args).await,
            Command::Open(args) => client::open::run(&args).await,
            Command::Keys(args) => commands::keys::run(&args, &config).await,
            Command::Workspaces(args) => commands::workspaces::run(&args, &config).await,
            Command::Secrets(args) => commands::secrets::run(&args, &config).await,
            Command::Nodes(args) => commands::nodes::run(&args, &config).await,
            Command::Health(args) => client::health::run(&args).await,
            Command::Config(args) => commands::config::run(&args, cli.config.as_deref()),
            Command::Openapi(_) => commands::openapi::run(),
            Command::Completions(args) => commands::completions::run(args.shell),
        }
    })
}
