//! Claims: the only way to own an existing run.

use std::collections::BTreeSet;
use std::sync::Arc;

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{Error, Item, NewRun, RunStore};

use crate::contract::fixtures::*;

/// Starts an unowned run of a lane, due at a time.
async fn due(store: &dyn RunStore, node: NodeId, lane: &str, wake_at: Timestamp) -> RunId {
    let run = new_run();
    let mut start = start_with(run, None, NewRun { lane: lane.to_owned(), ..new() });
    start.projection = Some(projection(Status::Waiting, None, wake_at));
    apply(store, node, &start).await;
    run
}

pub async fn a_claimed_run_is_owned(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = due(&*store, node, "", at(0)).await;
    assert_eq!(claim(&*store, node, "", at(0), 10).await, [run]);
    assert_eq!(row(&*store, run).await.owner, Some(node));
    apply(&*store, node, &step(run, 2)).await;
    assert_eq!(claim(&*store, node, "", at(0), 10).await, []);
}

pub async fn a_node_finds_the_runs_that_it_owns(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let (started, parked, ended) =
        (owned_run(&*store, node).await, owned_run(&*store, node).await, owned_run(&*store, node).await);
    owned_run(&*store, other).await;
    apply(&*store, node, &park(parked, at(60))).await;
    apply(&*store, node, &end(ended, 2, at(1))).await;
    assert_eq!(store.owned_runs(node).await.unwrap(), [started]);
    // A claim whose reply was lost is found here.
    claim(&*store, node, "", at(60), 10).await;
    assert_eq!(store.owned_runs(node).await.unwrap(), [started, parked]);
    assert_eq!(store.owned_runs(new_node()).await.unwrap(), []);
}

pub async fn two_nodes_never_claim_the_same_run(store: Arc<dyn RunStore>) {
    let nodes = [member(&*store).await, member(&*store).await, member(&*store).await, member(&*store).await];
    let mut runs = BTreeSet::new();
    for _ in 0..60 {
        runs.insert(due(&*store, nodes[0], "", at(0)).await);
    }
    let claims = nodes.map(|node| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut claimed = vec![];
            loop {
                let more = claim(&*store, node, "", at(0), 7).await;
                if more.is_empty() {
                    return claimed;
                }
                claimed.extend(more);
            }
        })
    });
    let mut count = 0;
    for (node, claimed) in nodes.into_iter().zip(claims) {
        for run in claimed.await.unwrap() {
            count += 1;
            assert!(runs.remove(&run), "{run} was claimed twice");
            assert_eq!(row(&*store, run).await.owner, Some(node));
        }
    }
    assert_eq!((count, runs.len()), (60, 0));
}

pub async fn claims_take_the_oldest_first(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let late = due(&*store, node, "", at(30)).await;
    let early = due(&*store, node, "", at(10)).await;
    let middle = due(&*store, node, "", at(20)).await;
    assert_eq!(claim(&*store, node, "", at(60), 2).await, [early, middle]);
    assert_eq!(claim(&*store, node, "", at(60), 2).await, [late]);
}

pub async fn only_due_runs_are_claimed(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = due(&*store, node, "", at(10)).await;
    due(&*store, node, "", Timestamp::NEVER).await;
    assert_eq!(claim(&*store, node, "", at(9), 10).await, []);
    assert_eq!(claim(&*store, node, "", at(10), 10).await, [run]);
}

pub async fn only_runs_of_the_lane_are_claimed(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = due(&*store, node, "workers", at(0)).await;
    assert_eq!(claim(&*store, node, "", at(1), 10).await, []);
    assert_eq!(claim(&*store, node, "worker", at(1), 10).await, []);
    assert_eq!(claim(&*store, node, "workers", at(1), 10).await, [run]);
}

pub async fn ended_runs_are_never_claimed(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let run = owned_run(&*store, node).await;
    apply(&*store, node, &end(run, 2, at(1))).await;
    assert_eq!(claim(&*store, node, "", Timestamp::NEVER, 10).await, []);
}

pub async fn a_parked_run_is_claimed_when_it_is_due(store: Arc<dyn RunStore>) {
    let (node, other) = (member(&*store).await, member(&*store).await);
    let run = owned_run(&*store, node).await;
    assert_eq!(claim(&*store, other, "", at(60), 10).await, []);
    apply(&*store, node, &park(run, at(60))).await;
    assert_eq!(store.next_wake("").await.unwrap(), Some(at(60)));
    assert_eq!(claim(&*store, other, "", at(59), 10).await, []);
    assert_eq!(claim(&*store, other, "", at(60), 10).await, [run]);
    apply(&*store, other, &step(run, 2)).await;
}

