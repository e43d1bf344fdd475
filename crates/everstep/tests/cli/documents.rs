//! The examples work as described, and the links of the documents have targets. `guides.rs` executes the commands of
//! the documents.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{CommandOutput, everstep, reference, root};

/// All files below a folder with one of these extensions, in order.
pub(crate) fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
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

/// Beside `x.yaml` are `x.input` (JSON, optional) and `x.expected`: the exit code, then the output. An example without
/// such a file needs a server, and is tested in `examples.rs`.
#[test]
fn every_example_gives_the_output_beside_it() {
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

fn documents() -> Vec<PathBuf> {
    let root = root();
    let mut documents = files(&root.join("docs"), &["md"]);
    let more = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "examples/README.md", "llms.txt"];
    documents.extend(more.map(|name| root.join(name)));
    documents
}

#[test]
fn every_link_of_the_documents_leads_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        // Links within the page or to the web are not checked.
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

/// The reference of the command line is the help of the binary. `BLESS=1 cargo test -p everstep documents` writes it
/// again.
#[test]
fn the_command_line_reference_equals_the_help_of_the_binary() {
    let last = "Every setting with its flag, variable, key and default is in [configuration](configuration.md).";
    reference::check("docs/reference/cli.md", "Command line", "everstep", everstep, last);
}
