//! Workers: users' processes that run code workflows.

mod letter;
mod session;

pub use letter::{Known, Letter, Turn, What};
pub use session::{Hello, Message, Served, Session, SessionId};
