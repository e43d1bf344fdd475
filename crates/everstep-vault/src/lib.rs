//! Keeps what handlers need of a workspace: secrets, data sources and saved queries.
//!
//! Rows are in the store; what is secret is sealed here, before it gets there.
//!
//! * `key` is what secrets are sealed with; a ring holds the one in use, and older ones for reading.
//! * `seal` binds a sealed value to its workspace and its name.
//! * `vault` puts, lists and reveals them.
//! * `fetch_policy` decides which workspaces may use `fetch` in their scripts.
//! * `sources` keeps data sources and saved queries.

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
