//! Functions of simulated code workflows: small programs that every worker has.
//!
//! The next action of a function follows from its script and from the ends of its steps, in the order of the journal.
//! So the judge can run it again at the end, and compute the expected result.

use std::collections::BTreeMap;
use std::sync::Arc;

use everstep_core::code::Since;
use everstep_core::ids::StepKey;
use serde_json::{Value, json};

use super::events::{N_MAX, TOPICS};
use super::graphs;
use super::random::SeededRng;

/// All functions, by the name and version of their workflow.
pub(super) type Scripts = Arc<BTreeMap<(String, u32), Script>>;

/// The name of the code workflow that others call.
pub(super) const CHILD: &str = "code-child";

/// Operations in sequence. The output of the function consists of their outputs.
pub(super) type Script = Vec<Op>;

#[derive(Clone, Debug)]
pub(super) enum Op {
    Step {
        name: String,
        demand: Demand,
        /// Whether the function continues when it fails.
        is_caught: bool,
    },
    /// Ends when all branches have ended, or one has failed.
    All(Vec<Script>),
    /// Ends when one branch has; then a step runs whose name shows which.
    Race { name: String, branches: Vec<Script> },
}

/// The demand of a step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Demand {
    /// The given number of first attempts fail.
    Run {
        fails: u32,
        attempts: u32,
    },
    Sleep {
        millis: u64,
        is_until: bool,
    },
    Wait {
        event: &'static str,
        timeout: Option<u64>,
    },
    Call {
        workflow: &'static str,
        timeout: Option<u64>,
    },
    /// A wait for a published event whose data has this `n`.
    Event {
        topic: &'static str,
        n: u64,
        since: Option<Since>,
        timeout: Option<u64>,
    },
    Publish {
        topic: &'static str,
        n: u64,
    },
}

/// How a step ended, and its entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct End {
    pub(super) seq: u64,
    pub(super) outcome: EndOutcome,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum EndOutcome {
    Gave(Value),
    Failed,
    Slept,
    Signal(Value),
    TimedOut,
}

pub(super) type Ends = BTreeMap<StepKey, End>;

/// The position of a function, given the ends of its steps.
pub(super) struct Played {
    /// The steps that it has reached, ended or not.
    pub(super) demands: BTreeMap<StepKey, Demand>,
    /// Its output, or the step whose failure it threw.
    pub(super) end: Option<Result<Value, StepKey>>,
}

/// Runs a function from the top, as far as it goes.
pub(super) fn play(script: &[Op], ends: &Ends) -> Played {
    let mut player = Player { ends, demands: BTreeMap::new() };
    let end = player.sequence(script, 0).map(|ready| ready.result);
    Played { demands: player.demands, end }
}

struct Player<'a> {
    ends: &'a Ends,
    demands: BTreeMap<StepKey, Demand>,
}

/// The result of a part of a function, and its entry.
struct Ready {
    at: u64,
    result: Result<Value, StepKey>,
}

impl Player<'_> {
    fn sequence(&mut self, script: &[Op], mut at: u64) -> Option<Ready> {
        let mut values = Vec::new();
        for op in script {
            let ready = self.op(op, at)?;
            at = ready.at;
            match ready.result {
                Ok(value) => values.push(value),
                Err(step) => return Some(Ready { at, result: Err(step) }),
            }
        }
        Some(Ready { at, result: Ok(values.into()) })
    }

    fn op(&mut self, op: &Op, at: u64) -> Option<Ready> {
        match op {
            Op::Step { name, demand, is_caught } => self.step(name, demand, *is_caught, at),
            Op::All(branches) => {
                let ready: Vec<_> = branches.iter().map(|branch| self.sequence(branch, at)).collect();
                let is_failed = |ready: &&Ready| ready.result.is_err();
                if let Some(first) = ready.iter().flatten().filter(is_failed).min_by_key(|ready| ready.at) {
                    return Some(Ready { at: first.at, result: first.result.clone() });
                }
                let all = ready.into_iter().collect::<Option<Vec<_>>>()?;
                let at = all.iter().map(|ready| ready.at).max().unwrap_or(at);
                Some(Ready { at, result: all.into_iter().map(|ready| ready.result).collect::<Result<_, _>>() })
            }
            Op::Race { name, branches } => {
                let ready: Vec<_> = branches.iter().map(|branch| self.sequence(branch, at)).collect();
                let done = ready.into_iter().enumerate().filter_map(|(place, ready)| Some((place, ready?)));
                let (place, first) = done.min_by_key(|(_, ready)| ready.at)?;
                let value = match first.result {
                    Ok(value) => value,
                    Err(step) => return Some(Ready { at: first.at, result: Err(step) }),
                };
                let demand = Demand::Run { fails: 0, attempts: 3 };
                let won = self.step(&format!("{name}-won-by-{place}"), &demand, false, first.at)?;
                Some(Ready { at: won.at, result: won.result.map(|won| json!([value, won])) })
            }
        }
    }

    fn step(&mut self, name: &str, demand: &Demand, is_caught: bool, at: u64) -> Option<Ready> {
        let step = StepKey::from(name);
        self.demands.insert(step.clone(), demand.clone());
        let end = self.ends.get(&step)?;
        let result = match &end.outcome {
            EndOutcome::Gave(value) | EndOutcome::Signal(value) => Ok(value.clone()),
            EndOutcome::Slept => Ok(Value::Null),
            EndOutcome::TimedOut => Ok("no signal".into()),
            EndOutcome::Failed if is_caught => Ok(json!({"caught": name})),
            EndOutcome::Failed => Err(step),
        };
        Some(Ready { at: at.max(end.seq), result })
    }
}

