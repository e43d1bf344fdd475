//! Journals of the examples in `examples/shapes`, which an engine plays.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use everstep_engine::{
    DeadLetters, Engine, NoObserver, NoPeers, NodeClock, Options, Records, Start, StartDetail, SystemRng, TokioSpawner,
    World,
};
use everstep_expressions::Expressions;
use everstep_handlers::{Ports, Registry};
use everstep_sandbox::Sandbox;
use everstep_store::sqlite;
use everstep_testkit::sim::PlayedJournal;
use serde_json::{Value, json};

/// More entries than an example has.
const ENTRIES_MAX: usize = 10_000;
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn play() -> Vec<PlayedJournal> {
    let folder = tempfile::tempdir().unwrap();
    let engine = start_engine(folder.path()).await;
    let mut journals = Vec::new();
    for (name, definition) in read_shapes() {
        let published = engine.library().publish(WorkspaceId::DEFAULT, &name, &definition).await;
        assert_eq!(published, Ok(1), "{name}");
        let start = Start { detail: StartDetail::End, ..Start::new(name.as_str(), json!({"n": 4})) };
        let started = engine.start_run(start).await.unwrap();
        let row = started.end.expect("the end was requested").halt().await.unwrap().into_row();
        let workflow = engine.library().of_run(&row).await.unwrap();
        let entries = engine.world().runs.journal(row.id, 0, ENTRIES_MAX).await.unwrap();
        journals.push(PlayedJournal { run: row.id, workflow, copied: 0, entries });
    }
    engine.stop(STOP_TIMEOUT).await.unwrap();
    journals
}

fn read_shapes() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shapes");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut shapes: Vec<_> = files
        .map(|file| {
            let mut shape: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            shape.as_object_mut().unwrap().remove("name");
            (file.file_stem().unwrap().to_str().unwrap().to_owned(), shape)
        })
        .collect();
    shapes.sort_by(|(one, _), (other, _)| one.cmp(other));
    shapes
}

async fn start_engine(folder: &Path) -> Engine {
    let stores = sqlite::open(folder, &Default::default()).unwrap();
    let (clock, random) = (Arc::new(NodeClock::system()), Arc::new(SystemRng::default()));
    let options = Options::default();
    let records = Records::new(stores.records, Arc::clone(&clock), Arc::<SystemRng>::clone(&random), &options);
    let world = World {
        runs: stores.runs,
        workflows: stores.workflows,
        topics: stores.topics,
        dead_letters: DeadLetters::new(stores.dead_letters, None),
        files: stores.files,
        records,
        clock,
        spawn: Arc::new(TokioSpawner::current()),
        random,
        evaluate: Arc::new(Expressions::default()),
        handlers: Arc::new(Registry::standard(Ports { sandbox: Sandbox::new(2), ..Ports::none() })),
        peers: Arc::new(NoPeers),
        observe: Arc::new(NoObserver),
    };
    Engine::start(world, options).await.unwrap()
}
