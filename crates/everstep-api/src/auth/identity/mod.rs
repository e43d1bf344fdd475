//! People, who authenticate with a token of an identity provider: `Authorization: Bearer <JWT>`.
//!
//! * `options` holds the settings of the identity provider.
//! * `crypto` verifies signatures with `ring`.
//! * `key_set` holds the keys of a provider, each with the algorithms that it may be used with.
//! * `key_source` reads them, and reads them again when the provider rotates its keys.
//! * `token` verifies a token, and reports the rule that it breaks.
//! * `role_map` maps roles, and permissions of other systems, to permissions.
//! * `person` is the holder of a verified token.
//! * `provider` combines these, and caches verified tokens for a short time.

mod crypto;
mod key_set;
mod key_source;
mod options;
mod person;
mod provider;
mod role_map;
mod token;

pub use options::{ClaimNames, IdentityOptions, JwtAlgorithm, KeySource, WorkspaceSource};
pub(crate) use person::Person;
pub use provider::IdentityProvider;
pub(crate) use provider::{TokenError, VerifiedPerson};
pub use role_map::RoleMap;
pub(crate) use token::{TokenFault, is_token};
