//! Files: bytes that a person uploads, and that a request to a machine then names.
//!
//! A file is *unbound* after its upload, *reserved* for a run when a request names it, and *bound* by the item that
//! records the request: with its entry or not at all.
//!
//! * `binding`: the files that an item binds. `name`, `media`: what a file may be called, and how it is shown.

mod binding;
mod media;
mod name;

pub use binding::{FileBinding, bound_by};
pub use media::{SNIFFED_BYTES, is_shown_inline, media_type_of};
pub use name::check_file_name;
