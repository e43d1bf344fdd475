//! The places of a bounded resource, for callers that wait.

use everstep_core::fair_share::ShareBounds;
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_handlers::Places;
use futures_util::FutureExt;

fn workspace(number: u128) -> WorkspaceId {
    WorkspaceId::new(Timestamp::EPOCH, number)
}

#[tokio::test]
async fn a_waiting_caller_receives_the_places_that_another_returns() {
    let places: Places = Places::new(ShareBounds::new(2));
    let [hog, other] = [1, 2].map(workspace);
    let first = places.try_acquire(hog, (), 1).expect("a place is free");
    let second = places.try_acquire(hog, (), 1).expect("a place is free");
    let mut of_hog = Box::pin(places.acquire(hog, (), 1));
    let mut of_other = Box::pin(places.acquire(other, (), 1));
    assert!(of_hog.as_mut().now_or_never().is_none());
    assert!(of_other.as_mut().now_or_never().is_none());
    drop(first);
    assert!(of_hog.as_mut().now_or_never().is_none(), "the other workspace uses less");
    let taken = of_other.as_mut().now_or_never().flatten().expect("it is the turn of the other workspace");
    drop((second, taken));
    assert!(of_hog.now_or_never().flatten().is_some());
    assert_eq!((places.used(), places.waiting()), (0, 0));
}

#[tokio::test]
async fn a_dropped_wait_loses_no_place() {
    let places: Places = Places::new(ShareBounds::new(4));
    let [hog, large, small] = [1, 2, 3].map(workspace);
    let held = places.try_acquire(hog, (), 2).expect("places are free");
    let mut of_large = Box::pin(places.acquire(large, (), 4));
    assert!(of_large.as_mut().now_or_never().is_none());
    let mut of_small = Box::pin(places.acquire(small, (), 1));
    assert!(of_small.as_mut().now_or_never().is_none(), "the large request is next");
    drop(of_large);
    let taken = of_small.as_mut().now_or_never().flatten().expect("the large request was withdrawn");
    // A place that was sent, but not received, is returned.
    let mut admitted = Box::pin(places.acquire(large, (), 2));
    assert!(admitted.as_mut().now_or_never().is_none());
    drop((held, taken));
    assert_eq!(places.used(), 2);
    drop(admitted);
    assert_eq!((places.used(), places.waiting()), (0, 0));
}

#[tokio::test]
async fn a_request_beyond_the_bounds_does_not_wait() {
    let places: Places = Places::new(ShareBounds::new(4));
    assert!(places.acquire(workspace(1), (), 5).await.is_none());
    let mut place = places.acquire(workspace(1), (), 4).await.expect("the places are free");
    place.shrink(1);
    assert_eq!((places.used(), place.amount()), (1, 1));
}
