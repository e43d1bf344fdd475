//! The end of files.

use everstep_core::ids::FileId;
use everstep_core::limits;
use everstep_core::time::Timestamp;
use everstep_store::Stores;

use crate::contract::fixtures::*;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

async fn sweep(stores: &Stores, now: Timestamp) {
    while stores.files.sweep_files(now, 2).await.unwrap() > 0 {}
}

async fn has(stores: &Stores, file: FileId) -> bool {
    let (row, chunk) = (stores.files.file(HERE, file).await.unwrap(), stores.files.chunk(file, 0).await.unwrap());
    assert_eq!(row.is_some(), chunk.is_some(), "a file has its row and its bytes, or neither");
    row.is_some()
}

pub async fn unbound_files_are_deleted_after_their_time(stores: Stores) {
    let (unbound, reserved, large) = (upload(&*stores.files).await, upload(&*stores.files).await, new_file());
    upload_file(&*stores.files, &large, &vec![7; 40 * limits::FILE_CHUNK_BYTES]).await;
    reserve(&*stores.files, new_run(), &[reserved]).await;
    // An item that binds the file may be in flight.
    sweep(&stores, at(FILE_SECONDS + HOUR - 1)).await;
    for file in [unbound, reserved, large.id] {
        assert!(has(&stores, file).await);
    }
    sweep(&stores, at(FILE_SECONDS + HOUR)).await;
    for file in [unbound, reserved, large.id] {
        assert!(!has(&stores, file).await);
    }
    for chunk in 0..40 {
        assert_eq!(stores.files.chunk(large.id, chunk).await.unwrap(), None);
    }
}

pub async fn unfinished_files_are_deleted_after_their_time(stores: Stores) {
    let file = new_file();
    stores.files.begin_file(&file, QUOTA).await.unwrap();
    assert!(stores.files.add_chunk(file.id, 0, b"part".to_vec()).await.unwrap());
    sweep(&stores, at(100 + HOUR)).await;
    assert_eq!(stores.files.chunk(file.id, 0).await.unwrap(), None);
    assert!(!stores.files.add_chunk(file.id, 1, b"part".to_vec()).await.unwrap());
}

pub async fn bound_files_are_deleted_with_their_run(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let run = owned_run(store, node).await;
    let (first, second) = (upload(&*stores.files).await, upload(&*stores.files).await);
    reserve(&*stores.files, run, &[first, second]).await;
    apply(store, node, &binding(&[first, second], step(run, 2))).await;
    // While the run has not ended, and until its retention has passed.
    sweep(&stores, at(FILE_SECONDS + 2 * DAY)).await;
    assert!(has(&stores, first).await && has(&stores, second).await);
    let ended = FILE_SECONDS + 3 * DAY;
    apply(store, node, &end(run, 4, at(ended))).await;
    sweep(&stores, at(ended + DAY)).await;
    assert!(has(&stores, first).await && has(&stores, second).await);
    let much_later = at(ended + 4_000 * DAY);
    assert_eq!(store.sweep(much_later, 10).await.unwrap(), 1);
    sweep(&stores, much_later).await;
    assert!(!has(&stores, first).await && !has(&stores, second).await);
}
