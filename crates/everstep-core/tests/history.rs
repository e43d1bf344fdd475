//! One file per kind of event, with rows as they were once written. Every later build must decode them.
//!
//! Rows are added and never changed. `BLESS=1` adds a row for each entry of [`entries`] that no row decodes to; review
//! the added rows before you commit them.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;

use everstep_core::journal::{Entry, Kind, codec};
use everstep_core::time::Timestamp;
use serde_json::json;

use super::codec::{decode, entries, histories, read_history};

fn name_of(kind: Kind) -> String {
    format!("events/{}.jsonl", kind.name())
}

fn decoded(kind: Kind) -> Vec<Entry> {
    read_history(&name_of(kind)).into_iter().map(|(_, row)| decode(row).unwrap()).collect()
}

fn append(kind: Kind, entry: &Entry) {
    let row = codec::encode(entry);
    let payload = String::from_utf8(row.payload).unwrap();
    let (number, at) = (kind.number(), Timestamp::EPOCH.to_string());
    let line = json!({"kind": number, "step": row.step, "attempt": row.attempt, "at": at, "payload": payload});
    let path = histories().join(name_of(kind));
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    writeln!(file, "{line}").unwrap();
}

#[test]
fn every_kind_of_event_is_decoded_as_it_was_once_written() {
    for kind in Kind::ALL.iter().copied() {
        let path = histories().join(name_of(kind));
        if !path.exists() && std::env::var_os("BLESS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
        }
        assert!(path.exists(), "{} has no history: run this test with BLESS=1", kind.name());
        let expected: Vec<_> = entries().into_iter().filter(|entry| entry.event.kind() == kind).collect();
        if std::env::var_os("BLESS").is_some() {
            let known = decoded(kind);
            for entry in expected.iter().filter(|entry| !known.contains(entry)) {
                append(kind, entry);
            }
        }
        let found = decoded(kind);
        for entry in &expected {
            assert!(found.contains(entry), "no row of {} decodes to {entry:?}", path.display());
        }
        for entry in &found {
            assert!(
                expected.contains(entry),
                "a row of {} decodes to {entry:?}, which no test expects",
                path.display()
            );
        }
    }
}

#[test]
fn every_history_is_of_a_kind() {
    let files: BTreeSet<_> =
        fs::read_dir(histories().join("events")).unwrap().map(|file| file.unwrap().file_name()).collect();
    let kinds: BTreeSet<_> = Kind::ALL.iter().map(|kind| format!("{}.jsonl", kind.name()).into()).collect();
    assert_eq!(files, kinds);
}
