//! The rules of the repository that a program can check. The rest is in CONTRIBUTING.md.

use std::collections::BTreeMap;
use std::process::Command;

use everstep_core::journal::Kind;
use everstep_testkit::contents::unlisted_sections;
use everstep_testkit::tidy::{File, files, glossary_nouns, is_known_noun, public_types, root};
use everstep_testkit::words::{avoided_words, needless_exceptions};
use serde_json::Value;

/// The crates of ours that each crate may use. Imports point toward the core.
const MAY_USE: &[(&str, &[&str])] = &[
    ("everstep-core", &[]),
    ("everstep-expressions", &["core"]),
    ("everstep-store", &["core", "net"]),
    ("everstep-sandbox", &[]),
    ("everstep-net", &[]),
    ("everstep-handlers", &["core", "sandbox", "net"]),
    ("everstep-vault", &["core", "store", "handlers"]),
    ("everstep-engine", &["core", "store", "handlers"]),
    ("everstep-api", &["core", "net", "store", "handlers", "vault", "engine"]),
    ("everstep-testkit", &["core", "expressions", "store", "sandbox", "handlers", "vault", "engine"]),
    ("everstep", &["core", "expressions", "store", "sandbox", "net", "handlers", "vault", "engine", "api"]),
    (
        "everstep-lab",
        &["core", "expressions", "store", "sandbox", "handlers", "vault", "engine", "api", "testkit", "everstep"],
    ),
];
const FILE_LINES_MAX: usize = 800;
/// The lines of a page without a table of contents.
const PAGE_LINES_MAX: usize = 140;
/// Files that a script writes from another file.
const GENERATED_FILES: &[&str] = &["console/src/api/types.ts"];

