//! The port of resources: named bytes of a workspace, such as secrets and data sources.

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;

use crate::error::Result;
use crate::resources::{ResourceKind, ResourceRow};

/// Every promise here is proved by `everstep_testkit::contract::resources`.
#[async_trait]
pub trait ResourceStore: Send + Sync {
    /// Adds a resource (`true`), or replaces the body of the one with its name, which keeps its `created_at`.
    async fn put_resource(&self, row: &ResourceRow) -> Result<bool>;

    async fn resource(&self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<Option<ResourceRow>>;

    /// At most `limit` resources of a kind, by name, after the name `after`.
    async fn resources(
        &self,
        workspace: WorkspaceId,
        kind: ResourceKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ResourceRow>>;

    /// `false`: no such resource exists.
    async fn delete_resource(&self, workspace: WorkspaceId, kind: ResourceKind, name: &str) -> Result<bool>;
}
