//! Where a value of a schema may name a secret.

use super::Schema;
use super::rule::{Rule, RuleId};
use super::words::escape;

pub(super) fn places(rules: &[Rule]) -> Vec<String> {
    let mut search = Search { rules, above: Vec::new(), places: Vec::new() };
    search.look_at(Schema::ROOT, "");
    search.places.dedup();
    search.places
}

struct Search<'s> {
    rules: &'s [Rule],
    /// The rules around the present one: a schema may refer to itself.
    above: Vec<RuleId>,
    places: Vec<String>,
}

impl Search<'_> {
    fn look_at(&mut self, id: RuleId, pointer: &str) {
        if self.above.contains(&id) {
            return;
        }
        self.above.push(id);
        let rules = self.rules;
        let rule = &rules[id.index()];
        if rule.is_secret {
            // A value of any type may contain a secret at any depth.
            if rule.types.is_none() && rule.reference.is_none() {
                self.places.push(format!("{pointer}/**"));
            }
            self.places.push(pointer.to_owned());
        }
        if let Some(reference) = rule.reference {
            self.look_at(reference, pointer);
        }
        if let Some(object) = &rule.object {
            for name in &object.names {
                self.look_at(object.properties[name], &format!("{pointer}/{}", escape(name)));
            }
            if let Some(inner) = object.others {
                self.look_at(inner, &format!("{pointer}/*"));
            }
        }
        if let Some(inner) = rule.array.as_ref().and_then(|array| array.items) {
            self.look_at(inner, &format!("{pointer}/*"));
        }
        for inner in [&rule.one, &rule.any, &rule.all].into_iter().flatten() {
            self.look_at(*inner, pointer);
        }
        self.above.pop();
    }
}
