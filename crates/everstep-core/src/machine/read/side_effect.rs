//! Reads side effects: the `events`, `entry` and `exit` of a definition.

use serde_json::{Map, Value};

use super::Reader;
use super::values::{STATE_NAME_HINT, is_state_name, is_template};
use crate::definition::{Fields, Problem, insert, name_of, nearest};
use crate::limits;
use crate::machine::model::{SideEffect, SideEffectKind};
use crate::machine::problem_code as code;

const TYPES: &[&str] = &["assign", "auto_action"];

impl Reader<'_> {
    /// Reads a list of side effects, and its canonical form. `states` are those that may be entered when they happen.
    pub(super) fn side_effects(
        &mut self,
        list: &[Value],
        path: &str,
        states: &[u32],
    ) -> (Vec<SideEffect>, Option<Value>) {
        self.check_count(list.len(), limits::SIDE_EFFECTS, path, "events");
        let mut effects = Vec::<SideEffect>::new();
        let mut normal = Vec::new();
        for (number, value) in list.iter().enumerate().take(limits::SIDE_EFFECTS) {
            let place = format!("{path}/{number}");
            let Some((effect, text)) = self.side_effect(value, &place, number, states) else { continue };
            if effects.iter().any(|other| other.id == effect.id) {
                let problem = Problem::at(format!("{place}/id"), format!("two events have the id {:?}", effect.id));
                self.report(problem.hint("give each event of a list a different id"));
            }
            effects.push(effect);
            normal.push(text);
        }
        let normal = (!list.is_empty()).then(|| normal.into());
        (effects, normal)
    }

    fn side_effect(&mut self, value: &Value, path: &str, number: usize, states: &[u32]) -> Option<(SideEffect, Value)> {
        let mut fields = Fields::from_value(value, path, None, self.problems)?;
        let id = fields.text(&["id"]);
        let kind = fields.text(&["type"]);
        let target = fields.any(&["target"]);
        let template = fields.any(&["template"]);
        let payload = fields.any(&["payload"]);
        if id.is_some_and(|id| !is_state_name(id)) {
            fields.problem("id", "this is not a valid id of an event", STATE_NAME_HINT);
        }
        let known = format!("use one of {}", TYPES.join(", "));
        match kind {
            None => fields.missing(&["type"], "an event needs a type", known),
            Some(name) if !TYPES.contains(&name) => {
                let hint = match nearest(name, TYPES.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => known,
                };
                let message = format!("unknown type of event {name:?}");
                fields.coded_problem("type", code::EVENT_UNKNOWN_TYPE, message, hint);
            }
            Some(name) => {
                for (field, is_used) in
                    [("template", template.is_some()), ("payload", payload.is_some() && name == "assign")]
                {
                    if is_used {
                        fields.problem(
                            field,
                            format!("{field} has no effect for an event of type {name:?}"),
                            "remove it",
                        );
                    }
                }
                if target.is_none() {
                    let (message, hint) = match name {
                        "assign" => ("an assign event needs the persons in target", "such as \"{{ctx.manager}}\""),
                        _ => ("an auto_action event needs an action in target", "such as \"APPROVE\""),
                    };
                    fields.missing(&["target"], message, hint);
                }
            }
        }
        fields.finish();
        let kind_name = kind?;
        let place = format!("{path}/target");
        let (kind, normal_target) = match kind_name {
            "assign" => {
                let who = self.person_or_persons(target?, &place);
                let normal = Value::from(who.clone());
                (SideEffectKind::Assign { who }, normal)
            }
            "auto_action" => {
                let target = target?;
                let Some(action) = target.as_str().filter(|_| !is_template(target)) else {
                    let message = format!("expected the name of an action, found {}", found(target));
                    self.report(Problem::at(place, message).hint("such as \"APPROVE\""));
                    return None;
                };
                for state in states {
                    self.check_action(action, *state, &place);
                }
                if let Some(payload) = payload {
                    let place = format!("{path}/payload");
                    if !payload.is_object() && !is_template(payload) {
                        let message = format!("expected an object with data, found {}", name_of(payload));
                        self.report(Problem::at(&place, message).hint("such as {\"reason\": \"{{ctx.reason}}\"}"));
                    }
                    self.check_template(payload, &place);
                }
                let kind = SideEffectKind::AutoAction { action: action.to_owned(), payload: payload.cloned() };
                (kind, target.clone())
            }
            _ => return None,
        };
        let mut normal = Map::new();
        insert(&mut normal, "id", id.map(Value::from));
        normal.insert("type".into(), kind_name.into());
        normal.insert("target".into(), normal_target);
        insert(&mut normal, "payload", payload.cloned());
        let id = id.map_or_else(|| number.to_string(), str::to_owned);
        Some((SideEffect { id, kind }, normal.into()))
    }
}

fn found(value: &Value) -> &'static str {
    if is_template(value) { "an expression" } else { name_of(value) }
}
