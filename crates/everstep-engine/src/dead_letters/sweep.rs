//! Deletes dead letters that are no longer kept.

use std::time::Duration;

use everstep_core::time::Timestamp;
use everstep_store::{DeadLetterRetention, Result};

use crate::ports::World;

/// The number of days for which delivered and discarded ones are kept.
const SETTLED_DAYS: u32 = 7;

/// Deletes dead letters whose retention has passed, also if their run is gone.
pub(crate) async fn delete_old_letters(world: &World, dead_days: u32, batch: usize) -> Result<usize> {
    let now = world.clock.now();
    let before = |days: u32| {
        let kept = Duration::from_secs(u64::from(days) * 86_400);
        Timestamp::from_micros(now.micros().saturating_sub(i64::try_from(kept.as_micros()).unwrap_or(i64::MAX)))
    };
    let retention = DeadLetterRetention { dead_before: before(dead_days), settled_before: before(SETTLED_DAYS) };
    world.dead_letters.store().sweep_letters(retention, batch).await
}
