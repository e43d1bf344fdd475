//! `everstep import` and `everstep export`.

use std::process::ExitCode;

use everstep_net::Method;

use crate::client_args::{ExportArgs, ImportArgs};
use crate::remote::{NO_QUERY, Remote};
use crate::{definition, output, text};

pub(crate) async fn import(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let document = definition::read(&args.file)?;
    let saved = if document.get("everstep").is_some() {
        let name: Vec<_> = args.name.iter().map(|name| ("name", name.as_str())).collect();
        remote.ask(Method::POST, &Remote::path(&["v1", "workflows", "import"], &name), Some(&document)).await?
    } else {
        let name = definition::name(&args.file, args.name.as_deref())?;
        remote.ask(Method::PUT, &Remote::path(&["v1", "workflows", &name], NO_QUERY), Some(&document)).await?
    };
    eprintln!("saved {} version {}", text::safe(saved["name"].as_str().unwrap_or_default()), saved["version"]);
    for warning in saved["warnings"].as_array().into_iter().flatten() {
        let part = |field: &str| text::safe(warning[field].as_str().unwrap_or_default());
        eprintln!("warning: {}: {}\n    hint: {}", part("path"), part("message"), part("hint"));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn export(args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let version: Vec<_> = args.version.iter().map(|version| ("version", version.to_string())).collect();
    let path = Remote::path(&["v1", "workflows", &args.workflow, "export"], &version);
    let document = remote.ask(Method::GET, &path, None).await?;
    output::print(serde_json::to_string_pretty(&document)?)?;
    Ok(ExitCode::SUCCESS)
}
