//! Conditions for changes of workflows, and their results.

use everstep_core::style::StyleName;

use crate::terms::PriorVersions;
use crate::workflows::{NewWorkflow, default_permissions};

/// The expected state of a workflow. It is checked in the transaction of the change, so that one of two calls with the
/// same precondition fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    #[default]
    Anything,
    /// No workflow with that name exists.
    Nothing,
    /// No workflow with that name exists, or its newest version is the one that is saved.
    NothingElse,
    /// This version is active; 0 means none.
    Active(u32),
}

/// The result of saving a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaveOutcome {
    Saved {
        version: u32,
        /// Whether it was written now; otherwise it exists, as the newest version.
        is_new: bool,
        /// Whether the workflow had no version before.
        is_first: bool,
    },
    /// The workflow is not as expected: nothing was written. This version is active; 0 means none.
    Unexpected { active: u32 },
    /// A workflow with that name exists, of a style that this version cannot follow: nothing was written.
    OtherStyle(String),
}

impl SaveOutcome {
    /// The versions that the workflow had before this one was saved: numbers are never used again.
    pub(crate) fn prior_versions(version: u32, is_new: bool) -> PriorVersions {
        if is_new && version == 1 { PriorVersions::Absent } else { PriorVersions::Present }
    }
}

/// The result of registering a version under its own number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationOutcome {
    /// It was registered now or before.
    Registered,
    /// A workflow with that name exists, of this other style: nothing was written.
    OtherStyle(String),
}

impl RegistrationOutcome {
    /// Whether all versions of a list were registered.
    pub(crate) fn are_all(answers: &[Self]) -> bool {
        answers.iter().all(|answer| *answer == Self::Registered)
    }
}

/// The result of choosing the active version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivationOutcome {
    /// New runs use the version, or there is none that they could use.
    Chosen,
    NotFound,
    /// The workflow is not as expected: nothing was written. This version is active; 0 means none.
    Unexpected {
        active: u32,
    },
}

/// A workflow before it is changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Head {
    /// The newest version.
    pub(crate) version: u32,
    pub(crate) style: String,
    pub(crate) digest: String,
    /// The permissions of the publisher.
    pub(crate) permissions: Option<String>,
    /// 0 while no version is active.
    pub(crate) active: u32,
    /// Whether starts have named all its versions, and no worker has registered one.
    pub(crate) is_only_named: bool,
}

impl Head {
    /// Whether a version of `style` replaces the workflow: only starts have named it, and the style has definitions.
    pub(crate) fn is_replaced_by(&self, style: &str) -> bool {
        self.is_only_named && StyleName::parse(style).is_none_or(StyleName::has_definition)
    }

    /// Whether its newest version is the one that is saved: the same definition with the same permissions.
    pub(crate) fn is_version(&self, workflow: &NewWorkflow) -> bool {
        let permissions = self.permissions.clone().unwrap_or_else(default_permissions);
        self.digest == workflow.digest && permissions == workflow.permission_text()
    }

    /// Its style, if it differs: a name belongs to one style.
    pub(crate) fn other_style(&self, style: &str) -> Option<String> {
        (self.style != style).then(|| self.style.clone())
    }
}

impl Precondition {
    /// Whether a workflow in this state may be replaced. It counts as no workflow, but a caller may have read
    /// its state.
    pub(crate) fn allows_replacing(self, head: &Head, saved: &NewWorkflow) -> bool {
        self.allows(None, Some(saved)) || self.allows(Some(head), Some(saved))
    }

    /// Whether a workflow in this state may be changed. `saved` is the version that is saved, if one is.
    pub(crate) fn allows(self, head: Option<&Head>, saved: Option<&NewWorkflow>) -> bool {
        match self {
            Self::Anything => true,
            Self::Nothing => head.is_none(),
            Self::NothingElse => head.is_none_or(|head| saved.is_some_and(|saved| head.is_version(saved))),
            Self::Active(version) => head.map_or(0, |head| head.active) == version,
        }
    }
}

/// The state of a version in the database before it is registered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VersionState {
    /// The newest version of the workflow that has a definition; 0 while there is none.
    pub(crate) newest: u32,
    /// The style of the workflow.
    pub(crate) style: Option<String>,
    /// The retention of this version, if it exists.
    pub(crate) retention_days: Option<u32>,
    /// The digest of this version, if it exists; empty while the version is only named.
    pub(crate) digest: Option<String>,
    /// The newest version that was deleted; 0 if there is none.
    pub(crate) deleted: u32,
}

impl VersionState {
    /// Whether the workspace has no workflow of that name.
    pub(crate) fn is_new_name(&self) -> bool {
        self.style.is_none()
    }

    /// The versions that the workflow had before.
    pub(crate) fn prior_versions(&self) -> PriorVersions {
        if self.is_new_name() && self.deleted == 0 { PriorVersions::Absent } else { PriorVersions::Present }
    }

    /// The style of the workflow, if it differs.
    pub(crate) fn other_style(&self, style: &str) -> Option<&str> {
        self.style.as_deref().filter(|known| *known != style)
    }

    /// Whether this version has a definition, and is not only named.
    fn is_brought(&self) -> bool {
        self.digest.as_deref().is_some_and(|digest| !digest.is_empty())
    }

    /// Whether registering the version would change nothing.
    pub(crate) fn is_as_registered(&self, workflow: &NewWorkflow) -> bool {
        let is_there = match workflow.is_only_named() {
            true => self.retention_days.is_some(),
            false => {
                self.digest.as_deref() == Some(workflow.digest.as_str())
                    && self.retention_days == Some(workflow.retention_days)
            }
        };
        is_there && self.other_style(&workflow.style).is_none()
    }

    /// Whether the version is activated: its definition is registered for the first time and it is the newest, or it is
    /// version 1 and no version has a definition.
    pub(crate) fn is_activated(&self, workflow: &NewWorkflow, version: u32) -> bool {
        let is_first = workflow.is_only_named() && version == 1;
        (is_first || !workflow.is_only_named() && !self.is_brought()) && version > self.newest
    }
}
