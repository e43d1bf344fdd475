//! `everstep journal`.

use std::process::ExitCode;

use everstep_net::Method;
use serde_json::{Value, json};

use crate::client_args::JournalArgs;
use crate::commands::client::{entry_line, run_id};
use crate::output;
use crate::remote::Remote;

const PAGE_SIZE: &str = "1000";

pub(crate) async fn run(args: &JournalArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let run = run_id::find(&remote, &args.run).await?;
    let (mut after, mut all) = (Some(args.after), Vec::new());
    while let Some(seq) = after {
        let query = [("after", seq.to_string()), ("limit", PAGE_SIZE.to_owned())];
        let mut page = remote.ask(Method::GET, &Remote::path(&["v1", "runs", &run, "journal"], &query), None).await?;
        let Value::Array(entries) = page["entries"].take() else { break };
        if args.json {
            all.extend(entries);
        } else {
            for entry in &entries {
                output::print(entry_line::draw(entry))?;
            }
        }
        after = page["nextAfter"].as_u64();
    }
    if args.json {
        output::print(json!({"entries": all}))?;
    }
    Ok(ExitCode::SUCCESS)
}
