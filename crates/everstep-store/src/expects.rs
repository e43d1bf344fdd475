//! What a workflow must be like for a change to be made to it.

use crate::workflows::NewWorkflow;

/// Looked at in the transaction of the change, so that of two who expect the same, one is disappointed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expects {
    #[default]
    Anything,
    /// There is no workflow of that name.
    Nothing,
    /// There is none, or its newest version is the very one that is to be saved.
    NothingElse,
    /// This version is active; 0 stands for none.
    Active(u32),
}

/// What became of a version that was to be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    Saved {
        version: u32,
        /// Whether it was written now; else it was there, as the newest version.
        is_new: bool,
        /// Whether there was no version of that name before.
        is_first: bool,
    },
    /// It is not as expected: nothing was written. This version is active; 0 stands for none.
    Unexpected { active: u32 },
    /// There is a workflow of that name, of this style, after which this one cannot follow: nothing was written.
    OtherStyle(String),
}

/// What became of a version that was to be registered under its own number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registered {
    /// It is there, now or before.
    Registered,
    /// There is a workflow of that name, of this other style: nothing was written.
    OtherStyle(String),
}

impl Registered {
    /// Whether nothing is in the way of what was to be registered together.
    pub(crate) fn are_all(answers: &[Self]) -> bool {
        answers.iter().all(|answer| *answer == Self::Registered)
    }
}

/// What became of a version that new runs were to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Chosen,
    NotFound,
    /// It is not as expected: nothing was written. This version is active; 0 stands for none.
    Unexpected {
        active: u32,
    },
}

/// A workflow before it is changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Head {
    pub(crate) style: String,
    pub(crate) digest: String,
    /// 0 while none is.
    pub(crate) active: u32,
}

impl Head {
    /// Its style, if a version of `style` cannot follow: versions of code have numbers of their own.
    pub(crate) fn other_style(&self, style: &str) -> Option<String> {
        let is_code = |style: &str| style == "code";
        (is_code(&self.style) != is_code(style)).then(|| self.style.clone())
    }
}

impl Expects {
    /// Whether a change may be made to what is there.
    pub(crate) fn allows(self, head: Option<&Head>, digest: &str) -> bool {
        match self {
            Self::Anything => true,
            Self::Nothing => head.is_none(),
            Self::NothingElse => head.is_none_or(|head| head.digest == digest),
            Self::Active(version) => head.map_or(0, |head| head.active) == version,
        }
    }
}

/// What is known of a version that is to be registered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    /// The newest version of the workflow that was brought; 0 while there is none.
    pub(crate) newest: u32,
    /// The style of the workflow.
    pub(crate) style: Option<String>,
    /// Of this very version, if it is there.
    pub(crate) retention_days: Option<u32>,
    /// Whether this very version was brought, and not only named.
    pub(crate) is_brought: bool,
    /// The newest version that was deleted; 0 if none was.
    pub(crate) deleted: u32,
}

impl Known {
    /// The style of the workflow, if it is another.
    pub(crate) fn other_style(&self, style: &str) -> Option<&str> {
        self.style.as_deref().filter(|known| *known != style)
    }

    /// Whether all is as it would be after the version was registered.
    pub(crate) fn is_as_registered(&self, workflow: &NewWorkflow) -> bool {
        let is_there = match workflow.is_only_named() {
            true => self.retention_days.is_some(),
            false => self.is_brought && self.retention_days == Some(workflow.retention_days),
        };
        is_there && self.other_style(&workflow.style).is_none()
    }

    /// Whether new runs take the version once it is registered: it is brought for the first time, and the newest; or
    /// it is the first, and nobody has brought any.
    pub(crate) fn is_activated(&self, workflow: &NewWorkflow, version: u32) -> bool {
        let is_first = workflow.is_only_named() && version == 1;
        (is_first || !workflow.is_only_named() && !self.is_brought) && version > self.newest
    }
}
