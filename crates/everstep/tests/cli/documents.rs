//! The examples and the commands in the documents do what they say.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{CommandOutput, Folder, Server, everstep, reference, root};

/// Where `everstep serve` listens unless it is told otherwise.
const SERVER: &str = "127.0.0.1:7373";

/// All files below a folder with one of these extensions, in order.
fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if extensions.contains(&extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Beside `x.yaml` stand `x.input` (JSON, optional) and `x.expected`: the exit code, then what is printed.
/// What has no such file needs a server, and is played in `examples.rs`.
#[test]
fn every_example_gives_what_stands_beside_it() {
    let examples = root().join("examples");
    let all: Vec<_> = std::fs::read_dir(&examples).unwrap().map(|entry| entry.unwrap().path()).collect();
    let workflows =
        all.iter().filter(|path| matches!(path.extension().and_then(|e| e.to_str()), Some("json" | "yaml")));
    let workflows: Vec<_> = workflows.filter(|path| path.with_extension("expected").exists()).collect();
    assert!(workflows.len() >= 5, "{workflows:?}");
    for workflow in workflows {
        let mut command = everstep();
        command.arg("run").arg(workflow).arg("--quiet");
        let input = workflow.with_extension("input");
        if input.exists() {
            command.arg("--input").arg(format!("@{}", input.display()));
        }
        let output: CommandOutput = command.output().unwrap().into();
        let expected = std::fs::read_to_string(workflow.with_extension("expected")).unwrap();
        let (code, expected_output) = expected.split_once('\n').unwrap();
        let read = |text: &str| (!text.trim().is_empty()).then(|| serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(output.code.to_string(), code, "{}: {}", workflow.display(), output.stderr);
        assert_eq!(read(&output.stdout), read(expected_output), "{}", workflow.display());
    }
}

/// A `sh` block that runs a workflow or asks a server, and the `json` block after it, if there is one.
struct Block {
    document: PathBuf,
    command: String,
    output: Option<Value>,
}

fn blocks(document: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(document).unwrap();
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_fresh = false;
    let mut parts = text.split("```");
    parts.next();
    // Inside, outside, inside, …
    while let Some(inside) = parts.next() {
        let outside = parts.next().unwrap_or_default();
        let (kind, code) = inside.split_once('\n').unwrap_or((inside, ""));
        match kind {
            "sh" if code.trim_start().starts_with("everstep run") || code.contains(SERVER) => {
                blocks.push(Block { document: document.to_owned(), command: code.trim().to_owned(), output: None });
                is_fresh = true;
            }
            "json" if is_fresh => {
                let block = blocks.last_mut().expect("a block is fresh");
                block.output = Some(serde_json::from_str(code).unwrap());
                is_fresh = false;
            }
            _ => is_fresh = false,
        }
        // What is shown is the output only where it follows at once.
        is_fresh &= outside.lines().filter(|line| !line.trim().is_empty()).count() <= 1;
    }
    blocks
}

fn documents() -> Vec<PathBuf> {
    let root = root();
    let mut documents = files(&root.join("docs"), &["md"]);
    let more = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "examples/README.md", "llms.txt"];
    documents.extend(more.map(|name| root.join(name)));
    documents
}

/// Runs a block as a person would who has cloned the repository and installed the binary.
fn perform(block: &Block, command: &str, folder: &Path) -> CommandOutput {
    let binary = Path::new(env!("CARGO_BIN_EXE_everstep")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut shell = std::process::Command::new("sh");
    shell.arg("-c").arg(format!("set -e\n{command}")).current_dir(folder).env("PATH", &path);
    let output: CommandOutput = shell.output().unwrap().into();
    assert_eq!(output.code, 0, "{}: {command}\n{}", block.document.display(), output.stderr);
    output
}

fn clone_of_the_repository() -> Folder {
    let folder = Folder::new();
    std::os::unix::fs::symlink(root().join("examples"), folder.path().join("examples")).unwrap();
    folder
}

#[test]
fn every_command_of_the_documents_works() {
    let blocks: Vec<_> = documents().iter().flat_map(|document| blocks(document)).collect();
    let blocks: Vec<_> = blocks.into_iter().filter(|block| !block.command.contains(SERVER)).collect();
    assert!(blocks.len() >= 3, "the documents show how to run a workflow");
    let folder = clone_of_the_repository();
    for block in blocks {
        let output = perform(&block, &block.command, folder.path());
        if let Some(expected) = &block.output {
            assert_eq!(&output.json(), expected, "{}: {}", block.document.display(), block.command);
        }
    }
}

/// What is shown is the last answer; `…` in it is anything, and fields may be left out.
#[test]
fn every_request_of_the_documents_is_answered_as_shown() {
    let blocks: Vec<_> = documents().iter().flat_map(|document| blocks(document)).collect();
    let blocks: Vec<_> = blocks.into_iter().filter(|block| block.command.contains(SERVER)).collect();
    let is_first = |block: &&Block| block.document.ends_with("README.md") && block.command.contains("waitSeconds");
    assert!(blocks.iter().any(|block| is_first(&block)), "README.md shows how to start a run");
    let folder = clone_of_the_repository();
    let server = Server::start(&folder.at("data"));
    for block in blocks {
        let output = perform(&block, &block.command.replace(SERVER, server.address()), folder.path());
        let answers = serde_json::Deserializer::from_str(&output.stdout).into_iter::<Value>();
        let answers: Vec<_> = answers.map(|answer| answer.unwrap()).collect();
        let place = format!("{}: {}\n{}", block.document.display(), block.command, output.stdout);
        assert!(answers.iter().all(|answer| answer.get("code").is_none()), "{place}");
        if let Some(shown) = &block.output {
            assert!(is_shown(shown, answers.last().unwrap()), "{place}");
        }
    }
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

#[test]
fn every_link_of_the_documents_leads_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        // What is on this page or on the web is not looked for.
        for link in links.filter(|link| !link.starts_with('#') && !link.contains("://") && !link.contains(' ')) {
            let path = link.split('#').next().unwrap_or_default();
            if !document.parent().unwrap().join(path).exists() {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn llms_txt_lists_every_page() {
    let index = std::fs::read_to_string(root().join("llms.txt")).unwrap();
    for page in files(&root().join("docs"), &["md"]) {
        let page = page.strip_prefix(root()).unwrap().to_str().unwrap();
        // The reference of graphs links to the pages of node kinds.
        let is_listed = page.starts_with("docs/reference/nodes/") || index.contains(&format!("]({page}): "));
        assert!(is_listed, "llms.txt does not list {page}");
    }
}

#[test]
fn the_readme_shows_the_example_that_it_runs() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let example = std::fs::read_to_string(root().join("examples/hello.yaml")).unwrap();
    let (_, code) = example.split_once('\n').unwrap();
    assert!(readme.contains(code), "the first example of README.md is examples/hello.yaml without its first line");
}

/// The reference of the command line is the help of the binary.
/// `BLESS=1 cargo test -p everstep documents` writes it again.
#[test]
fn the_command_line_reference_is_what_the_binary_says() {
    let last = "Every setting with its flag, variable, key and default is in [configuration](configuration.md).";
    reference::check("docs/reference/cli.md", "Command line", "everstep", everstep, last);
}
