//! README and every guide, executed in their order in one shell, with the server running and the commands as printed.
//!
//! * `sh` blocks are executed as a whole; a `json` block after one is its last answer. `…` in it is anything, and
//!   fields may be left out.
//! * In `console` blocks the lines after `$ ` are commands, and the others are printed by the command before, in this
//!   order. Times, durations, numbers and ids may differ, `…` is anything, and lines may be left out.
//! * A block whose introduction begins with a file name, or that begins with a comment that is one, is that file.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::documents::files;
use crate::shell::Shell;
use crate::support::{Folder, Server, root, wait_for};

/// The address of the server in the documents.
const SERVER: &str = "127.0.0.1:7373";

/// Blocks with such a word are not executed, because they need what a test does not have.
const NOT_EXECUTED: &[(&str, &str)] = &[
    ("make ", "the server of the test is running already"),
    ("everstep serve", "the server of the test is running already"),
    ("sudo ", "root"),
    ("docker ", "a container engine"),
    ("kubectl ", "a Kubernetes cluster"),
    ("createuser ", "a PostgreSQL server of its own"),
    ("postgres://", "a PostgreSQL server of its own"),
    ("sqlite3 ", "the shell of SQLite"),
    ("everstep.example", "a server on another machine"),
    ("@shop.json", "the database of a shop"),
    ("llm-key", "the account of a language model"),
    ("$DIVERGED", "a function that was changed while a run of it was waiting"),
];

#[test]
fn readme_and_every_guide_are_executed_in_order_in_one_shell() {
    let folder = Folder::new();
    let clone = folder.path().join("everstep");
    copy_repository(&clone);
    let server = Server::start(clone.join("data").to_str().unwrap());
    let url = format!("http://{}", server.address());
    let settings = [("EVERSTEP_URL", &*url), ("npm_config_prefer_offline", "true"), ("npm_config_audit", "false")];
    let mut shell = Shell::start(&clone, &settings);
    let (mut executed, mut unused) = (0, NOT_EXECUTED.iter().map(|(word, _)| *word).collect::<Vec<_>>());
    for document in documents() {
        let name = document.strip_prefix(root()).unwrap().display().to_string();
        // Every page begins in the folder of the repository.
        shell.execute(&format!("cd '{}'", clone.display()));
        for block in blocks(&std::fs::read_to_string(&document).unwrap()) {
            let text = block.code.replace(SERVER, server.address());
            if let Some((word, _)) = NOT_EXECUTED.iter().find(|(word, _)| block.is_executed() && text.contains(word)) {
                unused.retain(|other| other != word);
                continue;
            }
            match &block.kind {
                Kind::File(file) => {
                    let script = format!("cat > '{file}' <<'@@END@@'\n{text}@@END@@");
                    assert_eq!(shell.execute(&script).code, 0, "{name}: {file} cannot be written");
                    continue;
                }
                Kind::Script(answer) => execute_script(&mut shell, &name, &text, answer.as_ref()),
                Kind::Session => execute_session(&mut shell, &name, &text),
            }
            executed += 1;
        }
    }
    assert!(executed >= 20, "only {executed} blocks were executed");
    assert!(unused.is_empty(), "no block needs {unused:?}: remove it from the list");
}

/// README, the guides in the order in which README lists them, and the pages that belong to them.
fn documents() -> Vec<PathBuf> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, table) = readme.split_once("## Documentation").unwrap();
    let links = table.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let guides: Vec<_> = links.filter(|link| link.starts_with("docs/guides/")).map(|link| root().join(link)).collect();
    let mut sorted = guides.clone();
    sorted.sort();
    assert_eq!(sorted, files(&root().join("docs/guides"), &["md"]), "README lists every guide once");
    let others = ["docs/concepts/durability.md", "examples/README.md"].map(|name| root().join(name));
    std::iter::once(root().join("README.md")).chain(guides).chain(others).collect()
}