pub async fn the_next_wake_is_the_earliest_of_its_lane(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    assert_eq!(store.next_wake("").await.unwrap(), None);
    due(&*store, node, "", Timestamp::NEVER).await;
    assert_eq!(store.next_wake("").await.unwrap(), None);
    due(&*store, node, "workers", at(5)).await;
    due(&*store, node, "", at(20)).await;
    due(&*store, node, "", at(10)).await;
    assert_eq!(store.next_wake("").await.unwrap(), Some(at(10)));
    claim(&*store, node, "", at(10), 10).await;
    assert_eq!(store.next_wake("").await.unwrap(), Some(at(20)));
    claim(&*store, node, "", at(20), 10).await;
    assert_eq!(store.next_wake("").await.unwrap(), None);
}

pub async fn only_members_claim(store: Arc<dyn RunStore>) {
    let (node, fenced) = (member(&*store).await, member(&*store).await);
    let run = due(&*store, node, "", at(0)).await;
    fence(&*store, fenced).await;
    for stranger in [fenced, new_node()] {
        let claimed = store.claim_runs(stranger, "", at(0), 10, None).await;
        assert!(matches!(claimed, Err(Error::Fenced(_))), "{claimed:?}");
    }
    assert_eq!(claim(&*store, node, "", at(0), 10).await, [run]);
}

/// Starts unowned runs of a workspace in the server's own lane, due one second after the other.
async fn due_in(store: &dyn RunStore, node: NodeId, workspace: WorkspaceId, from: i64, count: i64) -> Vec<RunId> {
    let mut runs = Vec::new();
    for seconds in from..from + count {
        let run = new_run();
        let projection = Some(projection(Status::Waiting, None, at(seconds)));
        apply(store, node, &Item { workspace, projection, ..start(run, None) }).await;
        runs.push(run);
    }
    runs
}

/// Workspaces in the order in which claims visit them.
fn new_workspaces<const N: usize>() -> [WorkspaceId; N] {
    let mut workspaces = [(); N].map(|()| new_workspace());
    workspaces.sort();
    workspaces
}

pub async fn a_backlog_of_one_workspace_does_not_delay_another(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    for [busy, calm] in [new_workspaces(), {
        let [calm, busy] = new_workspaces();
        [busy, calm]
    }] {
        let backlog = due_in(&*store, node, busy, 0, 60).await;
        let runs = due_in(&*store, node, calm, 1_000, 2).await;
        let first = claim(&*store, node, "", at(2_000), 10).await;
        // In rounds, the oldest run of each workspace first.
        assert_eq!(first[..4], [backlog[0], runs[0], backlog[1], runs[1]]);
        assert_eq!(first[4..], backlog[2..8]);
        while !claim(&*store, node, "", at(2_000), 100).await.is_empty() {}
    }
}

pub async fn claims_rotate_over_workspaces(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let workspaces: [_; 5] = new_workspaces();
    let mut runs = Vec::new();
    for (index, workspace) in workspaces.into_iter().enumerate() {
        // The first workspace has the oldest runs.
        runs.push(due_in(&*store, node, workspace, index as i64 * 10, 4).await);
    }
    let mut rotation = None;
    let mut claimed = Vec::new();
    for _ in 0..5 {
        let result = store.claim_runs(node, "", at(60), 2, rotation).await.unwrap();
        rotation = result.rotation;
        claimed.extend(result.runs);
    }
    // Two circles: the oldest run of each workspace, and then the second one of each.
    let expected: Vec<_> = [0, 1].into_iter().flat_map(|round| runs.iter().map(move |runs| runs[round])).collect();
    assert_eq!(claimed[..4], expected[..4]);
    assert_eq!(BTreeSet::from_iter(claimed), BTreeSet::from_iter(expected));
    assert_eq!(rotation, Some(workspaces[4]));
    // A workspace that no longer exists is a place in the circle like any other.
    let (gone, first) = (Some(WorkspaceId::from_uuid(uuid::Uuid::max())), runs[0][2]);
    assert_eq!(store.claim_runs(node, "", at(60), 1, gone).await.unwrap().runs, [first]);
}

