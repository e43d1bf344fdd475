//! What we promise about figures, and whether they hold it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

use super::figure::Figure;

/// Promises by their names.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Budgets(BTreeMap<String, Budget>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Budget {
    case: String,
    metric: String,
    /// The only database that the promise is made for; all of them when none is named.
    store: Option<String>,
    comparison: Comparison,
    limit: f64,
    /// What the promise means, for whoever reads that it is broken.
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

/// How a figure stands to its budget.
#[derive(Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) is_held: bool,
    pub(super) text: String,
}

impl Budgets {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is not a file of budgets", path.display()))
    }

    /// Compares every budget with its figures. A budget without a figure is an error: nothing was promised in vain.
    pub(super) fn check(&self, figures: &[Figure]) -> anyhow::Result<Vec<Verdict>> {
        let mut verdicts = Vec::new();
        for (name, budget) in &self.0 {
            if !figures.iter().any(|figure| budget.is_for(&figure.store)) {
                continue;
            }
            let measured: Vec<_> = figures.iter().filter(|figure| budget.is_about(figure)).collect();
            anyhow::ensure!(
                !measured.is_empty(),
                "budget {name} is about {} of case {}, which was not measured; name it as well, or correct the budget",
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
        figure.case == self.case && figure.metric == self.metric && self.is_for(&figure.store)
    }

    fn judge(&self, name: &str, figure: &Figure) -> Verdict {
        let Figure { value, unit, .. } = figure;
        let (is_held, sign) = match self.comparison {
            Comparison::AtLeast => (*value >= self.limit, ">="),
            Comparison::AtMost => (*value <= self.limit, "<="),
            Comparison::Below => (*value < self.limit, "<"),
        };
        let word = if is_held { "held" } else { "missed" };
        let text = format!("{word}: {name}: {value} {unit}, budget {sign} {} ({})", self.limit, self.comment);
        Verdict { is_held, text }
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
            let figures = Figures::of("idle", "sqlite", 0).with("rss", value, "MB").list();
            budgets(BUDGETS).check(&figures).unwrap().remove(0).is_held
        };
        assert!(check(59.9));
        assert!(!check(60.0));
    }

    #[test]
    fn a_budget_of_another_database_is_none() {
        let figures = Figures::of("idle", "sqlite", 0).with("cpu", 0.1, "%").list();
        let other = format!("{BUDGETS}\n        store = \"postgres\"");
        assert_eq!(budgets(&other).check(&figures).unwrap(), []);
    }

    #[test]
    fn a_budget_that_was_not_measured_is_an_error() {
        let figures = Figures::of("idle", "sqlite", 0).with("cpu", 0.1, "%").list();
        assert!(budgets(BUDGETS).check(&figures).is_err());
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
