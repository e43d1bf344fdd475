//! The console's model of a run against the story: both have the same statuses after every entry of many journals.
//!
//! The simulator and the examples make the journals. Their heads, with the statuses of the story after each of them, are written to a
//! file; `console/e2e/journals.check.ts` applies the heads to the model and compares.

mod examples;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use everstep_core::run::State;
use everstep_core::status::Status;
use everstep_core::story::{StepStory, Story};
use everstep_core::workflow::Workflow;
use everstep_engine::{HeadFold, JournalEntry};
use everstep_testkit::sim::{self, Options, PlayedJournal};
use serde_json::{Value, json};

use super::Head;

/// The seeds decide the styles: all combinations are among them, on one node and on several.
const SEEDS: u64 = 64;
const JOURNALS_MIN: usize = 200;

#[test]
fn the_model_of_the_console_has_the_statuses_of_the_story() {
    let (mut lines, mut seen) = (Vec::new(), BTreeMap::<Status, usize>::new());
    for seed in 0..SEEDS {
        let journals = sim::play_journals(seed, &Options::default()).unwrap_or_else(|failure| panic!("{failure}"));
        for journal in &journals {
            lines.push(render(&format!("seed {seed}"), journal, &mut seen).to_string());
        }
    }
    assert!(lines.len() >= JOURNALS_MIN, "{} journals", lines.len());
    for journal in &tokio::runtime::Runtime::new().unwrap().block_on(examples::play()) {
        lines.push(render("example", journal, &mut seen).to_string());
    }
    for status in Status::ALL.iter().filter(|status| **status != Status::Pending) {
        assert!(seen.contains_key(status), "no journal has an entry after which its run is {status}: {seen:?}");
    }
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("journals.jsonl");
    std::fs::write(&file, lines.join("\n")).unwrap();
    compare(&file);
}

/// The heads of a journal, and after each of them the status of the run and the steps that have changed.
fn render(source: &str, played: &PlayedJournal, seen: &mut BTreeMap<Status, usize>) -> Value {
    let PlayedJournal { run, workflow, copied, entries } = played;
    // The heads are read as the route `journal` does, the steps as the route `steps` does.
    let (mut fold, mut story) = (HeadFold::new(Some(workflow)), Story::page(Some(workflow)));
    let mut state = State::new(*run, workflow);
    let (mut heads, mut after, mut known) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (index, stored) in entries.iter().enumerate() {
        let journal = JournalEntry::decode(stored.clone());
        heads.push(json!(Head::from_journal(&journal, fold.apply(&journal))));
        let entry = journal.entry.as_ref().expect("this build has written the entry");
        story.apply(entry);
        state.apply(workflow, entry).expect("the engine has folded the journal");
        let ends_item = entries.get(index + 1).is_none_or(|next| next.commit.is_some());
        // The open children of a fork's original are not the fork's own.
        if ends_item && entry.seq > *copied {
            check_state(workflow, &story, &state);
        }
        let steps: BTreeMap<_, _> = story.steps().map(|step| (step.key.to_string(), describe(step))).collect();
        let changed: BTreeMap<_, _> = steps.iter().filter(|(key, text)| known.get(*key) != Some(*text)).collect();
        *seen.entry(story.status()).or_default() += 1;
        after.push(json!({"status": story.status().as_str(), "steps": changed}));
        known = steps;
    }
    json!({"name": format!("{source}, run {run} of {}", workflow.name), "heads": heads, "after": after})
}

/// The status of a step, and those of its attempts.
fn describe(step: &StepStory) -> String {
    let mut text = step.status.as_str().to_owned();
    for attempt in &step.attempts {
        write!(text, " {}:{}", attempt.attempt, attempt.status.as_str()).expect("a text takes every letter");
    }
    text
}

/// At the end of an item the story has the status of the state, unless a loop has given up steps that are open in the
/// story.
fn check_state(workflow: &Workflow, story: &Story, state: &State) {
    let has_given_up = story.steps().any(|step| step.is_open() && state.step_status(workflow, &step.key).is_none());
    let (shown, exact) = (story.status(), state.status());
    assert!(shown == exact || has_given_up, "{} is {exact} after entry {}, not {shown}", state.run, state.seq);
}

fn compare(journals: &Path) {
    let console = console();
    install(&console);
    let mut command = Command::new("node");
    command.args(["node_modules/vitest/vitest.mjs", "run", "--config", "e2e/journals.config.ts"]);
    let output = command.env("EVERSTEP_JOURNALS", journals).current_dir(console).output();
    let output = output.unwrap_or_else(|error| panic!("node cannot be started ({error}): install Node.js 20 or later"));
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

fn console() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console").canonicalize().unwrap()
}

/// Installs the packages of the console, unless they are installed. `make test` has installed them before.
fn install(console: &Path) {
    if console.join("node_modules/vitest").is_dir() {
        return;
    }
    let output = Command::new("npm").args(["ci", "--silent"]).current_dir(console).output();
    let output = output.unwrap_or_else(|error| panic!("npm cannot be started ({error}): install Node.js 20 or later"));
    assert!(output.status.success(), "`npm ci` in console has failed: {}", String::from_utf8_lossy(&output.stderr));
}
