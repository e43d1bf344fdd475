//! Stores the resources of a workspace for handlers: secrets, data sources and saved queries.
//!
//! Rows are in the store; secrets are sealed here, before they are stored.
//!
//! * `key` contains the keys for secrets; a keyring has the one in use, and older ones for reading.
//! * `seal` binds a sealed value to its workspace and its name.
//! * `vault` stores, lists and reveals secrets.
//! * `fetch_policy` decides which workspaces may use `fetch` in their scripts.
//! * `sources` stores data sources and saved queries.

mod error;
mod fetch_policy;
mod key;
mod name;
mod seal;
mod sources;
mod vault;

pub use error::Error;
pub use fetch_policy::FetchOptions;
pub use key::{Keyring, SealKey};
pub use sources::{DataSources, ResourceError, SavedResource};
pub use vault::{SECRET_BYTES_MAX, SecretInfo, Vault};
