//! The story of a run: the one fold of a journal for readers.
//!
//! [`State`](crate::run::State) is folded to decide what follows; a [`Story`] is folded to show what happened. API
//! views, live streams, the command line, metrics and spans render a story or its updates. None of them interprets
//! entries by itself, so that a new kind of entry is added here and nowhere else.
//!
//! 1. An entry becomes an [`Update`] (`read`): a function of the entry and of what is known about its step.
//! 2. A story applies the update, and derives those that follow from it: the end of a loop or of a run cancels the
//!    steps that are open, and the retry of a run opens steps again.
//! 3. `style::StepFacts` answers what depends on the style: the name and the kind of a step, whether its failure was
//!    handled, and which steps a retry opens.
//!
//! The fold is total: it accepts every journal, also one whose beginning is missing. Two things the journal does not
//! say, and so a story learns them later than the state: that a failed attempt of a paused run will be retried (the step
//! is failed until its timer is set), and that a loop has given the other steps of a failed item up (they are open until
//! the loop is over).

mod derive;
mod fold;
mod observe;
mod read;
mod run;
mod step;
mod update;

pub use fold::Story;
pub use observe::observe;
pub use read::{StepContext, read};
pub use run::RunStory;
pub use step::{Activity, AttemptStory, StepStory};
pub use update::{RunChange, RunUpdate, StepChange, StepUpdate, Update};
