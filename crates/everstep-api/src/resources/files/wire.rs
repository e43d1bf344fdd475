//! Files in the API.

use everstep_core::ids::FileId;
use everstep_store::FinishedFile;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::schema::{Id, inline_schema};

inline_schema!(
    /// The bytes of a file.
    FileBytes,
    schemars::json_schema!({"type": "string", "format": "binary"})
);

/// An uploaded file. A request to a state machine names it by its id.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UploadedFile {
    #[schemars(with = "Id")]
    id: FileId,
    name: String,
    /// The number of its bytes.
    size: u64,
    /// The media type of the request, without parameters; `application/octet-stream` if it has none.
    media_type: String,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    sha256: String,
}

impl UploadedFile {
    pub(crate) fn new(name: String, media_type: String, finished: &FinishedFile) -> Self {
        Self { id: finished.id, name, size: finished.size, media_type, sha256: hex(&finished.sha256) }
    }
}

/// Bytes in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
