//! Stored bytes: long ones are compressed.

use crate::error::{Error, Result};
use crate::item::Item;

/// Bytes up to this length are stored uncompressed.
const UNCOMPRESSED_BYTES_MAX: usize = 2 * 1024;
const ZSTD_LEVEL: i32 = 1;
/// The payload of a completed step without an output, the most frequent payload.
const NO_OUTPUT: &[u8] = br#"{"output":null}"#;

/// How a column's bytes are written, as the `codec` column states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Codec {
    Plain = 0,
    Zstd = 1,
    /// The payload is [`NO_OUTPUT`], and no bytes are stored. On PostgreSQL it is read and never written, because nodes of
    /// the previous release cannot read it.
    NoOutput = 2,
}

impl Codec {
    pub(crate) fn number(self) -> u8 {
        self as u8
    }
}

/// The compressed payloads of an item by the index of their entry. Nearly always empty.
pub(crate) type CompressedPayloads = Vec<(usize, Vec<u8>)>;

/// An item with its long payloads compressed.
#[derive(Debug)]
pub(crate) struct Packed<'a> {
    pub(crate) item: &'a Item,
    compressed: CompressedPayloads,
}

impl<'a> Packed<'a> {
    pub(crate) fn borrow(item: &'a Item) -> Self {
        Self::new(item, compress_long(item))
    }

    pub(crate) fn new(item: &'a Item, compressed: CompressedPayloads) -> Self {
        Self { item, compressed }
    }

    /// The payload of the entry at `index`, as it is stored.
    pub(crate) fn payload(&self, index: usize) -> (Codec, &[u8]) {
        match self.compressed.iter().find(|(compressed, _)| *compressed == index) {
            Some((_, bytes)) => (Codec::Zstd, bytes),
            None => (Codec::Plain, &self.item.entries[index].row.payload),
        }
    }
}

/// Leaves out the bytes of a payload that its codec can state.
pub(crate) fn omit_no_output((codec, bytes): (Codec, &[u8])) -> (Codec, &[u8]) {
    if codec == Codec::Plain && bytes == NO_OUTPUT { (Codec::NoOutput, b"".as_slice()) } else { (codec, bytes) }
}

/// Compresses the long payloads of an item.
pub(crate) fn compress_long(item: &Item) -> CompressedPayloads {
    let payloads = item.entries.iter().map(|entry| entry.row.payload.as_slice()).enumerate();
    payloads.filter_map(|(index, payload)| compress(payload).map(|bytes| (index, bytes))).collect()
}

/// Compresses bytes if that makes them shorter. Returns them with their codec.
pub(crate) fn pack(bytes: Vec<u8>) -> (Codec, Vec<u8>) {
    match compress(&bytes) {
        Some(compressed) => (Codec::Zstd, compressed),
        None => (Codec::Plain, bytes),
    }
}

/// The compressed form of long bytes, if it is shorter.
fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() <= UNCOMPRESSED_BYTES_MAX {
        return None;
    }
    let compressed = zstd::bulk::compress(bytes, ZSTD_LEVEL).ok()?;
    (compressed.len() < bytes.len()).then_some(compressed)
}

/// Decodes stored bytes.
pub(crate) fn unpack(codec: u8, bytes: &[u8]) -> Result<Vec<u8>> {
    match codec {
        0 => Ok(bytes.to_vec()),
        1 => zstd::stream::decode_all(bytes).map_err(|error| Error::Corrupt(format!("compressed bytes: {error}"))),
        2 => Ok(NO_OUTPUT.to_vec()),
        _ => Err(Error::Corrupt(format!("codec {codec} is unknown to this build"))),
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::ids::StepKey;
    use everstep_core::journal::{Entry, Event, Outcome, codec};
    use everstep_core::time::Timestamp;

    use super::*;

    #[test]
    fn long_bytes_come_back_from_their_compressed_form() {
        let bytes = b"everstep ".repeat(1_000);
        let (codec, packed) = pack(bytes.clone());
        assert_eq!(codec, Codec::Zstd);
        assert!(packed.len() < bytes.len() / 10);
        assert_eq!(unpack(codec.number(), &packed).unwrap(), bytes);
    }

    #[test]
    fn the_payload_of_a_step_without_an_output_is_left_out() {
        let (step, outcome) = (StepKey::from("step"), Outcome::from_output(serde_json::Value::Null));
        let completed = Entry::new(1, Timestamp::EPOCH, Event::StepCompleted { step, attempt: 1, outcome });
        let payload = codec::encode(&completed).payload;
        let (codec, stored) = omit_no_output((Codec::Plain, payload.as_slice()));
        assert_eq!((codec, stored), (Codec::NoOutput, b"".as_slice()));
        assert_eq!(unpack(codec.number(), stored).unwrap(), payload);
        let other = (Codec::Plain, b"{}".as_slice());
        assert_eq!(omit_no_output(other), other);
    }

    #[test]
    fn bytes_that_compression_makes_longer_stay_plain() {
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .take(4_096)
        .collect();
        assert_eq!(pack(noise.clone()), (Codec::Plain, noise));
    }

    #[test]
    fn an_unknown_codec_is_reported() {
        assert!(matches!(unpack(9, b""), Err(Error::Corrupt(_))));
    }
}
