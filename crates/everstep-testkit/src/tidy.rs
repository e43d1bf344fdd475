//! The files of the repository and the public types in them, for the tests of `tidy`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose files are generated.
const GENERATED_FOLDERS: &[&str] = &["target", ".git", "data", "node_modules", "dist"];

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the repository is where the test was built")
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

/// A public type of one of our crates.
#[derive(Clone, Debug)]
pub struct PublicType {
    pub name: String,
    /// The file that defines it, relative to the root.
    pub path: String,
}

impl PublicType {
    /// The last word of its name in lower case: `policy` of `RetryPolicy`.
    pub fn head_noun(&self) -> String {
        words(&self.name).pop().unwrap_or_default()
    }
}

/// All `pub struct`, `pub enum` and `pub type` of the crates' sources. Traits are left out: many are verbs.
pub fn public_types(files: &[File]) -> Vec<PublicType> {
    let is_source = |file: &&File| file.path.starts_with("crates/") && file.path.contains("/src/");
    let mut types = Vec::new();
    for file in files.iter().filter(is_source).filter(|file| file.has_extension(&["rs"])) {
        for line in file.text.lines() {
            let mut tokens = line.split_whitespace();
            let is_definition =
                tokens.next() == Some("pub") && matches!(tokens.next(), Some("struct" | "enum" | "type"));
            let Some(rest) = tokens.next().filter(|_| is_definition) else { continue };
            let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
            // A macro defines types under a name such as `$name`.
            if !name.is_empty() {
                types.push(PublicType { name, path: file.path.clone() });
            }
        }
    }
    types
}

/// The head nouns of a glossary: the last word of each term in the first column of its tables.
///
/// A cell may contain several terms with commas between them, a type in backticks, and a remark in parentheses.
pub fn glossary_nouns(page: &str) -> BTreeSet<String> {
    let mut nouns = BTreeSet::new();
    let mut is_in_table = false;
    for line in page.lines() {
        if !line.starts_with('|') {
            is_in_table = false;
            continue;
        }
        if line.starts_with("| Word | Meaning |") {
            is_in_table = true;
        } else if is_in_table && let Some(cell) = line.split('|').nth(1) {
            let cell = cell.split('(').next().unwrap_or_default().replace('`', "");
            let terms = cell.split(',').filter(|term| !term.starts_with("---"));
            nouns.extend(terms.filter_map(|term| words(term.split_whitespace().last()?).pop()));
        }
    }
    nouns
}

/// Whether a noun, or its singular, is in a set.
pub fn is_known_noun(noun: &str, known: impl Fn(&str) -> bool) -> bool {
    let singulars = [
        noun.strip_suffix("ies").map(|stem| format!("{stem}y")),
        noun.strip_suffix("es").map(str::to_owned),
        noun.strip_suffix('s').map(str::to_owned),
    ];
    known(noun) || singulars.iter().flatten().any(|singular| known(singular))
}

/// The words of a `CamelCase` name in lower case. Initials stay together: `HTTPServer` is `http` and `server`.
fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words: Vec<String> = Vec::new();
    for (index, letter) in letters.iter().enumerate() {
        let follows_lower = index > 0 && !letters[index - 1].is_ascii_uppercase();
        let ends_initials = letters.get(index + 1).is_some_and(char::is_ascii_lowercase);
        if words.is_empty() || (letter.is_ascii_uppercase() && (follows_lower || ends_initials)) {
            words.push(String::new());
        }
        words.last_mut().expect("a word was begun").push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_noun_is_the_last_word_of_a_name() {
        let head = |name: &str| PublicType { name: name.to_owned(), path: String::new() }.head_noun();
        assert_eq!(
            ["RetryPolicy", "Run", "HTTPServer", "RunID", "ApiKey2"].map(head),
            ["policy", "run", "server", "id", "key2"]
        );
    }

    #[test]
    fn a_glossary_is_read_from_the_first_column_of_its_tables() {
        let page = "\
            | Word | Meaning |\n|---|---|\n| active run, `ActiveRun` | x |\n| node (graph) | y |\n| API key | z |\n\
            \n| Other | table |\n|---|---|\n| no | noun |\n";
        assert_eq!(glossary_nouns(page).into_iter().collect::<Vec<_>>(), ["key", "node", "run"]);
    }

    #[test]
    fn a_plural_is_known_by_its_singular() {
        let known = |noun: &str| ["key", "policy", "batch", "progress"].contains(&noun);
        assert!(["keys", "policies", "batches", "progress"].iter().all(|noun| is_known_noun(noun, known)));
        assert!(!is_known_noun("held", known));
    }
}
