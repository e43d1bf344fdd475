//! Workers: users' processes that run code workflows.

mod lanes;
mod message;
mod seats;
mod session;
mod sessions;
mod turns;

pub(crate) use lanes::{is_code, lane};
pub use message::{Known, Letter, Turn, What};
pub use seats::WorkerInfo;
pub(crate) use seats::{More, Workers};
pub use session::{Backlog, Hello, Message, Served, Session, SessionId};
pub use turns::Reported;
pub(crate) use turns::{AtWorker, answer_of};