/// Copies the files of a fresh clone that the documents need.
fn copy_repository(clone: &Path) {
    let sdk = clone.join("sdks/typescript");
    std::fs::create_dir_all(&sdk).unwrap();
    std::os::unix::fs::symlink(root().join("examples"), clone.join("examples")).unwrap();
    for entry in std::fs::read_dir(root().join("sdks/typescript")).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("node_modules") && !path.ends_with("dist") {
            let copied = std::process::Command::new("cp").arg("-r").arg(&path).arg(&sdk).status().unwrap();
            assert!(copied.success());
        }
    }
}

struct Block {
    kind: Kind,
    code: String,
}

enum Kind {
    /// A `sh` block, and its last answer.
    Script(Option<Value>),
    /// A `console` block.
    Session,
    File(String),
}

impl Block {
    fn is_executed(&self) -> bool {
        !matches!(self.kind, Kind::File(_))
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut before = "";
    let mut parts = text.split("```");
    let mut outside = parts.next().unwrap_or_default();
    // Inside, outside, inside, …
    while let Some(inside) = parts.next() {
        let (language, code) = inside.split_once('\n').unwrap_or((inside, ""));
        let is_next = outside.lines().filter(|line| !line.trim().is_empty()).count() <= 1;
        let kind = match (language, file_name(language, outside, code)) {
            ("sh", _) => Some(Kind::Script(None)),
            ("console", _) => Some(Kind::Session),
            (_, Some(file)) => Some(Kind::File(file)),
            // A document is the answer of the block before it only if it follows that block directly.
            ("json", None) if before == "sh" && is_next => {
                if let Some(Block { kind: Kind::Script(answer), .. }) = blocks.last_mut() {
                    *answer = Some(serde_json::from_str(code).unwrap());
                }
                None
            }
            _ => None,
        };
        blocks.extend(kind.map(|kind| Block { kind, code: code.to_owned() }));
        before = language;
        outside = parts.next().unwrap_or_default();
    }
    blocks
}

/// The name of the file that a block is.
fn file_name(language: &str, outside: &str, code: &str) -> Option<String> {
    let is_file = |name: &&str| {
        let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("json" | "ts" | "yaml")) && !name.contains(['/', ' '])
    };
    match language {
        "ts" => code.lines().next()?.strip_prefix("// ").filter(is_file).map(str::to_owned),
        "yaml" | "json" => {
            let introduction = outside.trim_end().lines().next_back()?;
            introduction.strip_prefix('`')?.split('`').next().filter(is_file).map(str::to_owned)
        }
        _ => None,
    }
}

fn execute_script(shell: &mut Shell, document: &str, text: &str, shown: Option<&Value>) {
    let ended = shell.execute_all(text);
    let place = format!("{document}:\n{text}\n{}", ended.printed);
    assert_eq!(ended.code, 0, "{place}");
    let Some(shown) = shown else { return };
    let answers = serde_json::Deserializer::from_str(&ended.printed).into_iter::<Value>();
    let answers: Vec<_> = answers.map(|answer| answer.unwrap_or_else(|error| panic!("{error}: {place}"))).collect();
    assert!(answers.iter().all(|answer| answer.get("code").is_none()), "{place}");
    assert!(is_shown(shown, answers.last().unwrap()), "{place}");
}

fn is_shown(shown: &Value, answer: &Value) -> bool {
    match (shown, answer) {
        (Value::String(text), _) if text == "…" => true,
        (Value::Object(shown), Value::Object(answer)) => {
            shown.iter().all(|(name, shown)| answer.get(name).is_some_and(|answer| is_shown(shown, answer)))
        }
        (Value::Array(shown), Value::Array(answer)) => {
            shown.len() == answer.len() && shown.iter().zip(answer).all(|(shown, answer)| is_shown(shown, answer))
        }
        (shown, answer) => shown == answer,
    }
}

