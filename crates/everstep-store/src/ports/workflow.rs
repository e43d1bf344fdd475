//! The port of workflow definitions: immutable versions, one of which is active.

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;

use crate::error::Result;
use crate::preconditions::{ActivationOutcome, Precondition, RegistrationOutcome, SaveOutcome};
use crate::workflows::{ChangeKey, Deletion, KeyedChange, NewWorkflow, VersionRow, WorkflowRow, WorkflowSummary};

/// Every promise here is proved by `everstep_testkit::contract::workflows`.
#[async_trait]
pub trait WorkflowStore: Send + Sync {
    /// Saves an immutable version, if the workflow is as expected, and makes it the active one if `activate`.
    ///
    /// * The same digest as the newest version returns that version.
    /// * Of two calls at the same time, one is first, and the later version stays active.
    /// * A workflow that was deleted is new, and its version numbers continue.
    /// * A new name beyond [`everstep_core::limits::WORKFLOWS`] is refused: [`crate::Error::WorkflowQuotaReached`]. With
    ///   several nodes the workspace may exceed it by the names that other nodes have added within five seconds.
    /// * A name belongs to one style. If starts alone have named a workflow, a version with a definition replaces it:
    ///   its versions are deleted, whether or not runs go on, and the numbers continue.
    /// * The idempotency key of the version is recorded with the change, also if the version exists.
    async fn save_workflow(
        &self,
        workflow: NewWorkflow,
        activate: bool,
        precondition: Precondition,
    ) -> Result<SaveOutcome>;

    /// Saves versions under numbers that their author has chosen. Each answer has its version's index.
    ///
    /// * A version becomes the active one when its definition is registered for the first time, if it is the newest.
    /// * The last registration of a version decides its retention and its definition; its style and the time of its
    ///   first registration stay.
    /// * A version without a digest is only named: it exists, and nothing else changes until its definition is
    ///   registered.
    /// * A workflow of that name and another style does not change, and then nothing of the list is written.
    /// * A workflow that was deleted is new, also under numbers that it had; unless runs refer to versions
    ///   of another style that have these numbers.
    /// * A new name beyond the quota is refused, as by `save_workflow`, and then nothing of the list is written.
    /// * If nothing changes, nothing is written and no lock is taken.
    async fn register_workflows(&self, workflows: Vec<(NewWorkflow, u32)>) -> Result<Vec<RegistrationOutcome>>;

    /// Makes a version the one that new runs use, if the workflow is as expected; `None` leaves no version active. Two
    /// calls at the same time are ordered. The key is recorded with the change, with the version that the response to the
    /// request names.
    async fn choose_version(
        &self,
        workspace: WorkspaceId,
        name: &str,
        version: Option<u32>,
        precondition: Precondition,
        key: Option<(ChangeKey, u32)>,
    ) -> Result<ActivationOutcome>;

    /// The change of a workflow that was made under an idempotency key in the day before `now`.
    async fn keyed_change(
        &self,
        workspace: WorkspaceId,
        name: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KeyedChange>>;

    /// Deletes a workflow that has no unfinished runs. Its versions are no longer listed; a version can be read by its
    /// number for at least a day, and as long as runs refer to it, because a start that has read it may still begin.
    async fn delete_workflow(&self, workspace: WorkspaceId, name: &str) -> Result<Deletion>;

    /// One version of a workflow; `None` as version means the active one.
    async fn workflow(&self, workspace: WorkspaceId, name: &str, version: Option<u32>) -> Result<Option<WorkflowRow>>;

    /// The number of workflows of a workspace, without deleted ones. If the versions of many deleted workflows are still
    /// stored, it is at least [`everstep_core::limits::WORKFLOWS`].
    async fn count_workflows(&self, workspace: WorkspaceId) -> Result<u64>;

    /// At most `limit` workflows of a workspace, by name, after the name `after`, without deleted ones.
    async fn list_workflows(
        &self,
        workspace: WorkspaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WorkflowSummary>>;

    /// At most `limit` versions of a workflow, newest first, before the version `before`.
    async fn list_versions(
        &self,
        workspace: WorkspaceId,
        name: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<VersionRow>>;
}
