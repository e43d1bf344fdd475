//! Records and links: the data of a workspace that outlives its runs.
//!
//! A *record* is a JSON value under a key of a namespace. A *link* is a typed edge between two identifiers in a
//! namespace. An *op* is one verb with its input; [`fold`] applies it to a [`Picture`], which holds the records, links
//! and counters that a batch of ops touches. A *change* is the effect of an applied op on one record or link.
//!
//! The rules, for every database:
//!
//! 1. An op writes to one namespace. The namespace numbers its changes from 1 without a gap.
//! 2. An op is applied completely or not at all. An op that fails, or that changes nothing, leaves nothing behind and
//!    is evaluated again when it is repeated.
//! 3. An applied op is known by its key. A repeated op returns the output that was stored with its first change. If
//!    the author or the caller has chosen the key, another input under it fails.
//! 4. An expired record is absent for every op. A write to it creates the record again, with revision 1.
//! 5. A later op of a batch sees the changes of the earlier ones.
//! 6. Only the changes are needed to compute the records and links: [`replay`] folds them from the first.
//!
//! * `op`, `requests`, `key`, `limits`, `text`: ops with their inputs, and the checks of an input.
//! * `picture`, `fold`, `write`, `link_writes`, `transact`: how an op changes a picture.
//! * `batch`: what the picture of a batch holds, and the fold of a whole batch.
//! * `change`: changes, and the fold of changes.
//! * `scan`, `list`, `lookup`, `namespaces`: how a page of records, links or namespaces is read, with the bounds of a
//!   page. `cursor`: the cursors of lists of records and namespaces.
//! * `output`: the outputs of ops and reads, as JSON.

mod batch;
mod change;
mod cursor;
mod failure;
mod fold;
mod key;
mod limits;
mod link;
mod link_writes;
mod list;
mod lookup;
mod namespaces;
mod op;
mod output;
mod picture;
mod record;
mod requests;
mod scan;
mod text;
mod transact;
mod write;

pub use batch::{FoldedOp, PictureRequest, fold_all};
pub use change::{AppliedOp, Change, Contents, Effect, replay};
pub use cursor::{read_cursor, write_cursor};
pub use failure::OpFailure;
pub use fold::fold;
pub use key::OpKey;
pub use limits::{
    ATTRIBUTES_BYTES_MAX, DELETED_LINKS_MAX, INCREMENTED_BYTES_MAX, LINK_BYTES_MAX, NAME_CHARS_MAX, OP_KEY_BYTES_MAX,
    PAGE_BYTES_MAX, PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX, RecordLimits, SCANNED_BYTES_MAX, SCANNED_ROWS_MAX,
    TRANSACT_BYTES_MAX, TRANSACT_PARTS_MAX, TTL_SECONDS_MAX,
};
pub use link::{Identifier, Link, LinkId, LinkKey};
pub use list::{ListRequest, RecordPage, RecordQuery, RecordScan};
pub use lookup::{
    Direction, LinkMatch, LinkPage, LinkPosition, LinkQuery, LinkRange, LinkScan, LinksRequest, LookupRequest,
};
pub use namespaces::{NamespaceCountPage, NamespaceFilter, NamespacesRequest};
pub use op::{Author, NewOp, Op, OpAction, OpInput, Verb};
pub use output::{
    DeleteOutput, GetOutput, IncrementOutput, LinkItem, LinksOutput, ListItem, ListOutput, LookupItem, LookupOutput,
    SetOutput, TransactOutput, UnlinkOutput, UpsertOutput,
};
pub use picture::{KnownOp, NamespaceCounts, NamespacePicture, Picture};
pub use record::{Record, RecordId, ValueType};
pub use requests::{
    CheckRequest, DeleteRequest, ExpireRequest, IncrementRequest, SetRequest, TransactRequest, UnlinkRequest,
    UpsertRequest, WriteRequest,
};
pub use scan::Scan;
pub use text::{check_limit, check_name};
