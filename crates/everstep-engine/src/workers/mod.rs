//! Workers: users' processes that run code workflows.
//!
//! * `registry` has the sessions of a node, `session` is one of them, `outbox` its messages.
//! * `lanes` determines the workers that a run needs, and how many runs may be claimed; `seats` assigns runs to
//!   sessions.
//! * `turns` is the turn of a run; `wakes` and `message` are the messages to a worker; `turn_end` is the reason why a
//!   worker loses a turn.
//! * `sessions` are the methods of [`Engine`](crate::Engine) for the transport layer.

mod lanes;
mod message;
mod outbox;
mod registry;
mod seats;
mod session;
mod session_id;
mod sessions;
mod turn_end;
mod turns;
mod wakes;

pub(crate) use lanes::{More, is_worker_lane, lane};
pub use message::{StepOutcome, StepRecord, Turn, WorkerMessage};
pub use outbox::{Backlog, WorkerBatch};
pub use registry::WorkerInfo;
pub(crate) use registry::Workers;
pub(crate) use seats::Seat;
pub use session::{Hello, ServedWorkflow, Session};
pub use session_id::SessionId;
pub use turn_end::TurnEnd;
pub use turns::WorkerReport;
pub(crate) use turns::{WorkerTurn, report_reply};
