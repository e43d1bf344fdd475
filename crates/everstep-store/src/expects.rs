//! What a workflow must be like for a change to be made to it.

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub(crate) digest: String,
    /// 0 while none is.
    pub(crate) active: u32,
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
