//! The story of a run: the one fold of a journal for readers.
//!
//! [`State`](crate::run::State) is folded to decide what follows; a [`Story`] is folded to show what happened. API
//! views, live streams, the command line, metrics and spans render a story or its updates. None of them interprets
//! entries, so that a new kind of entry is added only here.
//!
//! 1. An entry becomes an [`Update`] (`read`): a function of the entry and of the known facts about its step.
//! 2. A story applies the update, and derives those that follow from it: the end of a loop or of a run cancels the open
//!    steps, a transition of a machine cancels the open steps of the state that it leaves, and the retry of a run reopens
//!    steps.
//! 3. `style::StepFacts` answers the questions that depend on the style: the name and the kind of a step, whether its
//!    failure was handled, and which steps a retry reopens.
//!
//! The fold is total: it accepts every journal, including one whose beginning is missing.
//!
//! A story shows three facts later than the state, because the journal does not contain them:
//!
//! * A failed attempt of a paused run will be retried. In the story the step is failed until its timer is set.
//! * A loop has cancelled the other steps of a failed item. In the story they are open until the loop has ended.
//! * A fork starts a child of its own for each open child of its original. In the story the step waits for the
//!   original's child until it is dispatched again, so that the run may be waiting while its state is running.

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
pub use run::{MachineStory, RunStory};
pub use step::{Activity, AttemptStory, StepStory};
pub use update::{MachineUpdate, RunChange, RunUpdate, StepChange, StepUpdate, Update};
