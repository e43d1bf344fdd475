//! Stores the resources of a workspace for handlers: secrets, data sources and saved queries.
//!
//! Rows are in the store; secrets are sealed here, before they are stored.
//!
//! * `key` contains the keys for secrets; a keyring has the one in use, and older ones for reading.
//! * `seal` binds a sealed value to its workspace and its name.
//! * `vault` stores, lists and reveals secrets.
//! * `options` reads the options of workspaces: which may use `fetch`, and where their mails are sent.
//! * `sources` stores data sources and saved queries.

mod error;
mod key;
mod name;
mod options;
mod seal;
mod sources;
mod vault;

pub use error::Error;
pub use key::{Keyring, SealKey};
pub use name::check_name;
pub use options::WorkspaceOptions;
pub use sources::{DataSources, ResourceError, SavedResource};
pub use vault::{SECRET_BYTES_MAX, SecretInfo, Vault};
