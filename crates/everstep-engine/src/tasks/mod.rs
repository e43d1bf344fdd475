//! Tasks that this server's handlers perform.

mod dispatcher;

pub(crate) use dispatcher::{Dispatcher, Job};
