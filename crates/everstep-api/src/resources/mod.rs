//! The resources of the API. A resource is a folder with its rows of the route table (`routes`), its handlers, and its
//! request and response types (`wire`), which are converted by hand: the core can change without breaking a client.

pub(crate) mod audit;
pub(crate) mod catalog;
pub(crate) mod data;
pub(crate) mod dead_letters;
pub(crate) mod documents;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod health;
pub(crate) mod inbox;
pub(crate) mod keys;
pub(crate) mod links;
pub(crate) mod machines;
pub(crate) mod namespaces;
pub(crate) mod nodes;
pub(crate) mod runs;
pub(crate) mod schemas;
pub(crate) mod secrets;
pub(crate) mod sign_ins;
pub(crate) mod stats;
pub(crate) mod store;
pub(crate) mod subscriptions;
pub(crate) mod tickets;
pub(crate) mod workflows;
pub(crate) mod workspaces;
