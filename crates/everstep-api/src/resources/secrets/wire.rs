//! Secrets in the API: never their values.

use everstep_vault::SecretInfo;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::http::time::Time;

/// The public facts about a secret.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Secret {
    name: String,
    created_at: Time,
    updated_at: Time,
}

impl Secret {
    pub(crate) fn from_info(info: SecretInfo) -> Self {
        Self {
            name: info.name,
            created_at: Time::from_timestamp(info.created_at),
            updated_at: Time::from_timestamp(info.updated_at),
        }
    }
}

/// A page of secrets, by name.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Secrets {
    pub(crate) secrets: Vec<Secret>,
    /// The cursor of the next page; null on the last one.
    pub(crate) next_cursor: Option<String>,
}

/// `PUT /v1/secrets/{name}`. It is never shown, not even in the log.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SetSecretRequest")]
pub(crate) struct NewSecret {
    /// The secret itself; at most 64 KiB.
    #[schemars(with = "String", length(min = 1, max = 65_536))]
    #[serde(deserialize_with = "read")]
    pub(crate) value: Zeroizing<String>,
}

fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(deserializer).map(Zeroizing::new)
}
