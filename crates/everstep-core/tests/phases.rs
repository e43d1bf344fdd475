//! The phase of a run changes as the table of statuses allows, in every style; any other entry is a misfit.

use everstep_core::failure::Failure;
use everstep_core::ids::RunId;
use everstep_core::journal::{Entry, Event};
use everstep_core::payload::Payload;
use everstep_core::run::State;
use everstep_core::status::Status;

use super::support::{Game, code, compile, definition};

const STARTED: &str = "started";
const PAUSED: &str = "paused";
const RESUMED: &str = "resumed";
const RETRIED: &str = "retried";
const COMPLETED: &str = "completed";
const FAILED: &str = "failed";
const CANCELLED: &str = "cancelled";
const ALL: [&str; 7] = [STARTED, PAUSED, RESUMED, RETRIED, COMPLETED, FAILED, CANCELLED];

/// Events that may follow a journal, and the statuses that they lead to.
type Allowed = &'static [(&'static str, Status)];

/// The journals that lead to each phase, with the events that may follow them and the statuses that these lead to.
const PHASES: &[(&[&str], Allowed)] = &[
    (
        &[],
        &[
            (STARTED, Status::Running),
            (PAUSED, Status::Paused),
            (COMPLETED, Status::Completed),
            (FAILED, Status::Failed),
            (CANCELLED, Status::Cancelled),
        ],
    ),
    (
        &[STARTED],
        &[
            (PAUSED, Status::Paused),
            (COMPLETED, Status::Completed),
            (FAILED, Status::Failed),
            (CANCELLED, Status::Cancelled),
        ],
    ),
    (&[STARTED, PAUSED], &[(RESUMED, Status::Running), (FAILED, Status::Failed), (CANCELLED, Status::Cancelled)]),
    (&[STARTED, COMPLETED], &[]),
    (&[STARTED, FAILED], &[(RETRIED, Status::Running)]),
    (&[STARTED, CANCELLED], &[]),
];

fn event(name: &str) -> Event {
    let failure = || Failure::fatal("NO", "no luck");
    match name {
        STARTED => Event::RunStarted { input: Payload::null(), cause: None, definition: None },
        PAUSED => Event::RunPaused { reason: Some(failure()) },
        RESUMED => Event::RunResumed,
        RETRIED => Event::RunRetried,
        COMPLETED => Event::run_completed(Payload::null()),
        FAILED => Event::run_failed(failure(), None),
        CANCELLED => Event::RunCancelled { reason: None },
        _ => panic!("no event is called {name:?}"),
    }
}

fn journal(names: &[&str]) -> Vec<Entry> {
    let entry = |(index, name): (usize, &&str)| Entry::new(index as u64 + 1, Game::BEGIN, event(name));
    names.iter().enumerate().map(entry).collect()
}

#[test]
fn a_phase_follows_another_only_as_the_table_allows() {
    let run = RunId::new(Game::BEGIN, 7);
    for workflow in [compile(&definition("start -> a -> end")).unwrap(), code()] {
        for (before, allowed) in PHASES {
            State::fold(run, &workflow, &journal(before)).unwrap();
            for name in ALL {
                let folded = State::fold(run, &workflow, &journal(&[*before, &[name]].concat()));
                let expected = allowed.iter().find(|(allowed, _)| *allowed == name).map(|(_, status)| *status);
                assert_eq!(folded.ok().map(|state| state.status()), expected, "{name} after {before:?}");
            }
        }
    }
}

#[test]
fn a_phase_has_its_own_data() {
    let run = RunId::new(Game::BEGIN, 7);
    let workflow = code();
    let state = |names: &[&str]| State::fold(run, &workflow, &journal(names)).unwrap();
    let paused = state(&[STARTED, PAUSED]);
    assert_eq!((paused.paused_at(), paused.failure().is_some()), (Some(Game::BEGIN), true));
    let resumed = state(&[STARTED, PAUSED, RESUMED]);
    assert_eq!((resumed.paused_at(), resumed.failure()), (None, None));
    let cancelled = state(&[STARTED, PAUSED, CANCELLED]);
    assert_eq!((cancelled.paused_at(), cancelled.failure().is_some()), (None, true));
    let completed = state(&[STARTED, COMPLETED]);
    assert_eq!((completed.output(), completed.failure()), (Some(&Payload::null()), None));
    assert_eq!(state(&[STARTED, FAILED, RETRIED]).failure(), None);
}

#[test]
fn a_snapshot_is_read_only_with_a_workflow_of_its_style() {
    let graph = compile(&definition("start -> a -> end")).unwrap();
    let run = RunId::new(Game::BEGIN, 7);
    let snapshot = serde_json::to_vec(&State::fold(run, &graph, &journal(&[STARTED])).unwrap()).unwrap();
    assert!(State::from_snapshot(&graph, &snapshot).is_ok());
    assert!(State::from_snapshot(&code(), &snapshot).is_err());
}
