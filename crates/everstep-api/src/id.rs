//! Ids that this server creates.

use everstep_core::time::Timestamp;
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

/// A unique id that sorts by its time, to the microsecond.
pub fn new_id(now: Timestamp) -> Uuid {
    let mut random = [0; 10];
    getrandom::fill(&mut random).expect("the operating system provides random bytes");
    // The twelve bits after the milliseconds: the fraction of the millisecond, as RFC 9562 allows.
    let fraction = u16::try_from(now.micros().rem_euclid(1_000) * 4_096 / 1_000).expect("it has twelve bits");
    [random[0], random[1]] = fraction.to_be_bytes();
    Builder::from_unix_timestamp_millis(now.millis().max(0).cast_unsigned(), &random).into_uuid()
}

/// The one id of a resource that was created under an idempotency key.
pub(crate) fn keyed_id(purpose: &str, workspace: Uuid, key: &str) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(purpose.as_bytes());
    hash.update([0]);
    hash.update(workspace.as_bytes());
    hash.update(key.as_bytes());
    let hash: [u8; 32] = hash.finalize().into();
    Builder::from_custom_bytes(*hash.first_chunk().expect("a hash is longer than an id")).into_uuid()
}

/// The one id of a time and a text. It sorts by its time.
pub(crate) fn derived_id(time: Timestamp, text: &str) -> Uuid {
    let hash: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    let random = hash.first_chunk().expect("a hash is longer than ten bytes");
    Builder::from_unix_timestamp_millis(time.millis().max(0).cast_unsigned(), random).into_uuid()
}

/// Whether a number can be a version of a workflow: databases and workers count versions from 1, in 32 bits with a sign.
pub(crate) fn is_version(version: u32) -> bool {
    version >= 1 && i32::try_from(version).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_the_microsecond() {
        let ids: Vec<_> = (1_999_900..2_000_100).map(|micros| new_id(Timestamp::from_micros(micros))).collect();
        assert!(ids.is_sorted());
        assert!(ids.iter().all(|id| id.get_version_num() == 7));
    }
}
