//! Plans: what a verb costs does not grow with what it does not ask for.

use everstep_core::ids::RunId;
use everstep_store::postgres::{Options, PostgresStore};
use everstep_store::{Change, Item, RunFilter, Snapshot, Store, Wants};
use everstep_testkit::contract::{fixtures::*, run};
use everstep_testkit::postgres::{Cluster, Durability};

/// Other runs: most of them sleep, some are owned by others, some have ended.
const OTHERS: &str = "
    insert into nodes (id, lease_until) select gen_random_uuid(), 9e15 from generate_series(1, 3);
    insert into runs (id, owner, wake_at, ended_at, status, format, workspace, workflow, version, lane,
        retention_days, is_test, created_at, tags, input)
    select ('01990000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
        case when n % 10 = 0 then (select id from nodes offset n % 3 limit 1) end,
        9e15, case when n % 10 = 1 then 1 end,
        case when n % 10 = 1 then 'completed' else 'waiting' end, 1, gen_random_uuid(), 'other', 1, '', 365000, false, n,
        '[]', 'null'
    from generate_series(1, 20000) as n;
    insert into journal (run_id, seq, writer, at, kind, attempt, codec, payload)
    select id, 1, id, 0, 1, 0, 0, '' from runs where workflow = 'other';
    insert into inbox (id, run_id, workspace, created_at, input)
    select nextval('inbox_ids'), id, workspace, 9e15, '' from runs where owner is not null;
    insert into waits (run_id, step, workspace, event, pattern)
    select id, 's', workspace, 'other', '' from runs where ended_at is null;
";

/// Every verb once or more.
async fn do_everything(store: &PostgresStore) -> RunId {
    let node = member(store).await;
    let run = owned_run(store, node).await;
    let parked = owned_run(store, node).await;
    let news = apply(store, node, &Item { messages: vec![message(run, "news")], ..park(parked, at(0)) }).await;
    let waiting = Item { waits: vec![Change::Open(wait("s", "paid"))], taken: news, ..step(run, 2) };
    apply(store, node, &waiting).await;
    // Refused, so that its reason is looked up.
    commit(store, node, &waiting).await;
    let wants = Wants { lanes: vec![(String::new(), 10)], release: 10, inbox: 10 };
    assert!(store.tick(node, LEASE, at(0), &wants).await.unwrap().claimed.contains(&parked));
    store.claim_runs(node, "", at(0), 10).await.unwrap();
    store.release_runs(at(0), 10).await.unwrap();
    store.owned_runs(node).await.unwrap();
    store.next_wake("").await.unwrap();
    store.inbox(node, None, 10).await.unwrap();
    store.arrivals(run).await.unwrap();
    store.put_snapshot(run, Snapshot { seq: 2, format: 1, state: b"state".to_vec() }).await.unwrap();
    store.load_run(run).await.unwrap();
    store.get_run(HERE, run).await.unwrap();
    store.find_run(HERE, "", "key").await.unwrap();
    store.list_runs(HERE, RunFilter::default(), None, 10).await.unwrap();
    let filter = RunFilter { workflow: Some("orders".to_owned()), ..RunFilter::default() };
    store.list_runs(HERE, filter, None, 10).await.unwrap();
    store.journal(run, 0, 10).await.unwrap();
    assert_eq!(store.waits_for(HERE, "paid", 10).await.unwrap().len(), 1);
    store.sweep(at(0), 10).await.unwrap();
    apply(store, node, &end(run, 4, at(1))).await;
    store.leave(node, at(0)).await.unwrap();
    run
}

#[test]
fn no_verb_reads_a_whole_table() {
    run(async {
        let cluster = Cluster::start(Durability::Fast);
        cluster.configure(
            "shared_preload_libraries = 'auto_explain'\nauto_explain.log_min_duration = 0\nauto_explain.log_analyze = on",
        );
        cluster.stop();
        cluster.start_again();
        for pooled in [false, true] {
            let database = cluster.database();
            let options = Options { pooled, ..Options::default() };
            let store = PostgresStore::open(&database.url(), &options).await.unwrap();
            if !pooled {
                // Plans that were made while the tables were empty must do for full ones.
                do_everything(&store).await;
            }
            // The week of those ids.
            let node = member(&store).await;
            let first = RunId::from_uuid("01990000-0000-7000-8000-ffffffffffff".parse().unwrap());
            apply(&store, node, &start(first, None)).await;
            database.sql(OTHERS);
            database.sql("analyze");
            let log = cluster.folder().join("log");
            let before = std::fs::read_to_string(&log).unwrap().len();
            do_everything(&store).await;
            let log = std::fs::read_to_string(&log).unwrap();
            let mut scans = Vec::new();
            for line in log[before..].lines().filter(|line| line.contains("actual ")) {
                let table = ["runs", "journal", "inbox", "waits"];
                let is_whole = table.iter().any(|table| line.contains(&format!("Seq Scan on {table}")));
                // An index may be read whole, too.
                let (_, actual) = line.split_once("actual ").unwrap_or_default();
                let rows = actual.split("rows=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("0");
                let loops = actual.split("loops=").nth(1).map_or("1", |rest| rest.trim_end_matches(')'));
                let many = rows.parse::<u64>().unwrap() * loops.parse::<u64>().unwrap() > 2_500;
                if is_whole || many {
                    scans.push(line.trim().to_owned());
                }
            }
            assert_eq!(scans, Vec::<String>::new(), "pooled: {pooled}");
        }
    });
}