/// What is in the functions of a simulation.
#[derive(Clone, Copy)]
pub(super) struct ScriptOptions {
    /// Nothing lasts longer than a few seconds.
    pub(super) is_brief: bool,
    /// Steps publish events and wait for them.
    pub(super) has_events: bool,
}

/// A function with up to about a dozen steps.
pub(super) fn make(random: &mut SeededRng, options: ScriptOptions) -> Script {
    let budget = random.between(2, if options.is_brief { 7 } else { 12 }) as usize;
    Maker { random, budget, made: 0, options, is_child: false }.function()
}

/// A small function that others call. It calls no others.
pub(super) fn make_child(random: &mut SeededRng, options: ScriptOptions) -> Script {
    Maker { random, budget: 2, made: 0, options, is_child: true }.function()
}

struct Maker<'a> {
    random: &'a mut SeededRng,
    budget: usize,
    made: usize,
    options: ScriptOptions,
    is_child: bool,
}

impl Maker<'_> {
    fn function(&mut self) -> Script {
        let mut script = Vec::new();
        while self.budget > 0 {
            script.push(self.op(0));
        }
        script
    }

    fn op(&mut self, depth: usize) -> Op {
        let choice = if self.budget < 2 || depth > 1 { self.random.below(75) } else { self.random.below(100) };
        match choice {
            0..75 => self.step(depth),
            75..90 => Op::All(self.branches(depth)),
            _ => {
                let name = self.name("race");
                Op::Race { name, branches: self.branches(depth) }
            }
        }
    }

    fn branches(&mut self, depth: usize) -> Vec<Script> {
        (0..self.random.between(2, 4))
            .map(|_| (0..self.random.between(1, 2)).map(|_| self.op(depth + 1)).collect())
            .collect()
    }

    fn name(&mut self, stem: &str) -> String {
        self.made += 1;
        self.budget = self.budget.saturating_sub(1);
        format!("{stem}-{}", self.made)
    }

    fn step(&mut self, depth: usize) -> Op {
        let has_events = self.options.has_events;
        let (stem, demand) = match self.random.below(100) {
            0..12 if has_events => {
                let (topic, n) = (*self.random.pick(&TOPICS), self.random.between(0, N_MAX));
                ("publish", Demand::Publish { topic, n })
            }
            0..55 => {
                let attempts = self.random.between(1, 3) as u32;
                let fails = if self.random.chance(30) { self.random.between(1, 4) as u32 } else { 0 };
                ("run", Demand::Run { fails, attempts })
            }
            55..72 => {
                // Short sleeps stay in memory, long ones park the run.
                let millis = match self.random.below(3) {
                    0 => self.random.between(0, 900),
                    1 => self.random.between(1_000, 6_000),
                    _ if self.options.is_brief => self.random.between(1_000, 6_000),
                    _ => self.random.between(20_000, 120_000),
                };
                ("sleep", Demand::Sleep { millis, is_until: self.random.chance(20) })
            }
            72..88 if has_events && self.random.chance(60) => ("event", self.event_wait()),
            72..88 => {
                let most = if self.options.is_brief { 6_000 } else { 90_000 };
                let timeout = self.random.chance(50).then(|| self.random.between(500, most));
                // A person repeats the signal; an inbox signal arrives once, so one wait at a time expects it.
                let is_inbox_signal = depth == 0 && self.random.chance(50);
                ("wait", Demand::Wait { event: if is_inbox_signal { "inbox" } else { "person" }, timeout })
            }
            _ if self.is_child => ("run", Demand::Run { fails: 0, attempts: 2 }),
            _ => {
                let timeout = self.random.chance(20).then(|| self.random.between(500, 6_000));
                let workflow = if self.random.chance(50) { CHILD } else { graphs::CHILD };
                ("call", Demand::Call { workflow, timeout })
            }
        };
        Op::Step { name: self.name(stem), demand, is_caught: self.random.chance(60) }
    }

    fn event_wait(&mut self) -> Demand {
        let most = if self.options.is_brief { 6_000 } else { 90_000 };
        let timeout = self.random.chance(30).then(|| self.random.between(500, most));
        let since = match self.random.below(4) {
            0 => Some(Since::Start),
            1 => Some(Since::Ago(self.random.between(1_000, 20_000))),
            _ => None,
        };
        Demand::Event { topic: self.random.pick::<&str>(&TOPICS), n: self.random.between(0, N_MAX), since, timeout }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names of all steps that a function may reach.
    fn names(script: &[Op]) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for op in script {
            match op {
                Op::Step { name, .. } => _ = all.insert(name.clone()),
                Op::All(branches) => all.extend(branches.iter().flat_map(|branch| names(branch))),
                Op::Race { name, branches } => {
                    all.extend((0..branches.len()).map(|place| format!("{name}-won-by-{place}")));
                    all.extend(branches.iter().flat_map(|branch| names(branch)));
                }
            }
        }
        all
    }

    fn run(name: &str) -> Op {
        Op::Step { name: name.to_owned(), demand: Demand::Run { fails: 0, attempts: 1 }, is_caught: false }
    }

    fn ends(all: &[(&str, u64, EndOutcome)]) -> Ends {
        all.iter()
            .map(|(step, seq, outcome)| (StepKey::from(*step), End { seq: *seq, outcome: outcome.clone() }))
            .collect()
    }

    fn gave(text: &str) -> EndOutcome {
        EndOutcome::Gave(text.into())
    }

    fn demanded(script: &[Op], ends: &Ends) -> Vec<String> {
        play(script, ends).demands.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn a_function_goes_on_where_its_steps_have_ended() {
        let script = [run("a"), run("b")];
        assert_eq!(demanded(&script, &ends(&[])), ["a"]);
        assert_eq!(demanded(&script, &ends(&[("a", 3, gave("A"))])), ["a", "b"]);
        let all = ends(&[("a", 3, gave("A")), ("b", 4, gave("B"))]);
        assert_eq!(play(&script, &all).end, Some(Ok(json!(["A", "B"]))));
        let failed = ends(&[("a", 3, EndOutcome::Failed)]);
        assert_eq!(play(&script, &failed).end, Some(Err(StepKey::from("a"))));
    }

    #[test]
    fn the_first_entry_in_the_journal_wins_a_race() {
        let script = [Op::Race { name: "r".to_owned(), branches: vec![vec![run("a"), run("b")], vec![run("c")]] }];
        assert_eq!(demanded(&script, &ends(&[])), ["a", "c"]);
        let first = ends(&[("a", 3, gave("A")), ("b", 4, gave("B")), ("c", 5, gave("C"))]);
        assert_eq!(demanded(&script, &first), ["a", "b", "c", "r-won-by-0"]);
        let second = ends(&[("a", 3, gave("A")), ("b", 5, gave("B")), ("c", 4, gave("C"))]);
        assert_eq!(demanded(&script, &second), ["a", "b", "c", "r-won-by-1"]);
    }

    #[test]
    fn what_goes_on_side_by_side_ends_with_the_last_or_with_a_failure() {
        let script = [Op::All(vec![vec![run("a")], vec![run("b")]]), run("c")];
        assert_eq!(demanded(&script, &ends(&[("b", 3, gave("B"))])), ["a", "b"]);
        assert_eq!(play(&script, &ends(&[("b", 3, EndOutcome::Failed)])).end, Some(Err(StepKey::from("b"))));
        let all = ends(&[("b", 3, gave("B")), ("a", 4, gave("A")), ("c", 5, gave("C"))]);
        assert_eq!(play(&script, &all).end, Some(Ok(json!([[["A"], ["B"]], "C"]))));
    }

    #[test]
    fn made_functions_name_each_step_once() {
        for seed in 0..200 {
            let script =
                make(&mut SeededRng::new(seed), ScriptOptions { is_brief: seed % 2 == 0, has_events: seed % 3 == 0 });
            assert!(!names(&script).is_empty());
            let demands = play(&script, &Ends::new()).demands;
            assert!(demands.keys().all(|step| names(&script).contains(step.as_str())));
        }
    }
}
