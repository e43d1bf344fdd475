//! SQLite: the embedded store.
