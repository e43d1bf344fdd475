//! Deletes events that are no longer kept.

use std::time::Duration;

use everstep_core::time::Timestamp;
use everstep_store::Result;

use crate::ports::World;

/// Deletes events that were published before the retention and whose fan-out is done.
pub(crate) async fn delete_old_events(world: &World, retention_days: u32, batch: usize) -> Result<usize> {
    let kept = Duration::from_secs(u64::from(retention_days) * 86_400);
    let now = world.clock.now().micros();
    let before = now.saturating_sub(i64::try_from(kept.as_micros()).unwrap_or(i64::MAX));
    world.topics.sweep_events(Timestamp::from_micros(before), batch).await
}
