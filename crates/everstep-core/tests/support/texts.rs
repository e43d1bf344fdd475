//! Folders of decision texts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A test for each text of a folder, and one that finds texts without a test.
macro_rules! texts {
    ($folder:literal: $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $crate::support::play_text($folder, stringify!($name));
            }
        )*

        #[test]
        fn every_text_is_played() {
            $crate::support::check_names($folder, &[$(stringify!($name),)*]);
        }
    };
}

pub(crate) use texts;

pub(crate) fn check_names(folder: &str, names: &[&str]) {
    let files: BTreeSet<_> = fs::read_dir(path(folder)).unwrap().map(|file| file.unwrap().file_name()).collect();
    let names: BTreeSet<_> = names.iter().map(|name| format!("{name}.txt").into()).collect();
    assert_eq!(files, names);
}

fn path(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder)
}

/// Plays a text, and compares the journal with the one that it contains; with `BLESS` it is written instead.
pub(crate) fn play_text(folder: &str, name: &str) {
    let file = path(folder).join(format!("{name}.txt"));
    let text = fs::read_to_string(&file).unwrap();
    let played = super::play(&text);
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
