//! The bounds of the uploads of a node.

use std::sync::Arc;

use axum::http::StatusCode;
use everstep_core::limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::problem::Problem;

/// The largest bound of a file that a server can have: more could not be bound.
pub const FILE_BYTES_MAX: u64 = limits::UNBOUND_FILE_BYTES;

/// Bytes of a file, if the server sets no other number.
const FILE_BYTES_DEFAULT: u64 = 25 * 1024 * 1024;
/// Uploads of a node at the same time.
const UPLOADS_MAX: usize = 4;
/// The header `Retry-After` of a refused upload, in seconds.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The uploads of a node.
pub struct Uploads {
    bytes_max: u64,
    places: Arc<Semaphore>,
}

impl Default for Uploads {
    fn default() -> Self {
        Self::new(FILE_BYTES_DEFAULT)
    }
}

impl Uploads {
    /// Uploads of files with at most this many bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max: bytes_max.min(FILE_BYTES_MAX), places: Arc::new(Semaphore::new(UPLOADS_MAX)) }
    }

    /// Bytes of a file.
    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// A place for one upload.
    pub(super) fn begin(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let detail = format!("{UPLOADS_MAX} files are being uploaded to this server already; try again");
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", detail).retry_after(RETRY_AFTER_SECONDS)
        })
    }
}
