//! Stores and a clock that wait for a test.

mod clock;
mod gate;
mod records;
mod topics;

pub use clock::HeldClock;
pub use gate::StoreGate;