#[test]
fn imports_point_toward_the_core() {
    let may_use: BTreeMap<_, _> = MAY_USE.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let Some(allowed) = may_use.get(name) else {
            wrong.push(format!("{name} is not in the table of this test: add the crates that it may use"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            let is_for_tests = dependency["kind"] == "dev";
            let ours = used.strip_prefix("everstep-").or((used == "everstep").then_some(used));
            let Some(ours) = ours.filter(|_| !is_for_tests) else { continue };
            if !allowed.contains(&ours) {
                wrong.push(format!("{name} must not use {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The test programs are built with the feature `planted-bugs`; the server that users build must not have it.
#[test]
fn no_manifest_enables_the_planted_bugs() {
    const FEATURE: &str = "planted-bugs";
    let has_feature =
        |names: &Value| names.as_array().unwrap().iter().any(|name| name.as_str().unwrap().contains(FEATURE));
    let mut crates_with_feature = 0;
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        for (feature, enabled) in package["features"].as_object().unwrap() {
            crates_with_feature += usize::from(feature == FEATURE);
            assert!(feature == FEATURE || !has_feature(enabled), "feature {feature} of {name} enables {FEATURE}");
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            assert!(!has_feature(&dependency["features"]), "{name} enables {FEATURE} of {}", dependency["name"]);
        }
        assert!(name != "everstep" || package["features"].as_object().unwrap().is_empty(), "the server has features");
    }
    assert_eq!(crates_with_feature, 5, "core, store, engine, testkit and lab have the feature {FEATURE}");
}

/// The manifests of the workspace, as `cargo metadata` prints them.
fn packages() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    metadata["packages"].as_array().expect("the metadata has packages").clone()
}

/// The folder `http` of the API can serve any application: it names neither the engine nor a resource.
#[test]
fn the_http_folder_of_the_api_knows_nothing_of_workflows() {
    const OTHERS: &[&str] = &[
        "everstep_engine",
        "everstep_handlers",
        "everstep_store",
        "everstep_vault",
        "crate::audit",
        "crate::cluster",
        "crate::errors",
        "crate::metrics",
        "crate::resources",
        "crate::routes",
        "crate::server",
        "crate::stream",
        "crate::workers",
    ];
    let of_http: Vec<_> =
        files().into_iter().filter(|file| file.path.starts_with("crates/everstep-api/src/http/")).collect();
    assert!(of_http.len() > 10, "the folder http was found");
    let named = |file: &File| OTHERS.iter().filter(|other| file.text.contains(**other)).copied().collect::<Vec<_>>();
    let wrong: Vec<_> = of_http
        .iter()
        .flat_map(|file| named(file).into_iter().map(|other| format!("{} must not use {other}", file.path)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_file_is_longer_than_eight_hundred_lines() {
    let long: Vec<_> = files()
        .into_iter()
        .filter(|file| file.has_extension(&["rs", "sql", "ts", "tsx", "py", "sh"]))
        .filter(|file| !GENERATED_FILES.contains(&file.path.as_str()))
        .map(|file| (file.text.lines().count(), file.path))
        .filter(|(lines, _)| *lines > FILE_LINES_MAX)
        .map(|(lines, path)| format!("{path} has {lines} lines; find the second idea in it"))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn long_pages_begin_with_a_table_of_contents() {
    let mut wrong = Vec::new();
    let pages = files().into_iter().filter(|file| file.path.starts_with("docs/") && file.has_extension(&["md"]));
    for page in pages {
        match unlisted_sections(&page.text) {
            Some(titles) => wrong.extend(titles.iter().map(|title| format!("{} does not list {title:?}", page.path))),
            None if page.text.lines().count() > PAGE_LINES_MAX => {
                wrong.push(format!("{} has no section \"Contents\"", page.path));
            }
            None => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_is_left_undone_in_the_code() {
    // Assembled here, so that this file does not contain them.
    let words = ["todo", "unimplemented", "dbg"].map(|word| format!("{word}!("));
    let mut left = Vec::new();
    for file in files().iter().filter(|file| file.has_extension(&["rs"])) {
        for (line, text) in (1..).zip(file.text.lines()) {
            if words.iter().any(|word| text.contains(word)) {
                left.push(format!("{}:{line}: {}", file.path, text.trim()));
            }
        }
    }
    assert!(left.is_empty(), "{}", left.join("\n"));
}

#[test]
fn statements_state_their_promise_in_lowercase() {
    let keywords = [
        "SELECT",
        "INSERT",
        "UPDATE",
        "DELETE",
        "FROM",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "NULL",
        "ORDER",
        "GROUP",
        "BY",
        "LIMIT",
        "RETURNING",
        "VALUES",
        "INTO",
        "SET",
        "ON",
        "CONFLICT",
        "CREATE",
        "TABLE",
        "INDEX",
        "JOIN",
        "LEFT",
        "AS",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "IN",
        "IS",
        "EXISTS",
        "UNION",
        "ALL",
        "DISTINCT",
        "HAVING",
        "PRIMARY",
        "KEY",
        "CONSTRAINT",
        "CHECK",
        "UNIQUE",
        "DEFAULT",
        "COUNT",
        "MIN",
        "MAX",
        "COALESCE",
        "BEGIN",
        "COMMIT",
        "WITH",
        "FOR",
        "SHARE",
        "DO",
        "NOTHING",
    ];
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| file.has_extension(&["sql"])) {
        if !file.text.starts_with("-- ") {
            wrong.push(format!("{}: the first line must state the promise of the statement", file.path));
        }
        for (line, text) in (1..).zip(file.text.lines()) {
            let code = text.split("--").next().unwrap_or_default();
            // Literals are in quotes: every second part.
            let code: String = code.split('\'').step_by(2).collect::<Vec<_>>().join(" ");
            let words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            for word in words.filter(|word| keywords.contains(word)) {
                wrong.push(format!("{}:{line}: {word} is written in lowercase", file.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_file_contains_a_path_of_the_machine() {
    // Assembled here, so that this file does not contain them.
    let paths = ["work", "root", "home"].map(|folder| format!("/{folder}/"));
    let mut found = Vec::new();
    for file in files() {
        for (line, text) in (1..).zip(file.text.lines()) {
            if paths.iter().any(|path| text.contains(path)) {
                found.push(format!("{}:{line}: {}", file.path, text.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn expectations_of_lints_have_reasons() {
    let attributes = ["allow", "expect"].map(|word| format!("[{word}(clippy::"));
    let mut bare = Vec::new();
    for file in files().iter().filter(|file| file.has_extension(&["rs"])) {
        for (line, text) in (1..).zip(file.text.lines()) {
            if attributes.iter().any(|attribute| text.contains(attribute)) && !text.contains("reason = ") {
                bare.push(format!("{}:{line}: {}", file.path, text.trim()));
            }
        }
    }
    assert!(bare.is_empty(), "{}", bare.join("\n"));
}

#[test]
fn the_journal_is_only_appended_to() {
    let mut wrong = Vec::new();
    for file in files().iter().filter(|file| file.has_extension(&["sql"])) {
        let code: Vec<_> = file.text.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
        let words: Vec<_> = code.iter().flat_map(|line| line.split_whitespace()).collect();
        // Sweeping a run or deleting a test run deletes its journal; nothing else changes an entry.
        let is_sweep = file.path.contains("/sweep/") || file.path.ends_with("/delete_test_run.sql");
        for pair in words.windows(2) {
            let deletes = words.contains(&"delete") && pair == ["from", "journal"];
            if pair == ["update", "journal"] || (deletes && !is_sweep) {
                wrong.push(format!("{}: {} {}", file.path, pair[0], pair[1]));
            }
        }
        if words.windows(3).any(|three| three == ["or", "replace", "into"]) {
            wrong.push(format!("{}: or replace into", file.path));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_event_is_in_the_architecture_with_its_older_name() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for kind in Kind::ALL {
        let row = format!("| {} | `{}` | `{}` |", kind.number(), kind.name(), kind.legacy_name());
        assert!(page.contains(&row), "ARCHITECTURE.md has no row that begins with {row}");
    }
    let older: Vec<_> = Kind::ALL.iter().map(|kind| kind.legacy_name()).collect();
    for word in ["INPUT_SET", "NODE_DISPATCHED", "NODE_COMPLETED", "NODE_FAILED", "SYSTEM_SET"] {
        assert!(older.contains(&word), "{word} is how older engines say it");
    }
}

#[test]
fn every_invariant_of_the_code_is_in_the_architecture() {
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    // Assembled here, so that this file does not contain it.
    let mark = format!("**{}**: ", "Invariant");
    let plain = |text: &str| text.replace(['`', '[', ']'], "").to_lowercase();
    for file in files().iter().filter(|file| file.has_extension(&["rs"])) {
        for (_, invariant) in file.text.lines().filter_map(|line| line.split_once(&mark)) {
            // The first words suffice to find it.
            let begin: Vec<_> = invariant.split_whitespace().take(5).collect();
            assert!(plain(&page).contains(&plain(&begin.join(" "))), "{}: {invariant}", file.path);
        }
    }
}

#[test]
fn texts_use_precise_words() {
    let files = files();
    // The other locales are generated from English.
    let is_text = |file: &&File| {
        file.has_extension(&["md", "rs", "sql", "ts", "tsx", "mjs"]) || file.path == "console/locales/en.json"
    };
    let texts: Vec<_> = files.iter().filter(is_text).collect();
    for folder in ["console/src/", "console/e2e/", "console/locales/", "sdks/"] {
        assert!(texts.iter().any(|file| file.path.starts_with(folder)), "no text of {folder} is checked");
    }
    let avoided: Vec<_> = texts.into_iter().flat_map(avoided_words).collect();
    assert!(avoided.is_empty(), "{}\n{} places", avoided.join("\n"), avoided.len());
    let needless = needless_exceptions(&files);
    assert!(needless.is_empty(), "{}", needless.join("\n"));
}

/// General programming nouns, which need no sentence in the glossary. Nouns of the domain are not added here.
const GENERAL_NOUNS: &[&str] = &[
    "answer",
    "argument",
    "auth",
    "client",
    "connection",
    "database",
    "durability",
    "error",
    "example",
    "field",
    "future",
    "id",
    "info",
    "line",
    "method",
    "mode",
    "name",
    "option",
    "output",
    "ref",
    "request",
    "response",
    "result",
    "rng",
    "spawner",
    "spec",
    "summary",
    "table",
    "test",
    "timeout",
    "timestamp",
    "type",
    "url",
    "value",
];

/// Names that several modules share, because each has its own part of one concept: its errors, its configuration, the
/// part of a run's state that belongs to a style, and records as a port and behind it.
const SHARED_NAMES: &[&str] = &["Error", "Options", "Progress", "Records"];

#[test]
fn the_head_noun_of_every_public_type_is_in_the_glossary() {
    let page = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let glossary = glossary_nouns(&page);
    assert!(glossary.contains("run"), "CONTRIBUTING.md has no glossary: a table with the head | Word | Meaning |");
    let types = public_types(&files());
    let known = |noun: &str| glossary.contains(noun) || GENERAL_NOUNS.contains(&noun);
    let unknown: Vec<_> = types
        .iter()
        .filter(|found| !is_known_noun(&found.head_noun(), known))
        .map(|found| format!("{}: {} ends in {:?}", found.path, found.name, found.head_noun()))
        .collect();
    let advice =
        "is neither in the glossary nor a general noun: rename the type, or explain the noun in CONTRIBUTING.md";
    assert!(unknown.is_empty(), "{}\n{} of these {advice}", unknown.join("\n"), unknown.len());
    let is_needed = |noun: &str| types.iter().any(|found| is_known_noun(&found.head_noun(), |known| known == noun));
    let needless: Vec<_> = GENERAL_NOUNS.iter().filter(|noun| glossary.contains(**noun) || !is_needed(noun)).collect();
    assert!(needless.is_empty(), "remove {needless:?} from the general nouns: no type needs them there");
}

#[test]
fn no_two_public_types_share_a_name() {
    let mut paths: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for found in public_types(&files()) {
        paths.entry(found.name).or_default().push(found.path);
    }
    let shared: Vec<_> = paths
        .into_iter()
        .filter(|(name, paths)| paths.len() > 1 && !SHARED_NAMES.contains(&&**name))
        .map(|(name, paths)| format!("{name}: {}", paths.join(", ")))
        .collect();
    assert!(shared.is_empty(), "{}", shared.join("\n"));
}
