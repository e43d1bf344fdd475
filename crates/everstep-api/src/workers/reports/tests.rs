//! Decoding and checking of reports.

use everstep_core::code::{Moment, Since};
use everstep_core::payload::Payload;
use everstep_core::retry::Backoff;
use everstep_core::time::Timestamp;

use super::*;

const RUN: &str = "019a8b6e-9d00-7000-8000-000000000001";

/// Checks one report; the members that every report has are added.
fn read(fields: &str) -> Result<Report, String> {
    let text = format!("{{\"n\":7,\"run\":\"{RUN}\",\"turn\":3,{fields}}}");
    let raw = RawValue::from_string(text).unwrap();
    let mut reports = Reports::decode_each(vec![&raw]).unwrap();
    match reports.refused.pop() {
        Some((7, why)) => Err(why),
        Some((n, _)) => panic!("{n} was answered"),
        None => Ok(reports.accepted.pop().unwrap().report),
    }
}

fn since_of(report: &Report) -> Option<Since> {
    let Report::Waited { since, .. } = report else { panic!("{report:?}") };
    *since
}

#[test]
fn every_kind_of_report_is_read() {
    let completed = r#""kind":"completed","step":"a","attempt":1,"output":{"x": 1},"logs":["hi"],"tookMs":1.5"#;
    let Ok(Report::Completed { step, attempt, output, logs, took }) = read(completed) else { panic!() };
    assert_eq!((step.as_str(), attempt, output.json(), took), ("a", 1, r#"{"x": 1}"#, 1_500));
    assert_eq!(logs, ["hi"]);
    let failed = r#""kind":"failed","step":"a","attempt":2,"error":{"message":"no","stack":"at a"},
        "retry":{"attempts":5,"backoff":{"kind":"linear","baseMs":10,"maxMs":100,"jitter":0.5}},"tookMs":2"#;
    let Ok(Report::Failed { failure, retry, logs, .. }) = read(failed) else { panic!() };
    assert_eq!((failure.code.as_str(), failure.message.as_str(), failure.retryable), ("ERROR", "no", true));
    assert_eq!((retry.max_attempts, retry.backoff, retry.base_ms, retry.max_ms), (5, Backoff::Linear, 10, 100));
    assert_eq!(logs, ["at a"]);
    let slept = read(r#""kind":"sleep","step":"nap","forMs":60000"#);
    assert_eq!(slept, Ok(Report::Slept { step: "nap".into(), until: Moment::After(60_000) }));
    let slept = read(r#""kind":"sleep","step":"nap","untilMs":5000"#);
    let until = Moment::At(Timestamp::from_millis(5_000));
    assert_eq!(slept, Ok(Report::Slept { step: "nap".into(), until }));
    let Ok(Report::Waited { event, pattern, timeout_ms, .. }) = read(r#""kind":"wait","step":"w""#) else { panic!() };
    assert_eq!((event, pattern.json(), timeout_ms), (None, "{}", None));
    assert_eq!(read(r#""kind":"wait","step":"w""#).map(|report| since_of(&report)), Ok(None));
    let since = |written: &str| {
        read(&format!(r#""kind":"wait","step":"w","event":"e","since":{written}"#)).map(|report| since_of(&report))
    };
    assert_eq!(since(r#""start""#), Ok(Some(Since::Start)));
    assert_eq!(since(r#"{"agoMs":900000}"#), Ok(Some(Since::Ago(900_000))));
    assert_eq!(since(r#"{"atMs":5000}"#), Ok(Some(Since::At(Timestamp::from_millis(5_000)))));
    let publish = r#""kind":"publish","step":"p","topic":"a.b","data":{"x": 1},"id":"p-1","subject":"order 7""#;
    let (id, subject) = (Some("p-1".to_owned()), Some("order 7".to_owned()));
    let data = Payload::from_json(r#"{"x": 1}"#).unwrap();
    assert_eq!(read(publish), Ok(Report::Published { step: "p".into(), topic: "a.b".to_owned(), data, id, subject }));
    let Ok(Report::Published { data, id, .. }) = read(r#""kind":"publish","step":"p","topic":"a""#) else { panic!() };
    assert_eq!((data, id), (Payload::null(), None));
    let call = r#""kind":"call","step":"c","workflow":"child","version":2,"input":[1],"timeoutMs":5"#;
    let Ok(Report::Called { workflow, version, input, timeout_ms, .. }) = read(call) else { panic!() };
    assert_eq!((workflow.as_str(), version, input.json(), timeout_ms), ("child", Some(2), "[1]", Some(5)));
    assert_eq!(read(r#""kind":"returned""#), Ok(Report::returned(Payload::null())));
    let Ok(Report::Threw { step, .. }) = read(r#""kind":"threw","error":{"message":"x"},"step":"a""#) else { panic!() };
    assert_eq!(step, Some("a".into()));
    let returned = read(r#""kind":"returned","output":1,"unawaited":["a","b\u00e4"]"#);
    let unawaited = vec!["a".into(), "bä".into()];
    assert_eq!(returned, Ok(Report::Returned { output: Payload::from_json("1").unwrap(), unawaited }));
    let threw = r#""kind":"threw","error":{"message":"x","stack":"Error: x\n    at run"},"unawaited":["a"]"#;
    let Ok(Report::Threw { stack, unawaited, .. }) = read(threw) else { panic!() };
    assert_eq!((stack.as_deref(), unawaited), (Some("Error: x\n    at run"), vec!["a".into()]));
    assert_eq!(read(r#""kind":"blocked","seq":9"#), Ok(Report::Blocked { seq: 9 }));
    assert!(matches!(read(r#""kind":"diverged","error":{"message":"x"}"#), Ok(Report::Diverged { .. })));
    assert!(matches!(read(r#""kind":"declined","error":{"message":"x"}"#), Ok(Report::Declined { .. })));
}

#[test]
fn what_is_wrong_with_a_report_is_said_of_it_alone() {
    let long = format!(r#""kind":"sleep","step":"{}","forMs":1"#, "x".repeat(257));
    let wrong = [
        (r#""kind":"finished""#, "unknown variant"),
        (r#""kind":"returned","result":1"#, "unknown field"),
        (r#""kind":"returned","step":"a""#, "has no step"),
        (r#""kind":"blocked","seq":1,"unawaited":[]"#, "has no unawaited"),
        (r#""kind":"returned","unawaited":[""]"#, "unawaited: a step is empty"),
        (
            r#""kind":"returned","unawaited":["","","","","","","","","","","","","","","","","","","","",""]"#,
            "unawaited names 21 steps; the limit is 20",
        ),
        (r#""kind":"blocked","seq":1,"output":2"#, "has no output"),
        (r#""kind":"completed","attempt":1"#, "step is missing"),
        (r#""kind":"completed","step":"","attempt":1"#, "step is empty"),
        (r#""kind":"completed","step":"a\u0000","attempt":1"#, "NUL"),
        (r#""kind":"completed","step":"a","attempt":0"#, "count from 1"),
        (r#""kind":"completed","step":"a","attempt":1,"tookMs":-1"#, "tookMs"),
        (&long, "257 bytes"),
        (r#""kind":"wait","step":"a","since":"start""#, "since needs event"),
        (r#""kind":"wait","step":"a","event":"e","since":"yesterday""#, "unknown variant"),
        (r#""kind":"wait","step":"a","event":"e","since":{"atMs":-1}"#, "before 1970"),
        (r#""kind":"wait","step":"a","event":"e","since":{"agoMs":99999999999999}"#, "looks back at most"),
        (r#""kind":"wait","step":"a","event":"everstep.runs""#, "reserved"),
        (r#""kind":"sleep","step":"a","forMs":1,"since":"start""#, "has no since"),
        (r#""kind":"publish","step":"a""#, "topic is missing"),
        (r#""kind":"publish","topic":"a""#, "step is missing"),
        (r#""kind":"returned","topic":"a""#, "has no topic"),
        (r#""kind":"returned","data":1"#, "has no data"),
        (r#""kind":"sleep","step":"a""#, "either forMs or untilMs"),
        (r#""kind":"sleep","step":"a","forMs":1,"untilMs":1"#, "either forMs or untilMs"),
        (r#""kind":"sleep","step":"a","forMs":9007199254740991"#, "36525 days"),
        (r#""kind":"sleep","step":"a","untilMs":-1"#, "before 1970"),
        (r#""kind":"wait","step":"a","match":[1]"#, "match is not an object"),
        (r#""kind":"wait","step":"a","event":"""#, "event has 1 to"),
        (r#""kind":"wait","step":"a","timeoutMs":9007199254740991"#, "36525 days"),
        (r#""kind":"call","step":"a","workflow":"No""#, "not a valid name"),
        (r#""kind":"call","step":"a","workflow":"a","version":0"#, "versions are from 1"),
        (r#""kind":"failed","step":"a","attempt":1"#, "error is missing"),
        (r#""kind":"failed","step":"a","attempt":1,"error":{}"#, "missing field `message`"),
        (r#""kind":"threw","error":{"message":"x","cause":1}"#, "unknown field `cause`"),
    ];
    for (fields, why) in wrong {
        let error = read(fields).unwrap_err();
        assert!(error.contains(why), "{fields}: {error}");
    }
    let retries = [
        (r#"{"attempts":0}"#, "1 to 1000"),
        (r#"{"attempts":1001}"#, "1 to 1000"),
        (r#"{"backoff":{"kind":"never"}}"#, "fixed, linear or exp"),
        (r#"{"backoff":{"baseMs":2,"maxMs":1}}"#, "at most maxMs"),
        (r#"{"backoff":{"jitter":1.1}}"#, "from 0 to 1"),
    ];
    for (retry, why) in retries {
        let fields = format!(r#""kind":"failed","step":"a","attempt":1,"error":{{"message":"x"}},"retry":{retry}"#);
        let error = read(&fields).unwrap_err();
        assert!(error.contains(why), "{retry}: {error}");
    }
}

#[test]
fn half_an_emoji_in_an_error_or_a_log_line_is_replaced() {
    let failed = r#""kind":"failed","step":"a","attempt":1,"logs":["a \ud83d"],
        "error":{"code":"C\ud83d","message":"cut \ud83d","stack":"at \ude00"}"#;
    let Ok(Report::Failed { failure, logs, .. }) = read(failed) else { panic!() };
    assert_eq!((failure.code.as_str(), failure.message.as_str()), ("C\u{fffd}", "cut \u{fffd}"));
    assert_eq!(logs, ["a \u{fffd}", "at \u{fffd}"]);
    for kind in ["threw", "diverged", "declined"] {
        read(&format!(r#""kind":"{kind}","error":{{"message":"\ud83d"}}"#)).unwrap();
    }
    // A name is not truncated.
    for name in [r#""step":"\ud83d","#, r#""step":"a","event":"\ud83d","#] {
        read(&format!(r#"{name}"kind":"wait""#)).unwrap_err();
    }
}

#[test]
fn a_report_that_cannot_be_answered_spoils_its_message() {
    for text in ["{}", "[]", "1", r#"{"n":-1}"#] {
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        assert!(Reports::decode_each(vec![&raw]).is_err(), "{text}");
    }
    let raw = RawValue::from_string(r#"{"n":1}"#.to_owned()).unwrap();
    assert_eq!(Reports::decode_each(vec![&raw; REPORTS_MAX]).unwrap().refused.len(), REPORTS_MAX);
    assert!(Reports::decode_each(vec![&raw; REPORTS_MAX + 1]).is_err());
}

#[test]
fn a_run_that_is_refused_something_is_not_blocked_and_others_are() {
    let other = RUN.replace("0001", "0002");
    let text = format!(
        r#"[{{"n":1,"run":"{RUN}","turn":1,"kind":"wait","step":""}},
            {{"n":2,"run":"{other}","turn":1,"kind":"wait","step":"go"}},
            {{"n":3,"run":"{RUN}","turn":1,"kind":"blocked","seq":5}},
            {{"n":4,"run":"{other}","turn":1,"kind":"blocked","seq":5}}]"#
    );
    let unreadable = text.replace(r#""kind":"wait","step":"""#, r#""kind":"weight""#);
    for text in [text, unreadable] {
        let reports = Reports::decode_each(serde_json::from_str(&text).unwrap()).unwrap();
        let blocked = |reported: &WorkerReport| match reported.report {
            Report::Blocked { seq } => Some((reported.n, seq)),
            _ => None,
        };
        assert_eq!(reports.accepted.iter().filter_map(blocked).collect::<Vec<_>>(), [(3, 0), (4, 5)]);
        assert_eq!(reports.refused.len(), 1);
    }
}
