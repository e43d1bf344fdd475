//! Promises about figures, and whether they are kept.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use super::cases::Case;
use super::figure::Figure;

/// Budgets by their names.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Budgets(BTreeMap<String, Budget>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Budget {
    case: String,
    metric: String,
    /// The only database of the budget; without it, every database.
    store: Option<String>,
    /// The only number of runs in flight of the budget.
    in_flight: Option<usize>,
    comparison: Comparison,
    /// The limit. A budget has either a limit or a target.
    limit: Option<f64>,
    /// The target; [`TARGET_SHARE_MIN`] of it must be reached.
    target: Option<f64>,
    /// Whether the figure exists only with some options of the command.
    #[serde(default)]
    optional: bool,
    /// The meaning of the budget, for the message about a missed one.
    comment: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Comparison {
    #[serde(rename = ">=")]
    AtLeast,
    #[serde(rename = "<=")]
    AtMost,
    #[serde(rename = "<")]
    Below,
}

/// The part of a target that must be reached, because other machines and busy hours are slower.
const TARGET_SHARE_MIN: f64 = 0.7;

/// A figure compared with its budget.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) is_held: bool,
    pub(super) text: String,
    /// The comparison with a target, if the budget has one.
    pub(super) aim: Option<Aim>,
}

/// A figure beside its target.
#[derive(Debug, PartialEq)]
pub(super) struct Aim {
    pub(super) name: String,
    pub(super) measured: f64,
    pub(super) target: f64,
    pub(super) sign: &'static str,
    pub(super) unit: String,
    /// At least 1 if the target is reached, whichever direction is better.
    pub(super) ratio: f64,
}

impl Budgets {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let budgets: Self =
            toml::from_str(&text).with_context(|| format!("{} is not a file of budgets", path.display()))?;
        for (name, budget) in &budgets.0 {
            Case::find(&budget.case).with_context(|| format!("budget {name}"))?;
            let is_one = budget.limit.is_some() != budget.target.is_some();
            anyhow::ensure!(is_one, "budget {name} needs either a limit or a target");
        }
        Ok(budgets)
    }

    /// Compares the budgets of the measured cases with their figures. A budget of such a case without a figure is an
    /// error.
    pub(super) fn check(&self, cases: &[Case], figures: &[Figure]) -> anyhow::Result<Vec<Verdict>> {
        let mut verdicts = Vec::new();
        for (name, budget) in &self.0 {
            let is_asked = cases.iter().any(|case| case.name() == budget.case);
            if !is_asked || !figures.iter().any(|figure| budget.is_for(&figure.store)) {
                continue;
            }
            let measured: Vec<_> = figures.iter().filter(|figure| budget.is_about(figure)).collect();
            anyhow::ensure!(
                !measured.is_empty() || budget.optional,
                "budget {name} is about {} of case {}, which was not measured; correct the budget",
                budget.metric,
                budget.case,
            );
            verdicts.extend(measured.into_iter().map(|figure| budget.judge(name, figure)));
        }
        Ok(verdicts)
    }
}

impl Budget {
    fn is_for(&self, store: &str) -> bool {
        self.store.as_deref().is_none_or(|only| only == store)
    }

    fn is_about(&self, figure: &Figure) -> bool {
        figure.case == self.case
            && figure.metric == self.metric
            && self.in_flight.is_none_or(|only| only == figure.in_flight)
            && self.is_for(&figure.store)
    }

    /// The value that must be reached.
    fn bound(&self) -> f64 {
        let of_target = || {
            let target = self.target.unwrap_or_default();
            if self.is_at_least() { target * TARGET_SHARE_MIN } else { target / TARGET_SHARE_MIN }
        };
        self.limit.unwrap_or_else(of_target)
    }

    fn is_at_least(&self) -> bool {
        matches!(self.comparison, Comparison::AtLeast)
    }