fn execute_session(shell: &mut Shell, document: &str, text: &str) {
    for (command, shown) in commands(text) {
        let place = format!("{document}: $ {command}");
        if command.ends_with('&') {
            let begin = shell.place();
            shell.execute(&command);
            wait_for(&place, || first_missing(&shown, &shell.printed_since(begin)).is_none().then_some(()));
            continue;
        }
        // A user repeats such a command until it shows the expected lines.
        let looks = ["show ", "runs", "workers", "workflows", "logs "];
        let is_look = looks.iter().any(|look| command.starts_with(&format!("everstep {look}")));
        let fails = shown.iter().any(|line| line.starts_with("error:") || line.starts_with("ignored"));
        let mut try_once = || {
            let ended = shell.execute(&command);
            assert_eq!(ended.code != 0, fails, "{place} exits with {}:\n{}", ended.code, ended.printed);
            match first_missing(&shown, &ended.printed) {
                None => Ok(()),
                Some(line) => Err(format!("{place} does not print\n{line}\nbut\n{}", ended.printed)),
            }
        };
        if is_look {
            wait_for(&place, || try_once().ok());
        } else if let Err(message) = try_once() {
            panic!("{message}");
        }
        if command.starts_with("kill ") {
            shell.execute("wait %1");
        }
    }
}

/// The commands of a session, each with the lines that it prints.
fn commands(text: &str) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push((command.to_owned(), Vec::new()));
            continue;
        }
        let (command, shown) = commands.last_mut().expect("a session begins with a command");
        if shown.is_empty() && command.ends_with('\\') {
            *command += &format!("\n{line}");
        } else if !line.trim().is_empty() && line.trim() != "…" {
            shown.push(line.to_owned());
        }
    }
    commands
}

/// The first shown line that was not printed after the lines before it.
fn first_missing<'a>(shown: &'a [String], printed: &str) -> Option<&'a str> {
    let mut printed = printed.lines().map(normalize);
    shown.iter().map(String::as_str).find(|line| {
        let line = normalize(line);
        !printed.any(|printed| is_like(&line, &printed))
    })
}

/// Whether a line is as shown, where `…` is anything.
fn is_like(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = printed.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut is_open = false;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        is_open = part.is_empty();
    }
    rest.is_empty() || is_open
}

/// A line without the parts that differ each time: ids, numbers, durations, and the bars of a timeline.
fn normalize(line: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if uuid::Uuid::try_parse(bare).is_ok() { word.replace(bare, "ID") } else { word.to_owned() }
    };
    let line = line.replace(['█', '▒'], " ").split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    let mut plain = String::new();
    for character in line.chars() {
        match character {
            '0'..='9' if plain.ends_with('#') => {}
            '0'..='9' => plain.push('#'),
            other => plain.push(other),
        }
    }
    ["#.# s", "# min # s", "# ms"].iter().fold(plain, |line, duration| line.replace(duration, "DURATION"))
}

#[test]
fn a_shown_line_is_like_a_printed_one() {
    let like = |shown: &str, printed: &str| is_like(&normalize(shown), &normalize(printed));
    assert!(like("2026-11-17T06:26:48.850Z completed a in 6 ms", "2027-01-02T03:04:05.678Z completed a in 1.2 s"));
    assert!(like("reserve  completed   1   5.0 s  ███", "reserve  completed   1     10 ms     █"));
    assert!(like(
        "run 019a8a3f-6c1e-7d58-9f3e-0d4b3a6f0c11: paused",
        "run 01a1e360-10f3-7a02-9001-5dbc7a8db65d: paused"
    ));
    assert!(like("es_…", "es_abc") && like("data    …/data (SQLite)", "data    /tmp/x/data (SQLite)"));
    assert!(!like("completed a", "completed ab") && !like("completed ab", "completed a"));
    let shown = ["b".to_owned(), "d".to_owned()];
    assert_eq!(first_missing(&shown, "a\nb\nc\nd"), None);
    assert_eq!(first_missing(&shown, "d\nb"), Some("d"));
}
