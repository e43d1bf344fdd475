//! `make trace`: for every requirement that `docs/trace.toml` claims there is a test that proves it.

use std::collections::{BTreeMap, BTreeSet};

use everstep_testkit::tidy::{File, files, root};
use serde::Deserialize;

/// The table, from requirements to tests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// Numbers and ranges of numbers: `"9-38"`.
    claimed: Vec<String>,
    /// The tests that prove each requirement, by its number.
    requirements: BTreeMap<String, Vec<String>>,
}

#[test]
fn every_claimed_requirement_is_held_by_a_test_that_exists() {
    let text = std::fs::read_to_string(root().join("docs/trace.toml")).unwrap();
    let table: Table = toml::from_str(&text).unwrap();
    let claimed: BTreeSet<u32> = table.claimed.iter().flat_map(|range| numbers(range)).collect();
    let files: BTreeMap<_, _> = files().into_iter().map(|file| (file.path.clone(), file)).collect();
    let mut wrong = Vec::new();
    let mut held = BTreeMap::new();
    for (name, tests) in &table.requirements {
        let Some(number) = name.strip_prefix('R').and_then(|number| number.parse::<u32>().ok()) else {
            wrong.push(format!("{name} is not a requirement; write R12"));
            continue;
        };
        if !claimed.contains(&number) {
            wrong.push(format!("{name} has tests but is not claimed"));
        }
        wrong.extend(tests.iter().filter_map(|test| find(test, &files).err()).map(|why| format!("{name}: {why}")));
        held.insert(number, tests);
    }
    for number in &claimed {
        match held.get(number) {
            Some(tests) if !tests.is_empty() => println!("R{number:<4} {}", tests.join("\n      ")),
            _ => wrong.push(format!("R{number} is claimed, and no test proves it")),
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    println!("{} requirements are proved by tests", claimed.len());
}

fn numbers(range: &str) -> std::ops::RangeInclusive<u32> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let read = |text: &str| text.parse().unwrap_or_else(|_| panic!("{range:?} is not a range of numbers"));
    read(first)..=read(last)
}

/// Finds a test by its name in the table.
///
/// 1. `decisions::name` and `machine_decisions::name` are decision texts that the core plays.
/// 2. `contract::group::name` is a promise of the store that every database keeps.
/// 3. `conformance::name` is a scenario that workers of the SDK play against real servers.
/// 4. `sdk::file::name` is a test of the TypeScript SDK.
/// 5. `console::file::name` is a scenario of the console, played in a browser with a real server.
/// 6. `crate/path.rs::name` is a test function in that file.
fn find(test: &str, files: &BTreeMap<String, File>) -> Result<(), String> {
    let missing = || format!("there is no test {test}");
    let lists = |path: &str, name: &str| {
        let file = files.get(path).ok_or_else(missing)?;
        let is_listed = file.text.lines().any(|line| line.trim().trim_end_matches(',') == name);
        is_listed.then_some(()).ok_or_else(|| format!("{name} is not listed in {path}, so it does not run"))
    };
    match test.split("::").collect::<Vec<_>>()[..] {
        [folder @ ("decisions" | "machine_decisions"), name] => {
            let path = format!("crates/everstep-core/tests/{folder}/{name}.txt");
            files.get(&path).ok_or_else(missing)?;
            lists(&format!("crates/everstep-core/tests/{folder}.rs"), name)
        }
        ["contract", group, name] => {
            let ports =
                ["runs", "workflows", "access", "resources", "records", "topics", "files", "dead_letters", "stores"];
            let path = |port: &&str| format!("crates/everstep-testkit/src/contract/{port}/{group}.rs");
            let has_name = |file: &&File| file.text.contains(&format!("fn {name}("));
            ports.iter().filter_map(|port| files.get(&path(port))).find(has_name).ok_or_else(missing)?;
            lists("crates/everstep-testkit/src/contract/list.rs", name)
        }
        ["conformance", name] => {
            files.get(&format!("sdks/conformance/scenarios/{name}.json")).ok_or_else(missing)?;
            lists("crates/everstep/tests/conformance/main.rs", name)
        }
        ["sdk", file, name] => {
            let file = files.get(&format!("sdks/typescript/test/{file}.test.ts")).ok_or_else(missing)?;
            let heads = ["test(", "it(", "withWorker(\n  "].map(|verb| format!("{verb}\"{name}\","));
            heads.iter().any(|head| file.text.contains(head)).then_some(()).ok_or_else(missing)
        }
        ["console", file, name] => {
            let file = files.get(&format!("console/e2e/{file}.e2e.ts")).ok_or_else(missing)?;
            let heads = ["scenario(", "scenario(\n  "].map(|verb| format!("{verb}\"{name}\","));
            heads.iter().find(|head| file.text.contains(*head)).ok_or_else(missing)?;
            lists("crates/everstep/tests/console/main.rs", name)
        }
        [path, name] => {
            let file = files.get(&format!("crates/{path}")).ok_or_else(missing)?;
            has_test(&file.text, name).then_some(()).ok_or_else(missing)
        }
        _ => Err(format!("{test} is not a valid name of a test: see the rules at the top of docs/trace.toml")),
    }
}

/// Whether a file has a function with that name under an attribute that makes it an executed test.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let heads = [format!("fn {name}("), format!("async fn {name}(")];
    let Some(head) = lines.iter().position(|line| heads.iter().any(|head| line.starts_with(head.as_str()))) else {
        return false;
    };
    let attributes: Vec<_> = lines[..head].iter().rev().take_while(|line| line.starts_with("#[")).collect();
    let is_test = attributes.iter().any(|line| **line == "#[test]" || line.starts_with("#[tokio::test"));
    // Also a test that only some builds ignore.
    let is_ignored =
        |line: &str| line.starts_with("#[ignore") || line.starts_with("#[cfg_attr") && line.contains("ignore");
    is_test && !attributes.iter().any(|line| is_ignored(line))
}
