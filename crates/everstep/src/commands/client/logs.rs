//! `everstep logs`.

use std::process::ExitCode;

use serde_json::json;

use crate::client_args::LogsArgs;
use crate::commands::client::run_id;
use crate::remote::{NO_QUERY, Remote};
use crate::{output, text};

pub(crate) async fn run(args: &LogsArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let run = run_id::find(&remote, &args.run).await?;
    let path = Remote::path(&["v1", "runs", &run, "logs"], NO_QUERY);
    let mut logs = remote.list(&path, "logs").await?;
    logs.retain(|line| args.step.as_ref().is_none_or(|step| line["step"] == json!(step)));
    if args.json {
        output::print(json!({"logs": logs}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for line in &logs {
        let said = |name: &str| text::safe(line[name].as_str().unwrap_or_default());
        let attempt = line["attempt"].as_u64().filter(|attempt| *attempt > 1);
        let attempt = attempt.map(|attempt| format!("#{attempt}")).unwrap_or_default();
        output::print(format!(
            "{} {}{attempt}: {}",
            text::time(line["at"].as_str().unwrap_or_default()),
            said("step"),
            said("line")
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
