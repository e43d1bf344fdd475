//! The shares of workspaces in a bounded resource: small cases, and random requests against a plain model of the rules.

use everstep_core::fair_share::{FairShare, PlaceRequest, PlaceRequestId, ShareBounds};
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;

use super::support::{Random, often};

fn workspace(number: u128) -> WorkspaceId {
    WorkspaceId::new(Timestamp::EPOCH, number)
}

/// Takes places one by one until none is given, and returns their number.
fn fill(share: &mut FairShare<(), ()>, owner: WorkspaceId) -> u64 {
    std::iter::from_fn(|| share.try_take(owner, &(), 1).then_some(())).count() as u64
}

#[test]
fn a_single_workspace_takes_every_place() {
    for places in [1, 2, 7, 256] {
        let mut share: FairShare<(), ()> = FairShare::new(ShareBounds::new(places));
        assert_eq!(fill(&mut share, workspace(1)), places);
    }
}

#[test]
fn the_last_quarter_stays_free_for_workspaces_that_use_little() {
    let mut share: FairShare<(), ()> = FairShare::new(ShareBounds::new(16));
    share.introduce(workspace(2));
    assert_eq!(fill(&mut share, workspace(1)), 12);
    // Each newcomer takes at most half of the rest, and at least one place.
    assert_eq!([2, 3, 4].map(|number| fill(&mut share, workspace(number))), [2, 1, 1]);
    assert_eq!((share.used(), fill(&mut share, workspace(5))), (16, 0));
}

#[test]
fn a_resource_with_two_places_keeps_one_for_the_other_workspace() {
    let mut share: FairShare<(), ()> = FairShare::new(ShareBounds::new(2));
    share.introduce(workspace(2));
    assert_eq!((fill(&mut share, workspace(1)), fill(&mut share, workspace(2))), (1, 1));
}

#[test]
fn long_work_counts_as_another_turn() {
    let [one, other] = [1, 2].map(workspace);
    for (was_long, expected) in [(false, ["one", "other"]), (true, ["other", "one"])] {
        let mut share = FairShare::new(ShareBounds::new(2));
        assert!(share.try_take(one, &(), 1) && share.try_take(other, &(), 1));
        assert!(share.request(one, (), 1, "one").is_some() && share.request(other, (), 1, "other").is_some());
        share.release(one, &(), 1);
        if was_long {
            share.use_turn(one);
        }
        share.release(other, &(), 1);
        let order: Vec<_> = std::iter::from_fn(|| share.admit_next()).map(|request| request.item).collect();
        assert_eq!(order, expected);
    }
}

#[test]
fn free_places_go_to_the_waiting_workspace_with_the_least_use() {
    let mut share = FairShare::new(ShareBounds::new(4));
    let [hog, second, third] = [1, 2, 3].map(workspace);
    (0..4).for_each(|_| assert!(share.try_take(hog, &(), 1)));
    for (owner, name) in [(hog, "h1"), (second, "s1"), (second, "s2"), (third, "t1")] {
        assert!(share.request(owner, (), 1, name).is_some());
        assert_eq!(share.admit_next(), None, "no place is free");
    }
    let mut order = Vec::new();
    for _ in 0..4 {
        share.release(hog, &(), 1);
        order.extend(std::iter::from_fn(|| share.admit_next()).map(|request| request.item));
    }
    // Each of the three uses a place now, and the last quarter stays free.
    assert_eq!(order, ["s1", "t1", "h1"]);
    share.release(second, &(), 1);
    assert_eq!(share.admit_next().map(|request| request.item), Some("s2"));
}

#[test]
fn workspaces_take_turns_however_much_each_has_queued() {
    let mut share = FairShare::new(ShareBounds::new(1));
    for (owner, name) in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (3, "c1"), (3, "c2")] {
        assert!(share.request(workspace(owner), (), 1, name).is_some());
    }
    let mut order = Vec::new();
    while let Some(request) = share.admit_next() {
        order.push(request.item);
        assert_eq!(share.admit_next(), None, "the only place is in use");
        share.release(request.workspace, &(), 1);
    }
    assert_eq!(order, ["a1", "b1", "c1", "a2", "c2", "a3"]);
}

#[test]
fn a_key_at_its_bound_delays_no_other_key() {
    let mut share = FairShare::new(ShareBounds { places: 100, workspace_max: 3, key_max: 2 });
    let owner = workspace(1);
    for (key, name) in [("slow", "s1"), ("slow", "s2"), ("slow", "s3"), ("fast", "f1"), ("fast", "f2")] {
        assert!(share.request(owner, key, 1, name).is_some());
    }
    let admitted = |share: &mut FairShare<_, _>| -> Vec<&str> {
        std::iter::from_fn(|| share.admit_next()).map(|request| request.item).collect()
    };
    assert_eq!(admitted(&mut share), ["s1", "s2", "f1"]);
    share.release(owner, &"fast", 1);
    assert_eq!(admitted(&mut share), ["f2"]);
    share.release(owner, &"slow", 1);
    assert_eq!(admitted(&mut share), ["s3"]);
}

#[test]
fn small_requests_do_not_delay_a_large_one_without_end() {
    let mut share = FairShare::new(ShareBounds::new(10));
    let [small, large] = [1, 2].map(workspace);
    (0..8).for_each(|_| assert!(share.try_take(small, &(), 1)));
    share.request(large, (), 10, "large");
    for _ in 0..8 {
        share.request(small, (), 1, "small");
        assert_eq!(share.admit_next(), None, "the large request is next");
        share.release(small, &(), 1);
    }
    assert_eq!(share.admit_next().map(|request| request.item), Some("large"));
}

