//! `/v1/topics/{topic}` and `/v1/events`: events are published, listed, shown and replayed.
//!
//! * `publish` and `replay` create events; `list` and `show` read them.
//! * `draft` is an event as a client has sent it; `cloud_event` reads the forms of CloudEvents.

mod cloud_event;
mod draft;
mod list;
mod publish;
mod replay;
mod routes;
mod show;
mod wire;

pub(crate) use routes::add;
