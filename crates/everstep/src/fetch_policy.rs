//! The fetch policy of `everstep run` on a developer's machine. On a server the options of a workspace allow `fetch`.

use async_trait::async_trait;
use everstep_core::failure::Failure;
use everstep_core::ids::WorkspaceId;
use everstep_handlers::FetchPolicy;

/// Allows every script to send requests: the user runs a local file.
pub(crate) struct AllowAll;

#[async_trait]
impl FetchPolicy for AllowAll {
    async fn allows(&self, _: WorkspaceId) -> Result<bool, Failure> {
        Ok(true)
    }
}
