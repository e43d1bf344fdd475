//! Figures of runs over time.

use std::time::Duration;

use everstep_core::time::Timestamp;

/// The number of buckets of durations.
pub const DURATION_BUCKETS: usize = 24;
const MINUTE_MICROS: i64 = 60_000_000;
/// Each bucket is longer than the one before by this factor: the first ends at a millisecond, the last at seven days.
const BUCKET_FACTOR: f64 = 2.409_4;

/// The runs of a workflow that started and ended in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunStats {
    pub started: i64,
    pub completed: i64,
    pub failed: i64,
    pub cancelled: i64,
    /// The durations of runs that completed or failed, counted by bucket.
    pub durations: [i64; DURATION_BUCKETS],
}

/// The figures of one minute of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinuteStats {
    pub workflow: String,
    /// Minutes since 1970.
    pub minute: i64,
    pub stats: RunStats,
}

/// Which figures are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsQuery {
    /// The first minute.
    pub since: i64,
    /// The minute after the last one.
    pub until: i64,
    /// The length of a period in minutes.
    pub every: i64,
    /// Of all workflows, or of one.
    pub workflow: Option<String>,
}

/// The minute of a time.
pub fn minute_of(time: Timestamp) -> i64 {
    time.micros().div_euclid(MINUTE_MICROS)
}

impl RunStats {
    /// Counts the duration of a run.
    pub fn count_duration(&mut self, duration: Duration) {
        self.durations[bucket_of(duration)] += 1;
    }

    pub fn add(&mut self, other: &Self) {
        self.started += other.started;
        self.completed += other.completed;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        for (sum, count) in self.durations.iter_mut().zip(other.durations) {
            *sum += count;
        }
    }

    /// The duration that a part of the runs did not exceed, in milliseconds, interpolated within its bucket. None
    /// without runs.
    pub fn percentile(&self, part: f64) -> Option<f64> {
        let total: i64 = self.durations.iter().sum();
        let wanted = part * total as f64;
        let mut before = 0;
        for (bucket, count) in self.durations.iter().enumerate() {
            if *count > 0 && (before + count) as f64 >= wanted {
                let (begin, end) = (if bucket == 0 { 0.0 } else { bucket_end(bucket - 1) }, bucket_end(bucket));
                let within = ((wanted - before as f64) / *count as f64).clamp(0.0, 1.0);
                return Some(begin + (end - begin) * within);
            }
            before += count;
        }
        None
    }
}

/// The upper end of a bucket in milliseconds.
fn bucket_end(bucket: usize) -> f64 {
    BUCKET_FACTOR.powi(i32::try_from(bucket).unwrap_or(i32::MAX))
}

/// The bucket of a duration. The last one contains all longer durations.
fn bucket_of(duration: Duration) -> usize {
    let millis = duration.as_secs_f64() * 1_000.0;
    (0..DURATION_BUCKETS).find(|bucket| millis <= bucket_end(*bucket)).unwrap_or(DURATION_BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_reach_from_a_millisecond_to_a_week() {
        assert_eq!(bucket_of(Duration::ZERO), 0);
        assert_eq!(bucket_of(Duration::from_millis(1)), 0);
        assert_eq!(bucket_of(Duration::from_millis(2)), 1);
        let week = Duration::from_secs(7 * 86_400);
        assert_eq!((bucket_of(week), bucket_of(week * 100)), (DURATION_BUCKETS - 1, DURATION_BUCKETS - 1));
        assert!((0.99..1.01).contains(&(bucket_end(DURATION_BUCKETS - 1) / week.as_secs_f64() / 1_000.0)));
    }

    #[test]
    fn percentiles_are_near_the_durations() {
        let mut stats = RunStats::default();
        assert_eq!(stats.percentile(0.5), None);
        for millis in 1..=1_000 {
            stats.count_duration(Duration::from_millis(millis));
        }
        let (half, most) = (stats.percentile(0.5).unwrap_or(0.0), stats.percentile(0.95).unwrap_or(0.0));
        assert!((420.0..580.0).contains(&half) && (850.0..1_150.0).contains(&most), "{half} {most}");
        let mut one = RunStats::default();
        one.count_duration(Duration::from_millis(100));
        let only = one.percentile(0.5).unwrap_or(0.0);
        assert!((80.0..196.0).contains(&only), "{only}");
    }

    #[test]
    fn a_minute_begins_at_its_first_microsecond() {
        assert_eq!(minute_of(Timestamp::from_millis(59_999)), 0);
        assert_eq!(minute_of(Timestamp::from_millis(60_000)), 1);
    }
}
