//! Uploads: files in chunks, and the quota of a person.

use std::sync::Arc;

use everstep_core::actor::Actor;
use everstep_core::limits;
use everstep_store::{Error, FileFault, FileRow, FileStore, NewFile, ReserveOutcome, UploadOutcome};

use crate::contract::fixtures::*;

/// Bytes of which no two chunks are equal, with every value of a byte.
fn content(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

pub async fn chunks_come_back_as_they_were_sent(store: Arc<dyn FileStore>) {
    let chunk = limits::FILE_CHUNK_BYTES;
    for size in [1, chunk - 1, chunk, chunk + 1, 3 * chunk + 7] {
        let (file, bytes) = (new_file(), content(size));
        upload_file(&*store, &file, &bytes).await;
        let row = FileRow {
            id: file.id,
            workspace: HERE,
            name: file.name,
            media_type: file.media_type,
            size: size as u64,
            sha256: digest(&bytes),
            by: file.by,
            created_at: at(1),
            expires_at: file_expiry(),
            run: None,
            seq: None,
        };
        assert_eq!(store.file(HERE, row.id).await.unwrap(), Some(row.clone()));
        let mut read = Vec::new();
        for number in 0.. {
            let Some(part) = store.chunk(row.id, number).await.unwrap() else { break };
            read.extend(part);
        }
        assert!(read == bytes, "{size} bytes");
    }
}

pub async fn an_unfinished_file_is_not_found(store: Arc<dyn FileStore>) {
    let file = new_file();
    assert_eq!(store.begin_file(&file, QUOTA).await.unwrap(), UploadOutcome::Stored);
    assert!(store.add_chunk(file.id, 0, b"hello".to_vec()).await.unwrap());
    assert_eq!(store.file(HERE, file.id).await.unwrap(), None);
    assert_eq!(store.list_files(HERE, &[file.id]).await.unwrap(), []);
    let outcome = reserve(&*store, new_run(), &[file.id]).await;
    assert_eq!(outcome, ReserveOutcome::Refused(file.id, FileFault::NotFound));
    assert_eq!(store.finish_file(&finished(&file, b"hello"), QUOTA).await.unwrap(), UploadOutcome::Stored);
    let row = store.file(HERE, file.id).await.unwrap().unwrap();
    assert_eq!(store.list_files(HERE, &[new_file_id(), file.id]).await.unwrap(), [row]);
    assert_eq!(store.list_files(new_workspace(), &[file.id]).await.unwrap(), []);
    assert_eq!(store.file(new_workspace(), file.id).await.unwrap(), None);
    // It no longer changes.
    assert!(!store.add_chunk(file.id, 1, b"more".to_vec()).await.unwrap());
    assert_eq!(store.finish_file(&finished(&file, b"other"), QUOTA).await.unwrap(), UploadOutcome::Missing);
    store.delete_file(file.id).await.unwrap();
    assert!(store.file(HERE, file.id).await.unwrap().is_some());
}

pub async fn an_interrupted_upload_leaves_nothing(store: Arc<dyn FileStore>) {
    let file = new_file();
    assert_eq!(store.begin_file(&file, QUOTA).await.unwrap(), UploadOutcome::Stored);
    for chunk in 0..40 {
        assert!(store.add_chunk(file.id, chunk, b"part".to_vec()).await.unwrap());
    }
    store.delete_file(file.id).await.unwrap();
    for chunk in 0..40 {
        assert_eq!(store.chunk(file.id, chunk).await.unwrap(), None);
    }
    assert!(!store.add_chunk(file.id, 40, b"late".to_vec()).await.unwrap());
    assert_eq!(store.chunk(file.id, 40).await.unwrap(), None);
    assert_eq!(store.finish_file(&finished(&file, b"late"), QUOTA).await.unwrap(), UploadOutcome::Missing);
}

pub async fn a_person_has_a_quota_of_unbound_bytes(store: Arc<dyn FileStore>) {
    let quota = 100_000;
    let sized = |announced| NewFile { announced, ..new_file() };
    // One that is not finished counts with the bytes that are announced.
    let first = sized(60_000);
    assert_eq!(store.begin_file(&first, quota).await.unwrap(), UploadOutcome::Stored);
    assert_eq!(store.begin_file(&sized(60_000), quota).await.unwrap(), UploadOutcome::QuotaReached(60_000));
    let second = sized(0);
    assert_eq!(store.begin_file(&second, quota).await.unwrap(), UploadOutcome::Stored);
    assert_eq!(store.finish_file(&finished(&first, &[0; 60_000]), quota).await.unwrap(), UploadOutcome::Stored);
    let outcome = store.finish_file(&finished(&second, &[0; 50_000]), quota).await.unwrap();
    assert_eq!(outcome, UploadOutcome::QuotaReached(110_000));
    assert_eq!(store.file(HERE, second.id).await.unwrap(), None);
    assert_eq!(store.finish_file(&finished(&second, &[0; 10]), quota).await.unwrap(), UploadOutcome::Stored);
    // A small file counts as 16 KiB; other persons and workspaces have their own quota.
    assert_eq!(store.begin_file(&sized(40_000), quota).await.unwrap(), UploadOutcome::QuotaReached(76_384));
    let others = NewFile { by: Actor::person("bob"), ..sized(40_000) };
    assert_eq!(store.begin_file(&others, quota).await.unwrap(), UploadOutcome::Stored);
    let elsewhere = NewFile { workspace: new_workspace(), ..sized(40_000) };
    assert_eq!(store.begin_file(&elsewhere, quota).await.unwrap(), UploadOutcome::Stored);
}

pub async fn a_file_with_a_nul_in_its_name_is_refused(store: Arc<dyn FileStore>) {
    let file = NewFile { name: "a\0b".to_owned(), ..new_file() };
    assert!(matches!(store.begin_file(&file, QUOTA).await, Err(Error::Refused(_))));
}
