//! Workers: users' processes that run code workflows.

mod lanes;
mod message;
mod seats;
mod session;
mod sessions;
mod turns;

pub(crate) use lanes::{is_code, lane};
pub use message::{StepOutcome, StepRecord, Turn, WorkerMessage};
pub use seats::WorkerInfo;
pub(crate) use seats::{More, Workers};
pub use session::{Backlog, Hello, ServedWorkflow, Session, SessionId, WorkerBatch};
pub use turns::WorkerReport;
pub(crate) use turns::{AtWorker, answer_of};
