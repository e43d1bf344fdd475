//! Definitions that several nodes share.

use serde_json::{Value, json};

use crate::support::chain;
use crate::support::cluster::Site;

#[test]
fn an_activation_on_one_node_is_seen_by_the_next_start_on_another() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    let version = |n: u32| chain(&[json!({"id": "a", "type": "noop", "config": {"output": n}})]);
    a.publish("order", &version(1));
    b.publish("order", &version(2));
    let taken = |client: &crate::support::Client| {
        let started = client.post("/v1/workflows/order/runs", &Value::Null).is(201);
        started["run"]["workflowVersion"].as_u64().unwrap()
    };
    assert_eq!((taken(&a), taken(&b)), (2, 2));
    // Each time the other node starts the run, without a pause.
    for n in 0..10 {
        let (here, there) = if n % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let active = 1 + (n + 1) % 2;
        here.post("/v1/workflows/order/activate", &json!({"version": active})).is(200);
        assert_eq!(taken(there), active);
    }
    // A version that was just saved, and a workflow that was just deleted.
    a.publish("order", &version(3));
    assert_eq!(taken(&b), 3);
    assert_eq!(a.get("/v1/workflows/order/versions").is(200), b.get("/v1/workflows/order/versions").is(200));
}

#[test]
fn of_two_nodes_that_create_one_workflow_one_does() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    for round in 0..5 {
        let name = format!("order-{round}");
        let create = |client: &crate::support::Client, n: u32| {
            let node = json!({"id": "a", "type": "noop", "config": {"output": n}});
            client.post("/v1/workflows", &json!({"name": name, "definition": chain(&[node])})).status
        };
        let (one, two) = std::thread::scope(|scope| {
            let one = scope.spawn(|| create(&a, 1));
            let two = create(&b, 2);
            (one.join().unwrap(), two)
        });
        assert!([(201, 409), (409, 201)].contains(&(one, two)), "{one} {two}");
        let versions = a.get(&format!("/v1/workflows/{name}/versions")).is(200);
        assert_eq!(versions["versions"].as_array().unwrap().len(), 1);
    }
}
