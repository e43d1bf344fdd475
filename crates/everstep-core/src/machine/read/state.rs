//! Reads a state.

use serde_json::{Map, Value};

use super::Reader;
use super::timer::TimerPlace;
use super::values::{STATE_NAME_HINT, is_state_name};
use crate::definition::{DESCRIPTION_CHARS, Fields, NAME_CHARS, Problem, check_length, insert};
use crate::machine::model::{MachineEnd, MachineState};
use crate::machine::problem_code as code;

impl Reader<'_> {
    /// Reads a state, whether it is initial, and its canonical form.
    pub(super) fn state(&mut self, value: &Value, number: u32) -> Option<(MachineState, bool, Value)> {
        let path = format!("/states/{number}");
        let mut fields = Fields::from_value(value, path.as_str(), None, self.problems)?;
        let name = fields.text(&["name"]);
        let is_initial = fields.flag(&["initial"]).unwrap_or_default();
        let is_terminal = fields.flag(&["terminal"]).unwrap_or_default();
        let is_error = fields.flag(&["error"]).unwrap_or_default();
        let title = fields.text(&["title"]);
        let description = fields.text(&["description"]);
        let show = fields.list(&["show"]);
        let assign = fields.list(&["assign"]).unwrap_or_default();
        let on_stalemate = fields.text(&["onStalemate"]);
        let on = fields.object(&["on"]);
        let after = fields.list(&["after"]);
        let run = fields.any(&["run"]);
        let entry = fields.list(&["entry"]).unwrap_or_default();
        let exit = fields.list(&["exit"]).unwrap_or_default();
        let output = fields.any(&["output"]);
        match name {
            Some(name) if is_state_name(name) => {}
            Some(name) => {
                let message = format!("{name:?} is not a valid name of a state");
                fields.coded_problem("name", code::MACHINE_BAD_NAME, message, STATE_NAME_HINT);
            }
            None if value.get("name").is_none_or(Value::is_null) => {
                fields.coded_problem("name", code::MACHINE_BAD_NAME, "a state needs a name", STATE_NAME_HINT);
            }
            None => {}
        }
        if is_terminal {
            let leaves = [
                ("on", on.is_some_and(|on| !on.is_empty())),
                ("after", after.is_some_and(|after| !after.is_empty())),
                ("run", run.is_some()),
            ];
            for (field, _) in leaves.into_iter().filter(|(_, is_used)| *is_used) {
                let message = format!("a terminal state cannot have `{field}`: the run ends in it");
                let hint = format!("remove {field}, or terminal");
                fields.coded_problem(field, code::MACHINE_TERMINAL_LEAVES, message, hint);
            }
        }
        let of_others = [
            ("show", show.is_some()),
            ("assign", !assign.is_empty()),
            ("onStalemate", on_stalemate.is_some()),
            ("exit", !exit.is_empty()),
        ];
        for (field, _) in of_others.into_iter().filter(|(_, is_used)| *is_used && is_terminal) {
            fields.problem(field, format!("{field} has no effect in a terminal state"), "remove it");
        }
        for (field, _) in [("error", is_error), ("output", output.is_some())]
            .into_iter()
            .filter(|(_, is_used)| *is_used && !is_terminal)
        {
            let message = format!("{field} has no effect in a state that is not terminal");
            fields.problem(field, message, "remove it, or add terminal: true");
        }
        if is_terminal && is_error && output.is_some() {
            fields.problem("output", "a run that fails has no output", "remove output, or error");
        }
        fields.finish();
        check_length(title, &format!("{path}/title"), NAME_CHARS, self.problems);
        check_length(description, &format!("{path}/description"), DESCRIPTION_CHARS, self.problems);
        let show = show.map(|show| self.paths(show, &format!("{path}/show"))).unwrap_or_default();
        let assign = self.persons(assign, &format!("{path}/assign"));
        let has_wrong_list = |field: &str, is_read: bool| !is_read && value.get(field).is_some_and(|it| !it.is_null());
        if has_wrong_list("on", on.is_some()) || has_wrong_list("after", after.is_some()) {
            self.unread.insert(number);
        }
        let after = after.unwrap_or_default();
        let (on, normal_on) = on.map(|on| self.actions(on, &format!("{path}/on"))).unwrap_or_default();
        if let Some(action) = on_stalemate {
            let place = format!("{path}/onStalemate");
            self.check_action(action, number, &place);
            let has_voters = |action: &crate::machine::model::Action| {
                action.quorum.as_ref().is_some_and(|quorum| quorum.voters.is_some())
            };
            if !on.iter().any(has_voters) {
                let problem = Problem::at(place, "onStalemate has no effect without a quorum that names its voters");
                self.report(problem.hint("remove it, or add a quorum with `of` to an action"));
            }
        }
        let place = TimerPlace { state: number, actions: &on };
        let (after, normal_after) = self.timers(after, &format!("{path}/after"), place);
        let read = run.map(|run| self.state_run(run, &format!("{path}/run")));
        let (run, normal_run) = read.and_then(|read| self.transition(read)).unzip();
        let (entry, normal_entry) = self.side_effects(entry, &format!("{path}/entry"), &[number]);
        if let Some(output) = output {
            self.check_template(output, &format!("{path}/output"));
        }
        let end = is_terminal.then_some(if is_error { MachineEnd::Failed } else { MachineEnd::Completed });
        let mut state = MachineState {
            name: name.unwrap_or_default().to_owned(),
            title: title.map(str::to_owned),
            description: description.map(str::to_owned),
            end,
            show,
            assign,
            on,
            on_stalemate: on_stalemate.map(str::to_owned),
            after,
            run,
            entry,
            exit: Vec::new(),
            output: output.cloned(),
        };
        let exits: Vec<u32> = state.exits().collect::<std::collections::BTreeSet<_>>().into_iter().collect();
        let (exit, normal_exit) = self.side_effects(exit, &format!("{path}/exit"), &exits);
        state.exit = exit;

        let mut normal = Map::new();
        normal.insert("name".into(), state.name.as_str().into());
        insert(&mut normal, "initial", is_initial.then_some(true.into()));
        insert(&mut normal, "terminal", is_terminal.then_some(true.into()));
        insert(&mut normal, "error", is_error.then_some(true.into()));
        insert(&mut normal, "title", title.map(Value::from));
        insert(&mut normal, "description", description.map(Value::from));
        insert(&mut normal, "show", (!state.show.is_empty()).then(|| state.show.clone().into()));
        insert(&mut normal, "assign", (!state.assign.is_empty()).then(|| state.assign.clone().into()));
        insert(&mut normal, "onStalemate", on_stalemate.map(Value::from));
        insert(&mut normal, "on", normal_on);
        insert(&mut normal, "after", normal_after);
        insert(&mut normal, "run", normal_run);
        insert(&mut normal, "entry", normal_entry);
        insert(&mut normal, "exit", normal_exit);
        insert(&mut normal, "output", output.cloned());
        Some((state, is_initial, normal.into()))
    }
}
