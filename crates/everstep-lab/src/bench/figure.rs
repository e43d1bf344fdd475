//! The results of measurements.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One number of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figure {
    pub(super) case: String,
    pub(super) store: String,
    pub(super) in_flight: usize,
    pub(super) metric: String,
    pub(super) value: f64,
    pub(super) unit: String,
}

/// The figures of one case with one number of runs in flight.
pub(super) struct Figures {
    case: String,
    store: &'static str,
    in_flight: usize,
    figures: Vec<Figure>,
}

impl Figures {
    pub(super) fn new(case: impl Into<String>, store: &'static str, in_flight: usize) -> Self {
        Self { case: case.into(), store, in_flight, figures: Vec::new() }
    }

    #[must_use]
    pub(super) fn with(mut self, metric: &str, value: f64, unit: &str) -> Self {
        self.figures.push(Figure {
            case: self.case.clone(),
            store: self.store.to_owned(),
            in_flight: self.in_flight,
            metric: metric.to_owned(),
            // Further digits are noise.
            value: (value * 1_000.0).round() / 1_000.0,
            unit: unit.to_owned(),
        });
        self
    }

    /// The median and a high percentile of some durations.
    #[must_use]
    pub(super) fn with_times(self, name: &str, times: &mut [Duration]) -> Self {
        let (p50, p99) = (millis(quantile(times, 0.5)), millis(quantile(times, 0.99)));
        self.with(&format!("{name}P50"), p50, "ms").with(&format!("{name}P99"), p99, "ms")
    }

    pub(super) fn list(self) -> Vec<Figure> {
        self.figures
    }
}

pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// The duration below which a part of all durations is; zero if there are none.
pub(super) fn quantile(times: &mut [Duration], part: f64) -> Duration {
    times.sort_unstable();
    let place = ((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1));
    times.get(place).copied().unwrap_or_default()
}

/// The median of some samples; of an even number the upper one of the two in the middle.
pub(super) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(vec![9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(Vec::new()), 0.0);
    }

    #[test]
    fn quantiles_stay_within_the_times() {
        let mut times: Vec<_> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(quantile(&mut times, 0.5), Duration::from_millis(51));
        assert_eq!(quantile(&mut times, 0.99), Duration::from_millis(100));
        assert_eq!(quantile(&mut [], 0.5), Duration::ZERO);
    }
}
