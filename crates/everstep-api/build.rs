//! Lists the built console as a table of files, which the crate includes.
//!
//! `make console` builds it; this script never starts another program. Without a build the table is empty.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-env-changed=EVERSTEP_CONSOLE_DIST");
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let dist = env::var_os("EVERSTEP_CONSOLE_DIST").map_or_else(|| root.join("../../console/dist"), PathBuf::from);
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    if dist.join("index.html.gz").is_file() {
        list(&dist, &dist, &mut files)?;
    }
    files.sort();
    let mut rows = String::new();
    let mut digests = String::new();
    for (name, path) in &files {
        let digest = digest(&fs::read(path)?);
        digests.push_str(&format!("{name} {digest}\n"));
        let (kind, source) = (media_type(name), path.canonicalize()?);
        rows.push_str(&format!(
            "    Asset {{ path: {name:?}, media_type: {kind:?}, etag: \"\\\"{digest}\\\"\", gzipped: include_bytes!({source:?}) }},\n"
        ));
    }
    let digest = match files.is_empty() {
        true => "None".to_owned(),
        false => format!("Some({:?})", digest(digests.as_bytes())),
    };
    let text = format!(
        "/// The digest of all files.\npub(super) const DIGEST: Option<&str> = {digest};\n\n\
         /// The files, by path.\npub(super) const ASSETS: &[Asset] = &[\n{rows}];\n"
    );
    let output = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("console.rs");
    fs::write(output, text)
}

/// Lists the files below a folder that `scripts/gzip.mjs` has written, each with its path in the console.
fn list(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(root, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "gz") {
            let plain = path.with_extension("");
            let name = plain.strip_prefix(root).expect("it is below the folder");
            let name: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
            files.push((name.join("/"), path));
        }
    }
    Ok(())
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// FNV-1a with 128 bits. A file that changes has another digest; no caller relies on more.
fn digest(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    format!("{hash:032x}")
}
