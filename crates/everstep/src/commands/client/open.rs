//! `everstep open`.

use std::io::IsTerminal as _;
use std::process::{Command, ExitCode, Stdio};

use everstep_net::Method;

use crate::client_args::OpenArgs;
use crate::remote::Remote;
use crate::target::field;
use crate::{output, text};

/// The program with which a desktop opens an address.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

pub(crate) async fn run(args: &OpenArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let made = remote.ask(Method::POST, "/v1/sign-in-codes", None).await?;
    // A browser does not send the part after `#`, so no server and no proxy logs the code.
    let link = format!("{}#code={}", remote.url(), text::safe(&field(&made, "code")?));
    output::print(&link)?;
    if std::io::stdout().is_terminal() && !args.no_browser {
        show(&link);
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens the link in the browser of the desktop, if there is one. A person without one uses the printed link.
fn show(link: &str) {
    let mut command = Command::new(OPENER);
    command.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        tracing::debug!(%error, OPENER, "the browser was not opened");
    }
}
