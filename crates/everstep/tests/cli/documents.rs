//! The examples and the commands in the documents do what they say.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Folder, Told, everstep, root};

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
#[test]
fn every_example_gives_what_stands_beside_it() {
    let examples = root().join("examples");
    let all: Vec<_> = std::fs::read_dir(&examples).unwrap().map(|entry| entry.unwrap().path()).collect();
    let workflows: Vec<_> =
        all.iter().filter(|path| matches!(path.extension().and_then(|e| e.to_str()), Some("json" | "yaml"))).collect();
    assert!(workflows.len() >= 5, "{workflows:?}");
    for workflow in workflows {
        let mut command = everstep();
        command.arg("run").arg(workflow).arg("--quiet");
        let input = workflow.with_extension("input");
        if input.exists() {
            command.arg("--input").arg(format!("@{}", input.display()));
        }
        let told: Told = command.output().unwrap().into();
        let expected = std::fs::read_to_string(workflow.with_extension("expected")).unwrap();
        let (code, output) = expected.split_once('\n').unwrap();
        let read = |text: &str| (!text.trim().is_empty()).then(|| serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(told.code.to_string(), code, "{}: {}", workflow.display(), told.stderr);
        assert_eq!(read(&told.stdout), read(output), "{}", workflow.display());
    }
}

/// A `sh` block that begins with `everstep run`, and the `json` block after it, if there is one.
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
            "sh" if code.trim_start().starts_with("everstep run") => {
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

#[test]
fn every_command_of_the_documents_works() {
    let root = root();
    let mut documents = files(&root.join("docs"), &["md"]);
    documents.extend([root.join("README.md"), root.join("ARCHITECTURE.md"), root.join("CONTRIBUTING.md")]);
    let blocks: Vec<_> = documents.iter().flat_map(|document| blocks(document)).collect();
    assert!(blocks.len() >= 3, "the documents show how to run a workflow");
    let folder = Folder::new();
    std::os::unix::fs::symlink(root.join("examples"), folder.path().join("examples")).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_everstep")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    for block in blocks {
        let mut shell = std::process::Command::new("sh");
        let script = format!("set -e\n{}", block.command);
        shell.arg("-c").arg(script).current_dir(folder.path()).env("PATH", &path);
        let told: Told = shell.output().unwrap().into();
        let place = format!("{}: {}\n{}", block.document.display(), block.command, told.stderr);
        assert_eq!(told.code, 0, "{place}");
        if let Some(output) = &block.output {
            assert_eq!(&told.json(), output, "{place}");
        }
    }
}

#[test]
fn the_readme_shows_the_example_that_it_runs() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let example = std::fs::read_to_string(root().join("examples/hello.yaml")).unwrap();
    let (_, code) = example.split_once('\n').unwrap();
    assert!(readme.contains(code), "the first example of README.md is examples/hello.yaml without its first line");
}

/// The reference of the command line is what the binary says of itself.
/// `BLESS=1 cargo test -p everstep documents` writes it anew.
#[test]
fn the_command_line_reference_is_what_the_binary_says() {
    let help = |args: &[&str]| -> String {
        let told: Told = everstep().args(args).arg("--help").env("COLUMNS", "100").output().unwrap().into();
        let lines: Vec<_> = told.exits(0).stdout.lines().map(str::trim_end).collect();
        lines.join("\n").trim_end().to_owned()
    };
    let mut page = "# Command line\n\nWhat `everstep --help` says, command by command.\n\n".to_owned();
    page += &format!("```text\n{}\n```\n", help(&[]));
    for command in [
        "run",
        "validate",
        "serve",
        "load",
        "keys create",
        "keys list",
        "keys revoke",
        "workspaces create",
        "workspaces list",
        "secrets set",
        "secrets list",
        "secrets delete",
        "secrets key",
        "nodes",
        "bench",
        "sim",
        "openapi",
    ] {
        let words: Vec<_> = command.split(' ').collect();
        page += &format!("\n## everstep {command}\n\n```text\n{}\n```\n", help(&words));
    }
    page += SETTINGS;
    let path = root().join("docs/reference/cli.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "docs/reference/cli.md is old: write it anew with BLESS=1");
}

const SETTINGS: &str = r#"
## Settings file

Named by `--config` or `EVERSTEP_CONFIG`.
Every key has the name of its flag; an unknown key is an error.

```toml
[log]
log = "info"
log_format = "json"

[server]
listen = "127.0.0.1:7373"
data = "/var/lib/everstep"
shutdown_grace = "10s"
rate_limit = 1000

[database]
database_url = "postgres://everstep:secret@db.example/everstep"

[cluster]
node_lease = "10s"
cluster_listen = "10.0.0.7:7374"

[engine]
max_active_runs = 4096
max_state_mib = 256
park_after = "30s"

[secrets]
secrets_key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
```
"#;
