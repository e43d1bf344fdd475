//! Runs that wait for events.

use std::time::{Duration, Instant};

use anyhow::Context;
use everstep_core::ids::RunId;
use everstep_engine::Start;
use futures_util::future;
use serde_json::{Map, Value, json};

use super::stage::{Reached, Stage, TOPIC};

/// The number of different shapes of matches at most.
pub(super) const SHAPES_MAX: usize = 64;
/// Runs that are started at the same time.
const STARTS_IN_FLIGHT: usize = 256;
/// A number that no run waits for.
const NO_WAIT: i64 = -1;

/// A publish, measured from its request.
pub(super) struct Published {
    /// Until the publisher has the answer.
    pub(super) answered: Duration,
    /// Until the wait is resolved.
    pub(super) resolved: Duration,
}

/// The workflows whose runs wait for events: one for each shape of a match.
pub(super) fn workflows(shapes: usize) -> Vec<(String, Value)> {
    (0..shapes).map(|shape| (name(shape), definition(shape))).collect()
}

fn name(shape: usize) -> String {
    format!("waits-{shape}")
}

fn field(shape: usize) -> String {
    format!("field{shape}")
}

fn definition(shape: usize) -> Value {
    let pattern: Map<_, _> = [(field(shape), json!("{{ctx.input.n}}"))].into_iter().collect();
    json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "wait", "type": "wait", "config": {"event": TOPIC, "match": pattern}},
            {"id": "end", "type": "end"},
        ],
        "edges": [{"source": "start", "target": "wait"}, {"source": "wait", "target": "end"}],
    })
}

/// The data of an event that resolves the waits of one shape for one number. It has the fields of all shapes, so that
/// every event costs the same to read.
fn data(shape: usize, n: usize) -> Value {
    let mut fields: Map<_, _> = (0..SHAPES_MAX).map(|shape| (field(shape), json!(NO_WAIT))).collect();
    fields.insert(field(shape), json!(n));
    fields.into()
}

/// Opens waits. The number of each is given by its place, the shapes take turns; the runs wait in the database.
pub(super) async fn open(
    stage: &mut Stage,
    count: usize,
    shapes: usize,
    number: impl Fn(usize) -> usize,
) -> anyhow::Result<Vec<RunId>> {
    let mut runs = Vec::with_capacity(count);
    let places: Vec<usize> = (0..count).collect();
    for chunk in places.chunks(STARTS_IN_FLIGHT) {
        let starts = chunk
            .iter()
            .map(|place| stage.engine.start_run(Start::new(name(place % shapes), json!({"n": number(*place)}))));
        for started in future::join_all(starts).await {
            runs.push(started.context("opening a wait")?.run);
        }
    }
    stage.forget();
    Ok(runs)
}

/// Publishes an event for the wait at a place.
pub(super) async fn resolve(
    stage: &mut Stage,
    runs: &[RunId],
    place: usize,
    shapes: usize,
) -> anyhow::Result<Published> {
    let began = Instant::now();
    stage.publish(data(place % shapes, place)).await?;
    let answered = began.elapsed();
    let last = stage.reach(1, |reached| reached == Reached::Resolved(runs[place])).await?;
    Ok(Published { answered, resolved: last.duration_since(began) })
}

/// Publishes an event for all waits of one number of the first shape.
pub(super) async fn resolve_all(stage: &mut Stage, count: usize, n: usize) -> anyhow::Result<Duration> {
    let began = Instant::now();
    stage.publish(data(0, n)).await?;
    let last = stage.reach(count, |reached| matches!(reached, Reached::Resolved(_))).await?;
    Ok(last.duration_since(began))
}

/// Publishes events for waits that are spread over all of them, one after the other. The first are a warm-up.
pub(super) async fn resolve_some(
    stage: &mut Stage,
    runs: &[RunId],
    places: &[usize],
    shapes: usize,
    warm_up: usize,
) -> anyhow::Result<Vec<Published>> {
    let mut published = Vec::with_capacity(places.len());
    for place in places {
        published.push(resolve(stage, runs, *place, shapes).await?);
    }
    Ok(published.split_off(warm_up.min(published.len())))
}
