//! Keeps what handlers need of a workspace: secrets, data sources and saved queries.
//!
//! Rows are in the store; what is secret is sealed here, before it gets there.
//!
//! * `key` is what secrets are sealed with; a ring holds the one in use, and older ones for reading.
//! * `seal` locks a value to its place: to its workspace and its name.
//! * `vault` puts, lists and reveals them.
//! * `fetches` knows which workspaces let their scripts reach out.
//! * `sources` keeps data sources and saved queries.

mod error;
mod fetches;
mod key;
mod name;
mod seal;
mod sources;
mod vault;

pub use error::Error;
pub use fetches::FetchOptions;
pub use key::{Keyring, SealKey};
pub use sources::{DataSources, Refusal, Saved};
pub use vault::{MOST_BYTES, SecretInfo, Vault};
