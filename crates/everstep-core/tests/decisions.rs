//! Decision texts: each file in `decisions/` is a workflow, inputs, and the journal that follows.
//!
//! `BLESS=1 cargo test -p everstep-core --test decisions` writes the journals anew; read the difference.

mod support;

use std::fs;
use std::path::Path;

#[test]
fn decisions_are_as_written() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decisions");
    let bless = std::env::var_os("BLESS").is_some();
    let mut failures = Vec::new();
    let mut count = 0;
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let played = support::play(&text);
        count += 1;
        if played == text {
            continue;
        }
        if bless {
            fs::write(&file, played).unwrap();
        } else {
            failures.push(format!("{}:\n{}", file.display(), difference(&text, &played)));
        }
    }
    assert!(count > 0, "there are decision texts");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn difference(expected: &str, found: &str) -> String {
    let expected: Vec<_> = expected.lines().collect();
    let found: Vec<_> = found.lines().collect();
    let same = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
    format!(
        "line {}:\n  expected {:?}\n  found    {:?}",
        same + 1,
        expected.get(same).unwrap_or(&"the end"),
        found.get(same).unwrap_or(&"the end")
    )
}