    fn judge(&self, name: &str, figure: &Figure) -> Verdict {
        let Figure { value, unit, .. } = figure;
        // Printed without the noise of a division.
        let bound = (self.bound() * 1_000.0).round() / 1_000.0;
        let (is_held, sign) = match self.comparison {
            Comparison::AtLeast => (*value >= bound, ">="),
            Comparison::AtMost => (*value <= bound, "<="),
            Comparison::Below => (*value < bound, "<"),
        };
        let word = if is_held { "held" } else { "missed" };
        let text = format!("{word}: {name}: {value} {unit}, budget {sign} {bound} ({})", self.comment);
        let aim = self.target.map(|target| Aim {
            name: name.to_owned(),
            measured: *value,
            target,
            sign,
            unit: unit.clone(),
            ratio: if self.is_at_least() { value / target } else { target / value },
        });
        Verdict { is_held, text, aim }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figure::Figures;

    const BUDGETS: &str = r#"
        [idle-memory]
        case = "idle"
        metric = "rss"
        comparison = "<"
        limit = 60
        comment = "resident memory of an idle engine"
    "#;

    fn budgets(text: &str) -> Budgets {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_figure_at_the_limit_is_not_below_it() {
        let check = |value| {
            let figures = Figures::new("idle", "sqlite", 0).with("rss", value, "MB").list();
            budgets(BUDGETS).check(&[Case::Idle], &figures).unwrap().remove(0).is_held
        };
        assert!(check(59.9));
        assert!(!check(60.0));
    }

    #[test]
    fn a_budget_of_another_database_is_none() {
        let figures = Figures::new("idle", "sqlite", 0).with("cpu", 0.1, "%").list();
        let other = format!("{BUDGETS}\n        store = \"postgres\"");
        assert_eq!(budgets(&other).check(&[Case::Idle], &figures).unwrap(), []);
    }

    #[test]
    fn a_budget_that_was_not_measured_is_an_error() {
        let figures = Figures::new("idle", "sqlite", 0).with("cpu", 0.1, "%").list();
        assert!(budgets(BUDGETS).check(&[Case::Idle], &figures).is_err());
    }

    #[test]
    fn an_optional_figure_need_not_be_measured() {
        let figures = Figures::new("idle", "sqlite", 0).with("cpu", 0.1, "%").list();
        let optional = format!("{BUDGETS}\n        optional = true");
        assert_eq!(budgets(&optional).check(&[Case::Idle], &figures).unwrap(), []);
    }

    #[test]
    fn budgets_of_other_cases_are_left_alone() {
        let figures = Figures::new("latency", "sqlite", 1).with("nodeP50", 0.1, "ms").list();
        assert_eq!(budgets(BUDGETS).check(&[Case::Latency], &figures).unwrap(), []);
    }

    #[test]
    fn seventy_percent_of_a_target_must_be_reached() {
        let check = |comparison: &str, value| {
            let text = BUDGETS.replace("limit = 60", "target = 70").replace("\"<\"", &format!("\"{comparison}\""));
            let figures = Figures::new("idle", "sqlite", 0).with("rss", value, "MB").list();
            let verdict = budgets(&text).check(&[Case::Idle], &figures).unwrap().remove(0);
            (verdict.is_held, verdict.aim.unwrap().ratio >= 1.0)
        };
        assert_eq!([49.0, 48.9, 70.0].map(|value| check(">=", value)), [(true, false), (false, false), (true, true)]);
        assert_eq!([100.0, 100.1, 70.0].map(|value| check("<=", value)), [(true, false), (false, false), (true, true)]);
    }

    #[test]
    fn a_budget_may_be_about_one_number_of_runs_in_flight() {
        let mut figures = Figures::new("idle", "sqlite", 64).with("rss", 1.0, "MB").list();
        figures.extend(Figures::new("idle", "sqlite", 256).with("rss", 99.0, "MB").list());
        let only = format!("{BUDGETS}\n        in-flight = 64");
        let verdicts = budgets(&only).check(&[Case::Idle], &figures).unwrap();
        assert_eq!(verdicts.iter().map(|verdict| verdict.is_held).collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn unknown_keys_are_refused() {
        let text = format!("{BUDGETS}\n        unit = \"MB\"");
        assert!(toml::from_str::<Budgets>(&text).is_err());
    }

    #[test]
    fn the_repository_s_budgets_can_be_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/budgets.toml");
        assert!(!Budgets::read(&path).unwrap().0.is_empty());
    }
}
