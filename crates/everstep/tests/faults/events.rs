//! Events that are published while a node is killed: each starts one run per subscription, and resolves its wait once.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use everstep_core::journal::Event;
use serde_json::{Value, json};

use crate::books::Books;
use crate::support::{Client, chain, wait_for};
use crate::{alone, site, wait_until_all_end};

const EVENTS: usize = 1_000;
/// Clients that publish at the same time.
const CLIENTS: usize = 5;
/// Between two requests of one client.
const PAUSE: Duration = Duration::from_millis(20);
/// The node is killed this long after it was started.
const KILL_AFTER: Duration = Duration::from_secs(2);
/// An event that is not answered in this time was lost.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for the payment of its own order.
fn waits() -> Value {
    let config = json!({"event": "order.paid", "match": {"order": "{{ctx.input.order}}"}});
    chain(&[json!({"id": "wait", "type": "wait", "config": config})])
}

/// Starts for each payment, because its definition says so.
fn receipts() -> Value {
    let mut definition = chain(&[]);
    definition["trigger"] = json!({"type": "event", "topic": "order.paid"});
    definition
}

/// The nodes to which clients publish. One of them is replaced again and again.
struct Nodes {
    clients: Mutex<[Client; 2]>,
    answered: AtomicUsize,
}

impl Nodes {
    /// Publishes an event at a node, and at the other one if the first does not answer, until one does.
    fn publish(&self, order: usize, first: usize) {
        let body = json!({
            "topic": "order.paid", "id": format!("payment-{order}"), "source": "till", "data": {"order": order},
        });
        let began = Instant::now();
        for attempt in 0.. {
            let node = self.clients.lock().unwrap()[(first + attempt) % 2].clone();
            let refusal = match node.try_ask("POST", "/v1/events", &[], &body) {
                Ok(answer) if [200, 202].contains(&answer.status) => break,
                Ok(answer) if [503, 504].contains(&answer.status) => answer.body.to_string(),
                Ok(answer) => panic!("payment {order}: {} {}", answer.status, answer.body),
                Err(error) => error.to_string(),
            };
            assert!(began.elapsed() < PUBLISH_TIMEOUT, "payment {order} is refused: {refusal}");
            std::thread::sleep(PAUSE);
        }
        self.answered.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_thousand_events_reach_each_subscription_and_wait_once_while_a_node_is_killed() {
    let _turn = alone();
    let site = site();
    let (one, two) = (site.start(), site.start());
    let client = one.client();
    client.publish("bookings", &chain(&[]));
    client.publish("receipts", &receipts());
    client.publish("waits", &waits());
    client.post("/v1/topics/order.*/subscriptions", &json!({"type": "workflow", "name": "bookings"})).is(201);
    let runs: Vec<_> = (0..EVENTS).map(|order| json!({"input": {"order": order}})).collect();
    client.post("/v1/workflows/waits/runs/batch", &json!({"runs": runs})).is(200);
    wait_for("all waits to be open", || {
        (site.database.sql("select count(*) from waits") == [EVENTS.to_string()]).then_some(())
    });

    let nodes = Nodes { clients: Mutex::new([client.clone(), two.client()]), answered: AtomicUsize::new(0) };
    let mut kills = 0;
    let began = Instant::now();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let nodes = &nodes;
            scope.spawn(move || {
                for order in (client..EVENTS).step_by(CLIENTS) {
                    // Both nodes receive each event; every second one reaches the node that is killed first.
                    for time in 0..2 {
                        nodes.publish(order, order / CLIENTS + time);
                        std::thread::sleep(PAUSE);
                    }
                }
            });
        }
        let mut victim = Some(two);
        let mut started = Instant::now();
        wait_for("all events to be published", || {
            if started.elapsed() >= KILL_AFTER {
                victim.take().unwrap().kill();
                kills += 1;
                let restarted = victim.insert(site.start());
                nodes.clients.lock().unwrap()[1] = restarted.client();
                started = Instant::now();
            }
            (nodes.answered.load(Ordering::SeqCst) == 2 * EVENTS).then_some(())
        });
        victim.take().unwrap().kill();
        kills += 1;
    });
    let published = began.elapsed();
    wait_for("every fan-out to be done", || {
        (site.database.sql("select count(*) from events where fanned_at is null") == ["0"]).then_some(())
    });
    wait_until_all_end(&site.database);
    println!("{kills} kills in {published:?}; the last run ended after {:?}", began.elapsed());
    assert!(kills >= 3, "only {kills} kills");

    assert_eq!(
        site.database.sql("select count(*), sum(matched_workflows), sum(matched_waits) from events"),
        [format!("{EVENTS}|{}|{EVENTS}", 2 * EVENTS)]
    );
    let started = "select workflow, count(*), count(distinct trigger ->> 'id') from runs group by 1 order by 1";
    assert_eq!(
        site.database.sql(started),
        [format!("bookings|{EVENTS}|{EVENTS}"), format!("receipts|{EVENTS}|{EVENTS}"), format!("waits|{EVENTS}|0"),]
    );
    let books = Books::from_database(&site.database);
    let all: Vec<_> = books.accounts.iter().map(|account| format!("/v1/runs/{}", account.row.id)).collect();
    books.check(&all);
    let mut taken = BTreeSet::new();
    for account in books.accounts.iter().filter(|account| account.row.workflow == "waits") {
        let waited = account.journal.iter().filter_map(|(_, entry)| match &entry.event {
            Event::StepCompleted { outcome, .. } => Some((outcome.event.as_deref()?.id, outcome.output.value())),
            _ => None,
        });
        let waited: Vec<_> = waited.collect();
        let [(event, data)] = waited[..] else { panic!("run {}: {waited:?}", account.row.id) };
        assert_eq!(data["order"], account.row.input.value()["order"]);
        assert!(taken.insert(event), "event {event} has resolved two waits");
    }
    assert_eq!(taken.len(), EVENTS);
    drop(one);
}
