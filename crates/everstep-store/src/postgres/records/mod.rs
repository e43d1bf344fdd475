//! Records and links.
//!
//! * `store`: the port's implementation.
//! * `apply`: a batch of ops. `picture` reads what they touch in one statement; `write` writes the difference in
//!   another, which locks the namespaces. No lock is held while the database waits for this node.
//! * `pages`: the verbs that read pages.

mod apply;
mod pages;
mod picture;
mod rows;
mod store;
mod write;
