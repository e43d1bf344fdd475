//! `everstep health`.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::Value;

use crate::client_args::HealthArgs;
use crate::remote::Remote;
use crate::{output, text};

pub(crate) async fn run(args: &HealthArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::without_key(&args.remote)?;
    let (path, word) = if args.live { ("/livez", "live") } else { ("/readyz", "ready") };
    let (status, body) = remote.ask_status(path).await?;
    if args.json && body.is_object() {
        output::print(&body)?;
    }
    if !status.is_success() {
        bail!("the server is not {word}: {}", describe(&body).unwrap_or_else(|| status.to_string()));
    }
    if !args.json {
        output::print(word)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Why a server is not ready.
fn describe(body: &Value) -> Option<String> {
    let said = |value: &Value| value.as_str().map(text::safe);
    if let Some(error) = said(&body["store"]["error"]) {
        return Some(format!("the database does not answer: {error}"));
    }
    if body["fenced"] == true {
        return Some("it is fenced, and will join the cluster again".to_owned());
    }
    said(&body["status"])
}
