//! The web console: files that the binary contains, served to browsers without a credential.
//!
//! 1. `GET /assets/…` is a file, or 404.
//! 2. `GET` of any other path by a browser is the page, unless a route of the table has the same first segment. The page
//!    reads the rest of the path itself.
//! 3. Every other request is for the routes.

mod assets;
mod serve;

pub use assets::digest;
pub(crate) use serve::Console;
