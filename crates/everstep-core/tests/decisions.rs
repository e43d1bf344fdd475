//! Decision texts: each file in `decisions/` is a workflow, inputs, and the journal that follows.
//!
//! `BLESS=1 cargo test -p everstep-core decisions` writes the journals anew; read the difference.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::support;

macro_rules! texts {
    ($($name:ident)*) => {
        const TEXTS: &[&str] = &[$(stringify!($name),)*];

        $(
            #[test]
            fn $name() {
                play(stringify!($name));
            }
        )*
    };
}

texts! {
    a_failed_item_can_be_retried
    a_join_waits_for_all_branches
    a_loop_runs_its_body_once_per_item
    retries_wait_one_and_two_seconds
}

#[test]
fn every_text_is_played() {
    let files: BTreeSet<_> = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name()).collect();
    let names: BTreeSet<_> = TEXTS.iter().map(|name| format!("{name}.txt").into()).collect();
    assert_eq!(files, names);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decisions")
}

fn play(name: &str) {
    let file = folder().join(format!("{name}.txt"));
    let text = fs::read_to_string(&file).unwrap();
    let played = support::play(&text);
    if played == text {
        return;
    }
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, played).unwrap();
    } else {
        panic!("{}:\n{}", file.display(), difference(&text, &played));
    }
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
