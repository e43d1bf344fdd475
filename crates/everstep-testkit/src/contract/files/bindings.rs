//! Reservations of files, and files that an item binds.

use std::sync::Arc;

use everstep_core::actor::Actor;
use everstep_core::files::FileBinding;
use everstep_core::ids::{FileId, RunId};
use everstep_core::status::Status;
use everstep_store::FileFault::{Expired, NotFound, Taken};
use everstep_store::ReserveOutcome::{Refused, Reserved};
use everstep_store::{CommitOutcome, FileReservation, FileStore, Gate, Item, Projection, SideWrites, Stores};
use futures_util::future;

use crate::contract::fixtures::*;

/// The run and the seq of a file.
async fn place_of(stores: &Stores, file: FileId) -> (Option<RunId>, Option<u64>) {
    let row = stores.files.file(HERE, file).await.unwrap().unwrap();
    (row.run, row.seq)
}

pub async fn a_file_is_reserved_by_one_run(store: Arc<dyn FileStore>) {
    let file = upload(&*store).await;
    let runs: Vec<_> = (0..50).map(|_| new_run()).collect();
    let files = [file];
    let outcomes = future::join_all(runs.iter().map(|run| reserve(&*store, *run, &files))).await;
    let winners: Vec<_> =
        runs.iter().zip(&outcomes).filter(|(_, outcome)| **outcome == Reserved(Some(file_expiry()))).collect();
    assert_eq!(winners.len(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Refused(file, Taken)).count(), 49);
    // The run that has it may ask again.
    let winner = *winners[0].0;
    assert_eq!(store.file(HERE, file).await.unwrap().unwrap().run, Some(winner));
    assert_eq!(reserve(&*store, winner, &[file]).await, Reserved(Some(file_expiry())));
}

pub async fn files_are_reserved_all_or_none(store: Arc<dyn FileStore>) {
    let (first, second, taken) = (upload(&*store).await, upload(&*store).await, upload(&*store).await);
    let (run, other) = (new_run(), new_run());
    assert_eq!(reserve(&*store, other, &[taken]).await, Reserved(Some(file_expiry())));
    assert_eq!(reserve(&*store, run, &[first, taken, second]).await, Refused(taken, Taken));
    let unknown = new_file_id();
    assert_eq!(reserve(&*store, run, &[first, unknown]).await, Refused(unknown, NotFound));
    for file in [first, second] {
        assert_eq!(store.file(HERE, file).await.unwrap().unwrap().run, None);
    }
    assert_eq!(reserve(&*store, run, &[first, second]).await, Reserved(Some(file_expiry())));
    for file in [first, second] {
        assert_eq!(store.file(HERE, file).await.unwrap().unwrap().run, Some(run));
    }
    assert_eq!(reserve(&*store, run, &[]).await, Reserved(None));
}

pub async fn only_the_person_who_uploaded_a_file_reserves_it_in_time(store: Arc<dyn FileStore>) {
    let (file, run) = (upload(&*store).await, new_run());
    let of_ann = reservation(run, &[file]);
    for refused in [
        FileReservation { by: Actor::person("bob"), ..of_ann.clone() },
        FileReservation { by: Actor::key("ann"), ..of_ann.clone() },
        FileReservation { workspace: new_workspace(), ..of_ann.clone() },
    ] {
        assert_eq!(store.reserve_files(&refused).await.unwrap(), Refused(file, NotFound));
    }
    let late = FileReservation { now: file_expiry(), ..of_ann.clone() };
    assert_eq!(store.reserve_files(&late).await.unwrap(), Refused(file, Expired));
    assert_eq!(store.reserve_files(&of_ann).await.unwrap(), Reserved(Some(file_expiry())));
    assert_eq!(store.reserve_files(&late).await.unwrap(), Refused(file, Expired));
}

