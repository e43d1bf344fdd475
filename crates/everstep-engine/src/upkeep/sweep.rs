//! Deletes runs whose retention is over, in batches.

use std::sync::Arc;

use futures_util::future::{self, Either};
use tokio::sync::Notify;

use crate::options::Options;
use crate::ports::World;

const BATCH: usize = 1_000;

pub(crate) async fn run(world: World, options: Options, stop: Arc<Notify>) {
    loop {
        let stopped = std::pin::pin!(stop.notified());
        let sleep = std::pin::pin!(world.sleep(options.sweep_every));
        if let Either::Right(_) = future::select(sleep, stopped).await {
            return;
        }
        run_once(&world).await;
    }
}

async fn run_once(world: &World) {
    loop {
        match world.runs.sweep(world.clock.now(), BATCH).await {
            Ok(0) => break,
            Ok(runs) => world.observe.swept(runs),
            Err(error) => {
                tracing::warn!(%error, "sweep failed; the next one tries again");
                return;
            }
        }
    }
    if let Err(error) = world.runs.maintain(world.clock.now()).await {
        tracing::warn!(%error, "maintenance failed; the next one tries again");
    }
}
