//! Records that two nodes write at the same time.

use std::thread;

use serde_json::{Value, json};

use crate::support::cluster::Site;

#[test]
fn of_fifty_creations_on_two_nodes_one_wins() {
    let site = Site::new();
    let ((_one, first), (_two, second)) = site.start_two();
    let path = "/v1/store/races/one";
    let statuses: Vec<_> = thread::scope(|scope| {
        let create = |number: usize| {
            let client = if number.is_multiple_of(2) { &first } else { &second };
            let answer = client.try_ask("PUT", path, &[("if-none-match", "*")], &json!({"value": number})).unwrap();
            if answer.status == 409 {
                assert_eq!(answer.body["code"], "CONCURRENCY_ERROR");
            }
            answer.status
        };
        let creations: Vec<_> = (0..50).map(|number| scope.spawn(move || create(number))).collect();
        creations.into_iter().map(|creation| creation.join().unwrap()).collect()
    });
    let winners: Vec<_> = (0..50).filter(|number| statuses[*number] == 201).collect();
    assert_eq!((winners.len(), statuses.iter().filter(|status| **status == 409).count()), (1, 49), "{statuses:?}");
    for client in [&first, &second] {
        assert_eq!(client.get(path).is(200)["value"], winners[0]);
        assert_eq!(client.get("/v1/namespaces/races").is(200)["changes"], 1);
    }
}

#[test]
fn increments_on_two_nodes_are_all_counted() {
    let site = Site::new().set("EVERSTEP_RATE_LIMIT", "0");
    let ((_one, first), (_two, second)) = site.start_two();
    thread::scope(|scope| {
        for number in 0..64 {
            let client = if number % 2 == 0 { &first } else { &second };
            scope.spawn(move || {
                for _ in 0..100 {
                    client.post("/v1/store/races/count/increment", &Value::Null).is(200);
                }
            });
        }
    });
    for client in [&first, &second] {
        let record = client.get("/v1/store/races/count").is(200);
        assert_eq!((&record["value"], &record["revision"]), (&json!(6_400), &json!(6_400)));
        assert_eq!(client.get("/v1/namespaces/races").is(200)["changes"], 6_400);
    }
}

#[test]
fn a_request_that_is_repeated_on_another_node_is_applied_once() {
    let site = Site::new();
    let ((_one, first), (_two, second)) = site.start_two();
    let sent = [&first, &second, &first, &second].map(|client| {
        client.post_with("/v1/store/races/count/increment", &[("idempotency-key", "once")], &Value::Null).is(200)
    });
    assert!(sent.iter().all(|answer| *answer == json!({"value": 1, "revision": 1, "change": 1})), "{sent:?}");
}
