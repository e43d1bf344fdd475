//! Names that become labels. Their number is bounded; the rest is called `other`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The label of names beyond the bound.
pub(super) const OTHER: &str = "other";

/// Values by their label. Labels beyond `most` share one value.
pub(super) struct Labels<T> {
    most: usize,
    values: RwLock<HashMap<String, Arc<T>>>,
}

impl<T> Labels<T> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, values: RwLock::default() }
    }

    /// The value of a label; `make` receives the effective label.
    pub(super) fn get(&self, label: &str, make: impl FnOnce(&str) -> T) -> Arc<T> {
        if let Some(value) = self.values.read().unwrap_or_else(PoisonError::into_inner).get(label) {
            return Arc::clone(value);
        }
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        let label = if values.len() < self.most || values.contains_key(label) { label } else { OTHER };
        Arc::clone(values.entry(label.to_owned()).or_insert_with_key(|label| Arc::new(make(label))))
    }

    /// All values.
    pub(super) fn all(&self) -> Vec<Arc<T>> {
        self.values.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_bounded_and_the_rest_is_one() {
        let labels = Labels::new(2);
        let name = |label: &str| labels.get(label, str::to_owned).to_string();
        assert_eq!([name("a"), name("b"), name("c"), name("d"), name("a")], ["a", "b", OTHER, OTHER, "a"]);
    }
}
