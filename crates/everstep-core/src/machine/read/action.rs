//! Reads the actions of a state: `on`.

use serde_json::{Map, Value, json};

use super::Reader;
use super::values::{ACTION_NAME_HINT, is_action_name, is_template};
use crate::definition::{DESCRIPTION_CHARS, Fields, NAME_CHARS, Problem, check_length, escape, insert, name_of};
use crate::limits;
use crate::machine::model::{Action, ActionBranch, Need, Needs, Quorum};
use crate::machine::problem_code as code;

const TO_HINT: &str = "write for example {\"to\": \"approved\"}";
const NEED_HINT: &str = "write \"ALL\", \"MAJORITY\", \"ANY\", a number of votes, or a percentage such as \"60%\"";

impl Reader<'_> {
    /// Reads the actions of a state, and their canonical form.
    pub(super) fn actions(&mut self, on: &Map<String, Value>, path: &str) -> (Vec<Action>, Option<Value>) {
        self.check_count(on.len(), limits::STATE_ACTIONS, path, "actions");
        let mut actions = Vec::new();
        let mut normal = Map::new();
        for (name, value) in on.iter().take(limits::STATE_ACTIONS) {
            let place = format!("{path}/{}", escape(name));
            if !is_action_name(name) {
                let problem = Problem::at(&place, format!("{name:?} is not a valid name of an action"));
                self.report(problem.code(code::MACHINE_BAD_NAME).hint(ACTION_NAME_HINT));
            }
            let read = self.action(name, value, &place);
            let Some((action, text)) = self.transition(read) else { continue };
            actions.push(action);
            normal.insert(name.clone(), text);
        }
        (actions, (!on.is_empty()).then(|| normal.into()))
    }

    fn action(&mut self, name: &str, value: &Value, path: &str) -> Option<(Action, Value)> {
        let mut fields = Fields::from_value(value, path, None, self.problems)?;
        let title = fields.text(&["title"]);
        let require = fields.any(&["require"]);
        let quorum = fields.any(&["quorum"]);
        let needs = fields.any(&["needs"]);
        let condition = fields.any(&["condition"]);
        let message = fields.text(&["message"]);
        let to = fields.text(&["to"]);
        let choose = fields.list(&["choose"]);
        let set = fields.object(&["set"]);
        let events = fields.list(&["events"]).unwrap_or_default();
        match (to, choose) {
            (None, None) => fields.missing(&["to", "choose"], "an action needs `to` or `choose`", TO_HINT),
            (Some(_), Some(_)) => fields.problem("choose", "an action has either `to` or `choose`", "keep one of them"),
            (None, Some([])) => {
                let hint = "write for example [{\"to\": \"approved\"}]";
                fields.problem("choose", "choose needs at least one branch", hint);
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
        // Without a branch that always fits, an action can be refused although it has no condition of its own.
        let can_fail = condition.is_some()
            || choose
                .and_then(<[Value]>::last)
                .is_some_and(|last| last.get("condition").is_some_and(|it| !it.is_null()));
        if message.is_some() && !can_fail {
            fields.problem("message", "message has no effect without a condition", "remove it, or add a condition");
        }
        fields.finish();
        check_length(title, &format!("{path}/title"), NAME_CHARS, self.problems);
        check_length(message, &format!("{path}/message"), DESCRIPTION_CHARS, self.problems);
        let (rule, at) = (condition, format!("{path}/condition"));
        let rule = rule.and_then(|condition| self.condition(condition, &at));
        let (requirement, normal_require) =
            require.and_then(|require| self.requirement(require, &format!("{path}/require"))).unzip();
        let (quorum, normal_quorum) = quorum.and_then(|quorum| self.quorum(quorum, &format!("{path}/quorum"))).unzip();
        let needs = needs.and_then(|needs| self.needs(needs, &format!("{path}/needs"))).unwrap_or_default();
        if quorum.is_some() && !needs.data.is_empty() {
            let problem =
                Problem::at(format!("{path}/needs/data"), "a vote has no data, so `needs.data` cannot be met");
            self.report(problem.hint("remove needs.data, or the quorum"));
        }
        let (mut branches, mut normal_branches) = (Vec::new(), None);
        if let Some(name) = to {
            let to = self.target(name, &format!("{path}/to"));
            branches.push(ActionBranch { condition: None, to, set: Map::new(), events: Vec::new() });
        } else if let Some(list) = choose {
            let (read, normal) = self.branches(list, &format!("{path}/choose"));
            branches = read;
            normal_branches = Some(normal);
        }
        if branches.is_empty() {
            self.unread.insert(self.state);
        }
        let set = set.map(|set| self.assignments(set, &format!("{path}/set"))).unwrap_or_default();
        let mut targets: Vec<u32> = branches.iter().map(|branch| branch.to).collect();
        targets.sort_unstable();
        targets.dedup();
        let (events, normal_events) = self.side_effects(events, &format!("{path}/events"), &targets);

        let mut normal = Map::new();
        insert(&mut normal, "title", title.map(Value::from));
        insert(&mut normal, "require", normal_require);
        insert(&mut normal, "quorum", normal_quorum);
        insert(&mut normal, "needs", normal_needs(&needs));
        insert(&mut normal, "condition", condition.cloned());
        insert(&mut normal, "message", message.map(Value::from));
        insert(&mut normal, "to", to.map(Value::from));
        insert(&mut normal, "choose", normal_branches);
        insert(&mut normal, "set", (!set.is_empty()).then(|| set.clone().into()));
        insert(&mut normal, "events", normal_events);
        let action = Action {
            name: name.to_owned(),
            title: title.map(str::to_owned),
            require: requirement,
            quorum,
            needs,
            condition: rule,
            message: message.map(str::to_owned),
            branches,
            set,
            events,
        };
        Some((action, normal.into()))
    }

    fn branches(&mut self, list: &[Value], path: &str) -> (Vec<ActionBranch>, Value) {
        self.check_count(list.len(), limits::ACTION_BRANCHES, path, "branches");
        let mut branches = Vec::new();
        let mut normal = Vec::new();
        for (number, value) in list.iter().enumerate().take(limits::ACTION_BRANCHES) {
            let is_last = number + 1 == list.len();
            let read = self.branch(value, &format!("{path}/{number}"), is_last);
            let Some((branch, text)) = self.transition(read) else { continue };
            branches.push(branch);
            normal.push(text);
        }
        (branches, normal.into())
    }

    fn branch(&mut self, value: &Value, path: &str, is_last: bool) -> Option<(ActionBranch, Value)> {
        let mut fields = Fields::from_value(value, path, None, self.problems)?;
        let condition = fields.any(&["condition"]);
        let to = fields.text(&["to"]);
        let set = fields.object(&["set"]);
        let events = fields.list(&["events"]).unwrap_or_default();
        if to.is_none() {
            fields.missing(&["to"], "a branch needs `to`, the state that it leads to", TO_HINT);
        }
        if condition.is_none() && !is_last {
            let message =
                "only the last branch can be without a condition: the branches after this one are never taken";
            fields.missing(&["condition"], message, "add a condition, or move the branch to the end");
        }
        fields.finish();
        let rule = condition.and_then(|condition| self.condition(condition, &format!("{path}/condition")));
        let target = self.target(to?, &format!("{path}/to"));
        let set = set.map(|set| self.assignments(set, &format!("{path}/set"))).unwrap_or_default();
        let (events, normal_events) = self.side_effects(events, &format!("{path}/events"), &[target]);
        let mut normal = Map::new();
        insert(&mut normal, "condition", condition.cloned());
        insert(&mut normal, "to", to.map(Value::from));
        insert(&mut normal, "set", (!set.is_empty()).then(|| set.clone().into()));
        insert(&mut normal, "events", normal_events);
        Some((ActionBranch { condition: rule, to: target, set, events }, normal.into()))
    }

    fn quorum(&mut self, value: &Value, path: &str) -> Option<(Quorum, Value)> {
        let mut fields = Fields::from_value(value, path, None, self.problems)?;
        let of = fields.list(&["of"]);
        let need = fields.any(&["need"]);
        let need_place = format!("{path}/need");
        fields.finish();
        let bad_need = |message: String, hint: &str| {
            Problem::at(&need_place, message).code(code::QUORUM_BAD_NEED).hint(hint.to_owned())
        };
        let Some(need) = need else {
            self.report(bad_need("a quorum needs `need`, the required number of votes".to_owned(), NEED_HINT));
            return None;
        };
        if of.is_some_and(<[Value]>::is_empty) {
            let problem = Problem::at(format!("{path}/of"), "the list is empty");
            self.report(problem.hint("name the voters, or remove `of`: then every authorized caller may vote"));
        }
        let voters = of.map(|of| self.persons(of, &format!("{path}/of")));
        let parsed = match read_need(need) {
            Ok(parsed) => parsed,
            Err(message) => {
                self.report(bad_need(message, NEED_HINT));
                return None;
            }
        };
        match (&parsed, &voters) {
            (Need::All | Need::Majority | Need::Percent(_), None) => {
                let message = format!("{need} is a fraction of the voters, and the quorum names no voters");
                self.report(bad_need(message, "name the voters in `of`, or write a number of votes"));
            }
            // Templates may stand for several voters, or for one that another item names.
            (Need::Count(count), Some(voters)) if !voters.iter().any(is_template) => {
                let names: std::collections::BTreeSet<_> = voters.iter().filter_map(Value::as_str).collect();
                if *count as usize > names.len() && !names.is_empty() {
                    let message = format!("`need` ({count}) exceeds the number of voters in `of` ({})", names.len());
                    self.report(bad_need(message, "decrease `need`, or name more voters in `of`"));
                }
            }
            _ => {}
        }
        let mut normal = Map::new();
        insert(&mut normal, "of", voters.clone().map(Value::from));
        normal.insert("need".into(), need.clone());
        Some((Quorum { voters, need: parsed }, normal.into()))
    }

    fn needs(&mut self, value: &Value, path: &str) -> Option<Needs> {
        let mut fields = Fields::from_value(value, path, None, self.problems)?;
        let comment = fields.flag(&["comment"]).unwrap_or_default();
        let data = fields.list(&["data"]);
        let files = fields.number(&["files"], 1, limits::ACT_FILES as u64);
        let shown = fields.flag(&["shown"]).unwrap_or_default();
        fields.finish();
        let files = files.and_then(|files| u32::try_from(files).ok()).unwrap_or_default();
        let data = data.map(|data| self.data_paths(data, &format!("{path}/data"))).unwrap_or_default();
        Some(Needs { comment, data, files, shown })
    }
}

fn normal_needs(needs: &Needs) -> Option<Value> {
    let mut normal = Map::new();
    insert(&mut normal, "comment", needs.comment.then_some(true.into()));
    insert(&mut normal, "data", (!needs.data.is_empty()).then(|| json!(needs.data)));
    insert(&mut normal, "files", (needs.files > 0).then(|| needs.files.into()));
    insert(&mut normal, "shown", needs.shown.then_some(true.into()));
    (!normal.is_empty()).then(|| normal.into())
}

/// The number of votes that a quorum needs, or what is wrong with it.
fn read_need(value: &Value) -> Result<Need, String> {
    match value {
        Value::Number(number) => {
            let count = number.as_u64().and_then(|count| u32::try_from(count).ok());
            let count = count.filter(|count| (1..=limits::QUORUM_VOTES).contains(count));
            count
                .map(Need::Count)
                .ok_or_else(|| format!("expected a number of votes from 1 to {}, found {number}", limits::QUORUM_VOTES))
        }
        Value::String(text) => match text.as_str() {
            "ALL" => Ok(Need::All),
            "MAJORITY" => Ok(Need::Majority),
            "ANY" => Ok(Need::Any),
            text => {
                let digits = text.strip_suffix('%').filter(|digits| !digits.starts_with(['0', '+']));
                let percent = digits.and_then(|digits| digits.parse().ok());
                let percent = percent.filter(|percent| (1..=100).contains(percent));
                percent.map(Need::Percent).ok_or_else(|| format!("expected a number of votes, found {text:?}"))
            }
        },
        other => Err(format!("expected a number of votes, found {}", name_of(other))),
    }
}
