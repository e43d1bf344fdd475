//! The bounds of the uploads of a node.

use axum::http::StatusCode;
use everstep_core::fair_share::ShareBounds;
use everstep_core::ids::WorkspaceId;
use everstep_core::limits;
use everstep_handlers::{Place, Places};

use crate::http::problem::Problem;

/// The largest bound of a file that a server can have: more could not be bound.
pub const FILE_BYTES_MAX: u64 = limits::UNBOUND_FILE_BYTES;

/// Bytes of a file, if the server sets no other number.
const FILE_BYTES_DEFAULT: u64 = 25 * 1024 * 1024;
/// Uploads of a node at the same time. Each holds one chunk in memory, not its file.
const UPLOADS_MAX: u64 = 4;
/// The header `Retry-After` of a rejected upload, in seconds.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The uploads of a node.
pub struct Uploads {
    bytes_max: u64,
    /// Workspaces share them: while several upload, slow uploads of one leave a place for those of another.
    places: Places,
}

impl Default for Uploads {
    fn default() -> Self {
        Self::new(FILE_BYTES_DEFAULT)
    }
}

impl Uploads {
    /// Uploads of files with at most this many bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max: bytes_max.min(FILE_BYTES_MAX), places: Places::new(ShareBounds::new(UPLOADS_MAX)) }
    }

    /// Bytes of a file.
    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// A place for one upload of a workspace. A workspace that finds none is known from then on: another one that had
    /// all places leaves the last one free.
    pub(super) fn begin(&self, workspace: WorkspaceId) -> Result<Place, Problem> {
        self.places.try_acquire(workspace, (), 1).ok_or_else(|| {
            self.places.introduce(workspace);
            let detail = "the maximum number of uploads is in progress; send the request again after Retry-After";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", detail).retry_after(RETRY_AFTER_SECONDS)
        })
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::time::Timestamp;

    use super::*;

    #[test]
    fn slow_uploads_of_a_workspace_leave_a_place_for_another() {
        let uploads = Uploads::default();
        let [first, second] = [1, 2].map(|number| WorkspaceId::new(Timestamp::EPOCH, number));
        let begin =
            |workspace, count: usize| -> Vec<_> { (0..count).map_while(|_| uploads.begin(workspace).ok()).collect() };
        let mut of_first = begin(first, 10);
        assert_eq!(of_first.len(), 4, "all places while no other workspace is known");
        assert!(uploads.begin(second).is_err());
        of_first.pop();
        assert!(uploads.begin(first).is_err(), "the last place is for the other workspace");
        let of_second = uploads.begin(second);
        assert!(of_second.is_ok());
    }
}
