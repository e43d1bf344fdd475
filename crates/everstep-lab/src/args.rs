//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use everstep::command_settings::CommandSettings;
use everstep::settings::LogSettings;

use crate::{bench, load, sim};

/// Measures and tests Everstep: the benchmark, the simulator and the load generator.
///
/// `everstep` runs workflows; this program is for people who develop Everstep or plan its capacity.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = AFTER_HELP, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// A TOML file with settings, in the format of `everstep`. Flags override the environment, and the environment
    /// overrides the file.
    #[arg(
        long,
        global = true,
        env = "EVERSTEP_CONFIG",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    config: Option<PathBuf>,

    #[command(flatten)]
    log: LogSettings,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "Exit codes:
  0    done
  1    a run or a seed failed, or a budget was missed
  2    a file, an input or a setting is invalid
  3    the command could not be executed: no data folder, port or database
  130  interrupted (SIGINT or SIGTERM) before the end

`everstep-lab sim` logs nothing unless --log is given: it provokes the faults that would be logged.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Bench(Box<bench::Args>),
    Sim(sim::Args),
    Load(Box<load::Args>),
}

impl Cli {
    /// The settings of the command.
    pub(crate) fn settings(&self) -> CommandSettings {
        let (settings, log_default) = match &self.command {
            Command::Bench(_) => (CommandSettings::default(), "warn"),
            Command::Sim(_) => (CommandSettings::default(), "off"),
            Command::Load(args) => (args.settings(), "warn"),
        };
        CommandSettings { config: self.config.clone(), log: self.log.clone(), log_default, ..settings }
    }
}
