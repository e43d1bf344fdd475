//! Why a secret could not be stored or revealed.

use everstep_core::failure::Failure;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the secret {0:?} does not exist")]
    NotFound(String),
    #[error("{0}")]
    Invalid(String),
    /// The server has no key to seal with.
    #[error(
        "this server has no key for secrets; give all servers of the database the same one: \
         EVERSTEP_SECRETS_KEY=$(everstep secrets key)"
    )]
    NoKey,
    /// It was sealed with a key that is not in the keyring.
    #[error(
        "the secret {name:?} was sealed with the key {id}, which this server does not have; add the key to \
         EVERSTEP_SECRETS_KEY or EVERSTEP_SECRETS_OLD_KEYS, or set the secret again"
    )]
    OtherKey { name: String, id: String },
    /// Its bytes were not written for this workspace and this name.
    #[error("the secret {0:?} was changed in the database, or moved there from elsewhere; set it again")]
    Broken(String),
    #[error(transparent)]
    Store(#[from] everstep_store::Error),
}

impl Error {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "SECRET_NOT_FOUND",
            Self::Invalid(_) => "VALIDATION_ERROR",
            Self::NoKey => "SECRETS_KEY_MISSING",
            Self::OtherKey { .. } | Self::Broken(_) => "SECRET_UNREADABLE",
            Self::Store(_) => "UNAVAILABLE",
        }
    }
}

/// A step that needs a secret and does not get it fails. A retry may succeed if the database was unavailable.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::Store(cause) if cause.is_transient() => {
                tracing::warn!(%cause, "a secret could not be read");
                Self::transient(error.code(), "the database is unavailable")
            }
            _ => Self::fatal(error.code(), error.to_string()),
        }
    }
}
