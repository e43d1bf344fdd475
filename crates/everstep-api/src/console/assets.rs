//! The files of the console in this binary. The build script lists them.

include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// One file. It is stored compressed, as most clients receive it.
pub(super) struct Asset {
    /// Without a leading slash: `assets/index-BkW3x9.js`.
    pub(super) path: &'static str,
    pub(super) media_type: &'static str,
    pub(super) etag: &'static str,
    pub(super) gzipped: &'static [u8],
}

/// The digest of the console in this binary; none if it was built without the console.
pub fn digest() -> Option<&'static str> {
    DIGEST
}

pub(super) fn find(path: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.path == path)
}
