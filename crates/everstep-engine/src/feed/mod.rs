//! The runs of a workspace as they change, for followers of the workspace: `status` gathers the updates of this node,
//! `workspace` reads those of all nodes.

mod status;
mod workspace;

pub(crate) use status::StatusFeed;
pub use status::{FeedCursor, FeedPage, StatusUpdate};
pub use workspace::{FEED_PATH, WorkspaceFeed, WorkspacePage};
