//! `everstep workers`.

use std::process::ExitCode;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use everstep_net::Method;
use serde_json::Value;

use crate::client_args::WorkersArgs;
use crate::remote::Remote;
use crate::{output, text};

pub(crate) async fn run(args: &WorkersArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let answer = remote.ask(Method::GET, "/v1/workers", None).await?;
    if args.json {
        output::print(answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["WORKER", "WORKFLOWS", "RUNS", "SDK", "NODE", "CONNECTED", "LAST SEEN"]);
    for worker in list(&answer["workers"]) {
        let said = |name: &str| text::safe(worker[name].as_str().unwrap_or("-"));
        let time = |name: &str| text::time(worker[name].as_str().unwrap_or_default());
        let served = list(&worker["workflows"]);
        let served = served.iter().map(|served| {
            format!("{} v{}", text::safe(served["name"].as_str().unwrap_or_default()), served["version"])
        });
        table.add_row([
            said("worker"),
            served.collect::<Vec<_>>().join(", "),
            format!("{} of {}", worker["running"], worker["capacity"]),
            said("sdk"),
            said("node"),
            time("connectedAt"),
            time("lastSeen"),
        ]);
    }
    output::print(table)?;
    let silent = list(&answer["silentNodes"]).len();
    if silent > 0 {
        eprintln!("{} did not answer; their workers are missing", text::count(silent, "node"));
    }
    Ok(ExitCode::SUCCESS)
}
