//! Durations that were observed, and their percentiles.

use std::fmt;
use std::time::Duration;

/// The durations of one kind of request, in ascending order.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<Duration>);

impl Samples {
    pub fn new(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        Self(durations)
    }

    pub fn p50(&self) -> Duration {
        self.percentile(50)
    }

    pub fn p99(&self) -> Duration {
        self.percentile(99)
    }

    pub fn max(&self) -> Duration {
        self.percentile(100)
    }

    /// By the nearest rank: the smallest duration that is not exceeded by this percentage of all.
    fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// The p50, the p99 and the maximum.
impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, max] = [self.p50(), self.p99(), self.max()].map(|time| time.as_secs_f64() * 1_000.0);
        write!(f, "{p50:.0}/{p99:.0}/{max:.0} ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let samples = Samples::new((1..=200).rev().map(Duration::from_millis).collect());
        assert_eq!([samples.p50(), samples.p99(), samples.max()], [100, 198, 200].map(Duration::from_millis));
        assert_eq!(Samples::new(vec![Duration::from_secs(1)]).p99(), Duration::from_secs(1));
        assert_eq!(Samples::default().max(), Duration::ZERO);
    }
}
