//! The repository as a heap of files, for the tests that keep it tidy.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose files are generated.
const GENERATED_FOLDERS: &[&str] = &["target", ".git", "data", "node_modules", "dist"];

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository is where it was built")
}

/// A text file of the repository.
pub struct File {
    /// Relative to the root, with slashes.
    pub path: String,
    pub text: String,
}

impl File {
    pub fn has_extension(&self, extensions: &[&str]) -> bool {
        let extension = Path::new(&self.path).extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| extensions.contains(&extension))
    }
}

/// All text files that people write, in the order of their paths.
pub fn files() -> Vec<File> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).expect("the repository can be read");
        for path in entries.map(|entry| entry.expect("the repository can be read").path()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                if !GENERATED_FOLDERS.contains(&name) {
                    folders.push(path);
                }
                continue;
            }
            let Ok(text) = fs::read_to_string(&path) else { continue };
            let path = path.strip_prefix(&root).expect("the walk began at the root").to_string_lossy().into_owned();
            found.push(File { path, text });
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}
