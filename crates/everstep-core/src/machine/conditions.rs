//! The conditions of actions and of their branches.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Value, json};

use super::model::{Action, ActionBranch};
use super::run::MachineRun;
use super::{Rights, Tally};
use crate::actor::Actor;
use crate::limits;
use crate::logic::{Fuel, Rule, RuleInput, Verdict, code};
use crate::meter::Meter;
use crate::run::Cx;
use crate::time::Timestamp;

/// A performance of an action: by whom, with which data.
#[derive(Clone, Copy)]
pub(super) struct Performance<'a> {
    pub(super) action: &'a str,
    pub(super) by: &'a Actor,
    /// None for a part of the server.
    pub(super) rights: Option<&'a Rights>,
    pub(super) comment: Option<&'a str>,
    pub(super) data: Option<&'a Value>,
}

impl<'a> Performance<'a> {
    /// An action that a part of the server performs.
    pub(super) fn of_server(action: &'a str, by: &'a Actor, data: Option<&'a Value>) -> Self {
        Self { action, by, rights: None, comment: None, data }
    }

    /// The actor as conditions and templates read it: `{id, name, roles}`.
    pub(super) fn user(&self) -> Value {
        let (name, roles) = self.rights.map_or((None, [].as_slice()), |rights| (rights.name.as_deref(), &rights.roles));
        json!({"id": self.by.to_string(), "name": name, "roles": roles})
    }
}

/// Why an action cannot be performed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unmet {
    pub(super) code: &'static str,
    pub(super) message: String,
    /// The parts of the rules that were false.
    pub(super) explanation: Vec<Value>,
}

/// The values beside the context that conditions read, and the work that they may still use.
pub(super) struct Variables<'a> {
    values: BTreeMap<&'static str, Value>,
    fuel: ConditionFuel<'a>,
}

/// The operations that the conditions of one transition may still use, and the meter that they charge.
#[derive(Clone)]
pub(super) struct ConditionFuel<'a> {
    operations: Rc<Cell<u64>>,
    meter: &'a Meter,
}

impl<'a> ConditionFuel<'a> {
    pub(super) fn full(meter: &'a Meter) -> Self {
        Self { operations: Rc::new(Cell::new(limits::CONDITION_OPERATIONS)), meter }
    }

    /// Evaluates something with the fuel of one rule, as far as it is left.
    fn spend<T>(&self, evaluate: impl FnOnce(&mut Fuel) -> T) -> T {
        let mut fuel = Fuel::with(self.operations.get());
        let result = evaluate(&mut fuel);
        self.operations.set(self.operations.get() - fuel.used_operations());
        self.meter.charge(fuel.used_operations() * limits::RULE_OPERATION_FUEL);
        result
    }
}

/// The place of a machine that conditions read: the present one, or one that is about to be entered.
pub(super) struct Standing<'a> {
    pub(super) state: &'a str,
    pub(super) version_no: u32,
    pub(super) votes: Vec<Tally>,
}

impl<'a> Standing<'a> {
    pub(super) fn present(run: MachineRun<'a>) -> Self {
        let state = run.progress.state_name().unwrap_or_default();
        Self { state, version_no: run.progress.version_no, votes: run.progress.votes() }
    }
}

impl<'a> Variables<'a> {
    pub(super) fn new(
        standing: &Standing<'_>,
        performance: &Performance<'_>,
        started_by: Option<&Actor>,
        now: Timestamp,
        fuel: ConditionFuel<'a>,
    ) -> Self {
        let votes = standing.votes.iter().map(|tally| {
            let by: Vec<_> = tally.by.iter().map(ToString::to_string).collect();
            (tally.action.clone(), json!({"count": tally.count, "need": tally.need, "by": by}))
        });
        let values = BTreeMap::from([
            ("$user", performance.user()),
            ("$action", json!(performance.action)),
            ("$data", performance.data.cloned().unwrap_or_default()),
            ("$comment", json!(performance.comment)),
            ("$state", json!(standing.state)),
            ("$versionNo", json!(standing.version_no)),
            ("$now", json!(now.to_string())),
            ("$startedBy", json!(started_by.map(ToString::to_string))),
            ("$votes", Value::Object(votes.collect())),
        ]);
        Self { values, fuel }
    }

    fn judge(&self, rule: &Rule, context: &Value) -> Verdict {
        let input = RuleInput { context, variables: &self.values };
        self.fuel.spend(|fuel| rule.judge_with(input, fuel))
    }

    fn explain(&self, rule: &Rule, context: &Value) -> Vec<Value> {
        let input = RuleInput { context, variables: &self.values };
        let explanations = self.fuel.spend(|fuel| rule.explain_with(input, fuel));
        explanations.iter().filter_map(|part| serde_json::to_value(part).ok()).collect()
    }

    /// Whether the condition of an action, and that of one of its branches, hold.
    pub(super) fn permit(&self, action: &Action, context: &Value) -> bool {
        let holds = |rule: Option<&Rule>| rule.is_none_or(|rule| self.judge(rule, context).holds());
        holds(action.condition.as_ref()) && action.branches.iter().any(|branch| holds(branch.condition.as_ref()))
    }

    /// Checks the condition of an action.
    pub(super) fn check(&self, action: &Action, context: &Value) -> Result<(), Unmet> {
        let Some(rule) = &action.condition else { return Ok(()) };
        let verdict = self.judge(rule, context);
        let Some(code) = verdict.code() else { return Ok(()) };
        // The explanation evaluates the rule again. It has none for a rule that is too costly.
        let (default, explanation) = match verdict {
            Verdict::TooCostly => {
                (format!("the condition of {} needs too much work or memory", action.name), Vec::new())
            }
            Verdict::Fails | Verdict::Holds => {
                (format!("the condition of {} does not hold", action.name), self.explain(rule, context))
            }
        };
        let message = action.message.clone().filter(|_| verdict == Verdict::Fails).unwrap_or(default);
        Err(Unmet { code, message, explanation })
    }

    /// The first branch of an action whose condition holds.
    pub(super) fn choose<'m>(&self, action: &'m Action, context: &Value) -> Result<&'m ActionBranch, Unmet> {
        let mut failed = Vec::new();
        let mut is_too_costly = false;
        for branch in &action.branches {
            let Some(rule) = &branch.condition else { return Ok(branch) };
            match self.judge(rule, context) {
                Verdict::Holds => return Ok(branch),
                Verdict::Fails => failed.push(rule),
                Verdict::TooCostly => is_too_costly = true,
            }
        }
        let explanation = failed.into_iter().flat_map(|rule| self.explain(rule, context)).collect();
        if is_too_costly {
            let message = format!("no branch of {} is taken: a condition needs too much work or memory", action.name);
            return Err(Unmet { code: code::CONDITION_TOO_COSTLY, message, explanation });
        }
        // The message of an action with a condition of its own explains that condition.
        let own = action.message.clone().filter(|_| action.condition.is_none());
        let message = own.unwrap_or_else(|| format!("the condition of no branch of {} holds", action.name));
        Err(Unmet { code: code::CONDITION_FAILED, message, explanation })
    }
}

impl<'a> MachineRun<'a> {
    /// The variables of conditions at the present state.
    pub(super) fn variables<'c>(self, performance: &Performance<'_>, cx: Cx<'c>) -> Variables<'c> {
        let (standing, started_by) = (Standing::present(self), self.state.started_by());
        Variables::new(&standing, performance, started_by, cx.now, ConditionFuel::full(cx.meter))
    }
}
