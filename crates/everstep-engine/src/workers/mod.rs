//! Workers: users' processes that run code workflows.

mod hand;
mod lane;
mod letter;
mod registry;
mod session;
mod turns;

pub(crate) use lane::{is_code, lane};
pub use letter::{Known, Letter, Turn, What};
pub use registry::WorkerInfo;
pub(crate) use registry::{More, Workers};
pub use session::{Backlog, Hello, Message, Served, Session, SessionId};
pub use turns::Reported;
pub(crate) use turns::{AtWorker, answer_of};
