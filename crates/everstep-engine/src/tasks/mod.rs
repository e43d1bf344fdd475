//! Tasks: steps that handlers of this server perform.

mod dispatcher;
mod open;

pub(crate) use dispatcher::{Dispatcher, Job, JobReply};
pub(crate) use open::Tasks;
