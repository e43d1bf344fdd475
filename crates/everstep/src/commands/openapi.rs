//! `everstep openapi`: the document of the HTTP API.

use std::process::ExitCode;

use crate::output;

pub(crate) fn run() -> anyhow::Result<ExitCode> {
    output::print(format!("{:#}", everstep_api::openapi()))?;
    Ok(ExitCode::SUCCESS)
}
