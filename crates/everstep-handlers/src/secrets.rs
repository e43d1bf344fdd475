//! Puts the secrets into a config that its definition names, and keeps them out of everything else.

use everstep_core::failure::{Failure, code};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::handler::Task;
use crate::ports::Secrets;

/// Replaces a secret in texts.
const SECRET_MASK: &str = "[secret]";

/// Shorter secrets are not masked: they would match everywhere.
const MASKED_BYTES_MIN: usize = 6;

/// The secrets of one task.
#[derive(Default)]
pub(crate) struct RevealedSecrets {
    values: Vec<Zeroizing<String>>,
}

impl RevealedSecrets {
    /// Replaces the names of secrets in a task's config by their values, where the definition itself names them.
    pub(crate) async fn reveal_into(task: &mut Task, secrets: &dyn Secrets) -> Result<Self, Failure> {
        let mut revealed = Self::default();
        for pointer in std::mem::take(&mut task.secrets) {
            let field = task.config.pointer_mut(&pointer);
            let named = field.and_then(|field| Some((field["$secret"].as_str()?.to_owned(), field)));
            let Some((name, field)) = named else {
                let message = format!("there is no secret's name at {pointer}");
                return Err(Failure::fatal(code::INVALID_CONFIG, message));
            };
            let value = secrets.reveal(task.workspace, &name).await?;
            *field = Value::String(value.to_string());
            revealed.add(value);
        }
        Ok(revealed)
    }

    /// Another text that must not be seen, such as one that was made of a secret. It is known in the dresses that
    /// servers repeat it in: as JSON, as JSON inside JSON, as a part of an address.
    pub(crate) fn add(&mut self, value: Zeroizing<String>) {
        let quoted = |text: &str| {
            let quoted = Zeroizing::new(Value::from(text).to_string());
            Zeroizing::new(quoted[1..quoted.len() - 1].to_owned())
        };
        let escaped = quoted(&value);
        let twice = quoted(&escaped);
        let in_address = Zeroizing::new(form_urlencoded::byte_serialize(value.as_bytes()).collect::<String>());
        self.values.extend([value, escaped, twice, in_address]);
        // The longest first: it may hold a shorter one.
        self.values.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        self.values.dedup();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A text without the secrets.
    pub(crate) fn mask(&self, text: &str) -> String {
        let worth = self.values.iter().filter(|value| value.len() >= MASKED_BYTES_MIN);
        worth.fold(text.to_owned(), |text, value| text.replace(value.as_str(), SECRET_MASK))
    }

    /// Bytes without the secrets.
    pub(crate) fn mask_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        let worth = self.values.iter().filter(|value| value.len() >= MASKED_BYTES_MIN);
        worth.fold(bytes, |bytes, value| replace(bytes, value.as_bytes()))
    }
}

fn replace(bytes: Vec<u8>, secret: &[u8]) -> Vec<u8> {
    if !bytes.windows(secret.len()).any(|window| window == secret) {
        return bytes;
    }
    let mut masked = Vec::with_capacity(bytes.len());
    let mut rest = bytes.as_slice();
    while let Some(first) = rest.first() {
        match rest.strip_prefix(secret) {
            Some(after) => {
                masked.extend_from_slice(SECRET_MASK.as_bytes());
                rest = after;
            }
            None => {
                masked.push(*first);
                rest = &rest[1..];
            }
        }
    }
    masked
}