#[test]
fn a_request_beyond_the_bounds_is_refused() {
    let mut share = FairShare::new(ShareBounds { places: 10, workspace_max: 5, key_max: 3 });
    assert_eq!(share.request(workspace(1), (), 4, ()), None);
    assert!(!share.try_take(workspace(1), &(), 4));
    assert!(share.request(workspace(1), (), 3, ()).is_some());
}

/// The rules as plain lists.
#[derive(Default)]
struct Model {
    /// Workspace, key, places.
    running: Vec<(u128, u8, u64)>,
    /// In the order of arrival.
    waiting: Vec<(PlaceRequestId, u128, u8, u64)>,
}

/// A request of a workspace that has the least use of those whose bounds admit a request.
struct Candidate {
    owner: u128,
    id: PlaceRequestId,
    /// Whether its places are free.
    is_admitted: bool,
}

impl Model {
    fn used(&self, is_counted: impl Fn(u128, u8) -> bool) -> u64 {
        self.running.iter().filter(|(owner, key, _)| is_counted(*owner, *key)).map(|(_, _, amount)| amount).sum()
    }

    /// The first request that the bounds of its workspace and key admit.
    fn first_request(&self, owner: u128, bounds: &ShareBounds) -> Option<(PlaceRequestId, u64)> {
        let mut keys = Vec::new();
        for (id, _, key, amount) in self.waiting.iter().filter(|(_, other, _, _)| *other == owner) {
            if keys.contains(key) {
                continue;
            }
            keys.push(*key);
            if self.used(|other, used| other == owner && used == *key) + amount <= bounds.key_max {
                let fits = self.used(|other, _| other == owner) + amount <= bounds.workspace_max;
                return fits.then_some((*id, *amount));
            }
        }
        None
    }

    fn candidates(&self, bounds: &ShareBounds) -> Vec<Candidate> {
        let used_by = |owner: u128| self.used(|other, _| other == owner);
        let ready = (1..=4).filter_map(|owner| Some((owner, self.first_request(owner, bounds)?)));
        let ready: Vec<_> = ready.collect();
        let Some(least) = ready.iter().map(|(owner, _)| used_by(*owner)).min() else { return Vec::new() };
        let free = bounds.places - self.used(|_, _| true);
        let last_quarter = bounds.places.div_ceil(4).min(bounds.places - 1);
        let may_take = |amount: u64| {
            let left = free.checked_sub(amount);
            left.is_some_and(|left| left >= last_quarter || least == 0 || least + amount <= left)
        };
        let candidates = ready.into_iter().filter(|(owner, _)| used_by(*owner) == least);
        candidates.map(|(owner, (id, amount))| Candidate { owner, id, is_admitted: may_take(amount) }).collect()
    }
}

#[test]
fn random_requests_follow_the_rules() {
    for seed in 0..often(300) {
        let mut random = Random::new(seed);
        let places = 1 + random.below(20) as u64;
        let workspace_max = if random.chance(50) { places } else { 1 + random.below(places as usize) as u64 };
        let key_max = if random.chance(50) { workspace_max } else { 1 + random.below(workspace_max as usize) as u64 };
        let bounds = ShareBounds { places, workspace_max, key_max };
        let mut share: FairShare<u8, u128> = FairShare::new(bounds);
        let mut model = Model::default();
        (1..=4).for_each(|number| share.introduce(workspace(number)));
        for step in 0..200 {
            let owner = 1 + random.below(4) as u128;
            match random.below(10) {
                0..5 => {
                    let (key, amount) = (random.below(3) as u8, 1 + random.below(key_max as usize) as u64);
                    let id = share.request(workspace(owner), key, amount, owner).unwrap();
                    model.waiting.push((id, owner, key, amount));
                }
                5..9 if !model.running.is_empty() => {
                    let (owner, key, amount) = model.running.swap_remove(random.below(model.running.len()));
                    share.release(workspace(owner), &key, amount);
                }
                _ if !model.waiting.is_empty() => {
                    let (id, owner, key, _) = model.waiting.remove(random.below(model.waiting.len()));
                    assert_eq!(share.withdraw(workspace(owner), &key, id), Some(owner));
                }
                _ => {}
            }
            while let Some(PlaceRequest { key, amount, item: owner, .. }) = share.admit_next() {
                let candidates = model.candidates(&bounds);
                let chosen = candidates.iter().find(|candidate| candidate.owner == owner && candidate.is_admitted);
                let id = chosen.unwrap_or_else(|| panic!("seed {seed}, step {step}: {owner} was admitted")).id;
                model.waiting.retain(|(waiting, _, _, _)| *waiting != id);
                model.running.push((owner, key, amount));
            }
            let candidates = model.candidates(&bounds);
            let is_served = candidates.is_empty() || candidates.iter().any(|candidate| !candidate.is_admitted);
            assert!(is_served, "seed {seed}, step {step}: a request was passed over");
            assert_eq!(share.used(), model.used(|_, _| true), "seed {seed}, step {step}");
            assert_eq!(share.waiting(), model.waiting.len(), "seed {seed}, step {step}");
            let used = |owner: u128| (share.used_by(workspace(owner)), model.used(|other, _| other == owner));
            assert!((1..=4).map(used).all(|(used, expected)| used == expected && used <= workspace_max));
            assert!(share.used() <= places, "seed {seed}, step {step}");
        }
        // Every request is admitted when the others end.
        while !model.waiting.is_empty() {
            let (owner, key, amount) = model.running.pop().expect("a request waits only while places are in use");
            share.release(workspace(owner), &key, amount);
            while let Some(PlaceRequest { key, amount, item: owner, .. }) = share.admit_next() {
                let position = model.waiting.iter().position(|waiting| (waiting.1, waiting.2) == (owner, key)).unwrap();
                model.waiting.remove(position);
                model.running.push((owner, key, amount));
            }
        }
    }
}
