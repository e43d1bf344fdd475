//! The engine on a real SQLite file, with real handlers and the machine's clock.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use everstep_core::status::Status;
use everstep_engine::{Engine, NewStart, Options, SystemClock, SystemRandom, TokioSpawn, World};
use everstep_expressions::Expressions;
use everstep_handlers::Registry;
use everstep_sandbox::Sandbox;
use everstep_store::sqlite::SqliteStore;
use serde_json::json;

async fn engine(folder: &Path) -> Engine {
    let store = SqliteStore::open(folder, &Default::default()).unwrap();
    let world = World {
        store: Arc::new(store),
        clock: Arc::new(SystemClock::default()),
        spawn: Arc::new(TokioSpawn::current()),
        random: Arc::new(SystemRandom::default()),
        evaluate: Arc::new(Expressions::default()),
        handlers: Arc::new(Registry::standard(Sandbox::new(1))),
    };
    Engine::start(world, Options::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_from_start_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let definition = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "double", "type": "javascript", "config": {"code": "return ctx.input.n * 2"}},
            {"id": "end", "type": "end", "config": {"outputParameters": [{"name": "n", "sourceVariable": "{{ctx.jsResult}}"}]}},
        ],
        "edges": [{"source": "start", "target": "double"}, {"source": "double", "target": "end"}],
    });
    let version = engine.library().publish(WorkspaceId::DEFAULT, "double", &definition).await.unwrap().unwrap();
    assert_eq!(version, 1);
    let started = engine.start_run(NewStart::new("double", json!({"n": 21}))).await.unwrap();
    assert!(started.created);
    let row = engine.wait(WorkspaceId::DEFAULT, started.run).await.unwrap();
    assert_eq!(row.status, Status::Completed);
    assert_eq!(row.output.unwrap().value(), &json!({"n": 42}));
    engine.stop(Duration::from_secs(5)).await.unwrap();
}