/// Of each form of an item that a commit treats differently.
pub async fn files_are_bound_with_their_item(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let (run, guest) = (owned_run(store, node).await, unowned_run(store, node).await);
    let mut files = Vec::new();
    for _ in 0..6 {
        files.push(upload(&*stores.files).await);
    }
    assert_eq!(reserve(&*stores.files, run, &files[..5]).await, Reserved(Some(file_expiry())));
    assert_eq!(reserve(&*stores.files, guest, &files[5..]).await, Reserved(Some(file_expiry())));
    apply(store, node, &binding(&files[..1], step(run, 2))).await;
    let machine = Some(place("review", 2));
    let moved = Projection { machine, ..projection(Status::Running, Some(node), at(0)) };
    let side = |files: &[FileId], seq| {
        let files = files.iter().map(|file| FileBinding { file: *file, seq }).collect();
        Some(Box::new(SideWrites { files, ..SideWrites::with_audit(audit_row(1)) }))
    };
    // The second entry names two of them.
    let item = Item { format: 2, projection: Some(moved), side: side(&files[1..3], 5), ..step(run, 4) };
    apply(store, node, &item).await;
    let guests = Item { gate: Gate::Unowned, ..binding(&files[5..], step(guest, 2)) };
    let outcomes = store.commit(node, &[guests, binding(&files[3..5], step(run, 6))]).await.unwrap();
    assert_eq!(outcomes, [applied(), applied()]);
    let expected = [(run, 2), (run, 5), (run, 5), (run, 6), (run, 6), (guest, 2)];
    for (file, (run, seq)) in files.iter().zip(expected) {
        assert_eq!(place_of(&stores, *file).await, (Some(run), Some(seq)));
    }
    // A bound file is no obstacle for a repeated request of its run, whatever the time is.
    let late = FileReservation { now: file_expiry(), ..reservation(run, &files[..2]) };
    assert_eq!(stores.files.reserve_files(&late).await.unwrap(), Reserved(None));
    assert_eq!(reserve(&*stores.files, guest, &files[..1]).await, Refused(files[0], Taken));
}

pub async fn a_refused_item_binds_nothing(stores: Stores) {
    let store = &*stores.runs;
    let (node, other) = (member(store).await, member(store).await);
    let (run, foreign) = (owned_run(store, node).await, owned_run(store, other).await);
    let (file, file_of_foreign) = (upload(&*stores.files).await, upload(&*stores.files).await);
    reserve(&*stores.files, run, &[file]).await;
    reserve(&*stores.files, foreign, &[file_of_foreign]).await;
    apply(store, node, &step(run, 2)).await;
    // Its seq is taken; another node owns its run; a row behind its head exists.
    assert_eq!(commit(store, node, &binding(&[file], step(run, 2))).await, CommitOutcome::Conflict);
    assert_eq!(commit(store, node, &binding(&[file_of_foreign], step(foreign, 2))).await, CommitOutcome::Lost);
    let mut clashing = binding(&[file], step(run, 4));
    clashing.entries[1].row.step = Some("s4".into());
    assert_eq!(commit(store, node, &clashing).await, CommitOutcome::Conflict);
    assert_eq!(place_of(&stores, file).await, (Some(run), None));
    assert_eq!(place_of(&stores, file_of_foreign).await, (Some(foreign), None));
}

pub async fn an_item_whose_file_cannot_be_bound_writes_nothing(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let (run, other, neighbour) =
        (owned_run(store, node).await, owned_run(store, node).await, owned_run(store, node).await);
    let (mine, foreign, unreserved, kept) = (
        upload(&*stores.files).await,
        upload(&*stores.files).await,
        upload(&*stores.files).await,
        upload(&*stores.files).await,
    );
    reserve(&*stores.files, run, &[mine]).await;
    reserve(&*stores.files, other, &[foreign]).await;
    reserve(&*stores.files, neighbour, &[kept]).await;
    for file in [foreign, unreserved, new_file_id()] {
        assert_eq!(commit(store, node, &binding(&[mine, file], step(run, 2))).await, CommitOutcome::Conflict);
    }
    assert_eq!(seqs(store, run).await, [1]);
    assert_eq!(place_of(&stores, mine).await, (Some(run), None));
    // Its neighbours in the batch are applied.
    let items = [binding(&[kept], step(neighbour, 2)), binding(&[unreserved], step(run, 2))];
    assert_eq!(store.commit(node, &items).await.unwrap(), [applied(), CommitOutcome::Conflict]);
    assert_eq!(place_of(&stores, kept).await, (Some(neighbour), Some(2)));
    // A file is bound once.
    apply(store, node, &binding(&[mine], step(run, 2))).await;
    assert_eq!(commit(store, node, &binding(&[mine], step(run, 4))).await, CommitOutcome::Conflict);
    assert_eq!(place_of(&stores, mine).await, (Some(run), Some(2)));
}

pub async fn a_resent_item_binds_its_files_once(stores: Stores) {
    let store = &*stores.runs;
    let node = member(store).await;
    let (run, file) = (owned_run(store, node).await, upload(&*stores.files).await);
    reserve(&*stores.files, run, &[file]).await;
    let item = binding(&[file], step(run, 2));
    apply(store, node, &item).await;
    assert_eq!(commit(store, node, &item).await, CommitOutcome::Duplicate);
    assert_eq!(place_of(&stores, file).await, (Some(run), Some(2)));
}
