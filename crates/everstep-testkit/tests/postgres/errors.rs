//! The database's errors, as errors of the ports.

use everstep_store::{Error, Item, NewRun, RunStore, Space};
use everstep_testkit::contract::{fixtures::*, run};
use everstep_testkit::postgres::{Cluster, TestDatabase};

use super::open;

/// Makes the database return an error code when a run is inserted, the given number of times.
fn plant(database: &TestDatabase<'_>, code: &str, times: i64) {
    database.sql(&format!(
        "drop trigger if exists planted on runs;
         create sequence if not exists planted_times;
         alter sequence planted_times restart;
         create or replace function planted() returns trigger language plpgsql as $$
         begin
             -- What a sequence counts is not rolled back.
             if nextval('planted_times') <= {times} then
                 raise exception 'planted' using errcode = '{code}';
             end if;
             return new;
         end $$;
         create trigger planted before insert on runs for each row execute function planted()"
    ));
}

#[test]
fn errors_contain_the_remedy() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let node = member(&store).await;
        let going_on = owned_run(&store, node).await;
        assert_eq!(store.space(), Space::default());
        for code in ["53100", "53200", "22003", "23514", "54000", "57014", "53300", "25006", "XX001"] {
            plant(&database, code, i64::MAX);
            let batch = [step(going_on, 2), start(new_run(), Some(node))];
            let error = store.commit(node, &batch).await.unwrap_err();
            let is_right = match code {
                "53100" | "53200" => matches!(error, Error::Full(_)),
                "22003" | "23514" | "54000" => matches!(error, Error::Refused(_)),
                "XX001" => matches!(error, Error::Corrupt(_)),
                _ => matches!(error, Error::Unavailable(_)),
            };
            assert!(is_right, "{code}: {error:?}");
            assert!(store.space().refusal.is_some(), "a full disk is reported for some seconds");
            assert_eq!(seqs(&store, going_on).await, [1], "{code}: nothing was written");
        }
        plant(&database, "53100", 0);
        apply(&store, node, &step(going_on, 2)).await;
    });
}

#[test]
fn a_batch_that_was_in_the_way_of_others_is_sent_again() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let node = member(&store).await;
        // Its week has a partition from now on.
        owned_run(&store, node).await;
        for code in ["40P01", "40001", "55P03"] {
            plant(&database, code, 3);
            apply(&store, node, &start(new_run(), Some(node))).await;
            assert_eq!(database.sql("select last_value from planted_times"), ["4"], "{code}");
        }
        // The retries end.
        plant(&database, "40P01", i64::MAX);
        let error = store.commit(node, &[start(new_run(), Some(node))]).await.unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    });
}

#[test]
fn text_that_the_database_cannot_hold_is_refused() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let node = member(&store).await;
        let run = owned_run(&store, node).await;
        let with_nul = start_with(new_run(), None, NewRun { lane: "a\0b".to_owned(), ..new() });
        let too_long = {
            let noise: String = (0..9_000_u32).map(|n| char::from_u32(0x4e00 + n * 7919 % 20_000).unwrap()).collect();
            let mut item = step(run, 2);
            item.entries[0].row.step = Some(noise.into());
            item
        };
        let too_often = {
            let mut item = step(run, 2);
            item.entries[0].row.attempt = u32::MAX;
            item
        };
        for item in [with_nul, too_long, too_often] {
            let error = store.commit(node, &[item]).await.unwrap_err();
            assert!(matches!(error, Error::Refused(_)), "{error:?}");
        }
        apply(&store, node, &step(run, 2)).await;
    });
}

#[test]
fn an_error_does_not_contain_data() {
    run(async {
        let database = Cluster::shared().database();
        let store = open(&database).await;
        let node = member(&store).await;
        let run = owned_run(&store, node).await;
        let mut ending = end(run, 2, at(5));
        ending.projection.as_mut().unwrap().ended_at = None;
        ending.projection.as_mut().unwrap().output =
            Some(everstep_core::payload::Payload::from(serde_json::json!("s3cret")));
        let error = store.commit(node, &[Item { ..ending }]).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error:?}");
        assert!(error.to_string().contains("ended_runs_have_an_end_time"), "{error}");
        assert!(!error.to_string().contains("s3cret"), "{error}");
    });
}