pub async fn the_runs_of_one_workspace_are_claimed_alone(store: Arc<dyn RunStore>) {
    let (node, stranger) = (member(&*store).await, new_node());
    let [one, two, three] = new_workspaces();
    let ones = due_in(&*store, node, one, 0, 3).await;
    due_in(&*store, node, two, 1_000, 1).await;
    due_in(&*store, node, three, 0, 1).await;
    let due = store.due_workspaces(at(60), None, 10).await.unwrap();
    assert_eq!(due, [(one, true), (two, false), (three, true)]);
    assert_eq!(store.due_workspaces(at(60), Some(one), 1).await.unwrap(), [(two, false)]);
    assert_eq!(store.due_workspaces(at(60), Some(three), 10).await.unwrap(), []);
    let refused = store.claim_workspace(stranger, one, at(60), 2).await;
    assert!(matches!(refused, Err(Error::Fenced(_))), "{refused:?}");
    assert_eq!(store.claim_workspace(node, one, at(60), 2).await.unwrap(), ones[..2]);
    assert_eq!(row(&*store, ones[0]).await.owner, Some(node));
    assert_eq!(store.claim_workspace(node, one, at(60), 2).await.unwrap(), ones[2..]);
    assert_eq!(store.claim_workspace(node, two, at(60), 2).await.unwrap(), []);
    assert_eq!(store.due_workspaces(at(60), None, 10).await.unwrap(), [(two, false), (three, true)]);
}

pub async fn workspaces_have_equal_shares_of_a_claim(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let [one, two, three] = new_workspaces();
    let ones = due_in(&*store, node, one, 0, 20).await;
    let twos = due_in(&*store, node, two, 100, 20).await;
    let threes = due_in(&*store, node, three, 200, 20).await;
    let claimed = store.claim_runs(node, "", at(1_000), 11, Some(one)).await.unwrap();
    assert_eq!(claimed.rotation, Some(one));
    let claimed = BTreeSet::from_iter(claimed.runs);
    let expected = ones[..3].iter().chain(&twos[..4]).chain(&threes[..4]).copied();
    assert_eq!(claimed, expected.collect());
}

pub async fn places_that_a_share_leaves_go_to_the_oldest_runs(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let [few, older, newer] = new_workspaces();
    let few = due_in(&*store, node, few, 500, 1).await;
    let older = due_in(&*store, node, older, 0, 20).await;
    let newer = due_in(&*store, node, newer, 100, 20).await;
    let claimed = claim(&*store, node, "", at(1_000), 12).await;
    let expected = few.iter().chain(&older[..7]).chain(&newer[..4]).copied();
    assert_eq!(BTreeSet::from_iter(claimed), expected.collect());
}

pub async fn a_claim_with_room_for_all_due_runs_keeps_the_rotation(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let [one, two] = new_workspaces();
    let late = due_in(&*store, node, one, 20, 1).await;
    let early = due_in(&*store, node, two, 10, 1).await;
    for rotation in [None, Some(two)] {
        let claimed = store.claim_runs(node, "", at(5), 2, rotation).await.unwrap();
        assert_eq!((claimed.runs, claimed.rotation), (vec![], rotation));
    }
    let claimed = store.claim_runs(node, "", at(60), 2, Some(one)).await.unwrap();
    assert_eq!((claimed.runs, claimed.rotation), (vec![early[0], late[0]], Some(one)));
}

pub async fn workspaces_that_sleep_delay_no_other_for_long(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let workspaces: [_; 100] = new_workspaces();
    for workspace in &workspaces[1..99] {
        due_in(&*store, node, *workspace, 9_000, 1).await;
    }
    let backlog = due_in(&*store, node, workspaces[0], 0, 30).await;
    let run = due_in(&*store, node, workspaces[99], 100, 1).await[0];
    let mut rotation = None;
    let mut claimed = Vec::new();
    while !claimed.contains(&run) {
        let result = store.claim_runs(node, "", at(1_000), 1, rotation).await.unwrap();
        assert_eq!(result.runs.len(), 1, "a claim fills its places although it has not closed the circle");
        assert_ne!(result.rotation, rotation);
        rotation = result.rotation;
        claimed.extend(result.runs);
    }
    assert!(claimed.len() < 10, "it was claimed after {}", claimed.len());
    assert_eq!(claimed[..claimed.len() - 1], backlog[..claimed.len() - 1]);
}

pub async fn runs_that_are_never_due_are_not_visited(store: Arc<dyn RunStore>) {
    let node = member(&*store).await;
    let workspaces: [_; 40] = new_workspaces();
    for workspace in &workspaces[1..39] {
        let projection = Some(projection(Status::Waiting, None, Timestamp::NEVER));
        apply(&*store, node, &Item { workspace: *workspace, projection, ..start(new_run(), None) }).await;
    }
    due_in(&*store, node, workspaces[0], 0, 5).await;
    let run = due_in(&*store, node, workspaces[39], 100, 1).await[0];
    let claimed = store.claim_runs(node, "", at(1_000), 1, Some(workspaces[0])).await.unwrap();
    assert_eq!((claimed.runs, claimed.rotation), (vec![run], Some(workspaces[39])));
}
