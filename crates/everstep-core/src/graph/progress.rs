//! The progress of a run through its graph: a fold of the journal.
//!
//! **Invariant**: the agenda holds exactly the places where something is ready, and is changed only by the fold.
//! Therefore `settle` finds the ready places without visiting every node, and a step costs the same in a long run as in
//! a short one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::model::{Graph, Join, Node, NodeKind, OnError, OnItemError};
use super::path::{ScopePath, StepPath};
use super::repeat::{Pacing, Repeat};
use crate::failure::Failure;
use crate::ids::StepKey;
use crate::journal::Outcome;
use crate::payload::Payload;
use crate::status::StepStatus;
use crate::topics::EventRef;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    #[serde(with = "pairs")]
    pub(crate) scopes: BTreeMap<ScopePath, Scope>,
    #[serde(with = "pairs")]
    pub(crate) repeats: BTreeMap<StepPath, Repeat>,
    pub(crate) agenda: BTreeSet<StepPath>,
    pub(crate) ends: Ends,
    /// Bytes of JSON in variables and in results of iterations.
    pub(crate) bytes: usize,
    /// The approximate memory of cells, their outputs and items, in bytes.
    pub(crate) weight: usize,
    /// An unhandled failure: the run must fail.
    pub(crate) unhandled: Option<Box<(StepKey, Failure)>>,
    /// Steps whose failure was not handled, with their last attempt. A retry reopens them.
    pub(crate) failed: BTreeMap<StepKey, u32>,
}

/// Bytes of an item beside its JSON.
const ITEM_OVERHEAD_BYTES: usize = 64;

/// The statuses and outputs of the end nodes that were reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ends {
    pub(crate) reached: u32,
    pub(crate) error: Option<StepKey>,
    pub(crate) terminated: bool,
    pub(crate) output: Map<String, Value>,
}

/// The graph itself, or one iteration of a body.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scope {
    /// By slot.
    pub(crate) cells: Vec<Cell>,
    pub(crate) unsettled: u32,
    /// Variables of this scope; they are not visible outside it.
    pub(crate) vars: BTreeMap<String, Payload>,
}

impl Scope {
    fn weight(&self) -> usize {
        let outputs = self.cells.iter().filter_map(|cell| cell.output.as_ref());
        96 + 64 * self.cells.len() + outputs.map(Payload::size).sum::<usize>()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) stage: Stage,
    pub(crate) unsettled_in: u32,
    pub(crate) live_in: u32,
    /// `None` for null, so that a snapshot can be read back unchanged.
    pub(crate) output: Option<Payload>,
    /// The published event that completed a wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<Box<EventRef>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    #[default]
    Pending,
    Open,
    Completed,
    Failed,
    Skipped,
}

/// The prefix of the keys of all steps that a failure made obsolete.
pub(crate) type Dropped = Option<String>;

impl Progress {
    /// The iterations in progress, outer ones first.
    pub fn iterations(&self) -> impl Iterator<Item = &ScopePath> {
        self.scopes.keys().filter(|path| !path.is_root())
    }

    /// Whether a step may be dispatched, or an entry for a loop is due.
    pub(crate) fn has_ready_steps(&self) -> bool {
        !self.agenda.is_empty()
    }

    pub(crate) fn has_failed_steps(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Removes the failed steps whose keys begin with a prefix. The keys are one range.
    pub(crate) fn drop_failed(&mut self, prefix: &str) {
        let range = self.failed.range(StepKey::from(prefix)..).map(|(step, _)| step);
        let steps: Vec<_> = range.take_while(|step| step.as_str().starts_with(prefix)).cloned().collect();
        for step in steps {
            self.failed.remove(&step);
        }
    }

    pub(crate) fn begin(&mut self, graph: &Graph) {
        self.open_scope(graph, ScopePath::default(), 0);
    }

    fn open_scope(&mut self, graph: &Graph, path: ScopePath, body: u32) {
        let body = &graph.bodies[body as usize];
        let mut cells: Vec<Cell> = body
            .nodes
            .iter()
            .map(|node| Cell { unsettled_in: graph.node(*node).incoming, ..Cell::default() })
            .collect();
        for entry in &body.entries {
            let cell = &mut cells[graph.node(*entry).slot as usize];
            cell.unsettled_in -= 1;
            cell.live_in += 1;
        }
        for node in &body.nodes {
            if is_decided(graph.node(*node), &cells[graph.node(*node).slot as usize]) {
                self.agenda.insert(StepPath { path: path.clone(), node: *node });
            }
        }
        let scope = Scope { unsettled: cells.len() as u32, cells, vars: BTreeMap::new() };
        self.weight += scope.weight();
        self.scopes.insert(path, scope);
    }

    pub(crate) fn cell(&self, graph: &Graph, step_path: &StepPath) -> Option<&Cell> {
        self.scopes.get(&step_path.path)?.cells.get(graph.node(step_path.node).slot as usize)
    }

    fn cell_mut(&mut self, graph: &Graph, step_path: &StepPath) -> Option<&mut Cell> {
        self.scopes.get_mut(&step_path.path)?.cells.get_mut(graph.node(step_path.node).slot as usize)
    }

    /// Records a dispatch. The first dispatch of an iteration opens its scope.
    pub(crate) fn dispatched(&mut self, graph: &Graph, step_path: &StepPath, items: Option<&[Payload]>) -> Option<()> {
        if !self.scopes.contains_key(&step_path.path) {
            let (owner, iteration) = step_path.path.owner()?;
            let repeat = self.repeats.get_mut(&owner)?;
            if repeat.next != iteration || repeat.pace == Pacing::Waits {
                return None;
            }
            repeat.items.get(iteration as usize)?;
            repeat.running.insert(iteration);
            repeat.next += 1;
            repeat.pace = Pacing::Unset;
            self.open_scope(graph, step_path.path.clone(), graph.node(owner.node).body?);
            self.refresh(graph, &owner);
        }
        let cell = self.cell_mut(graph, step_path)?;
        if !matches!(cell.stage, Stage::Pending | Stage::Open) {
            return None;
        }
        cell.stage = Stage::Open;
        self.agenda.remove(step_path);
        if let Some(items) = items {
            graph.node(step_path.node).body?;
            let results = vec![None; items.len()];
            self.weight += ITEM_OVERHEAD_BYTES * items.len();
            self.repeats.insert(step_path.clone(), Repeat { items: items.to_vec(), results, ..Repeat::default() });
            self.refresh(graph, step_path);
        }
        Some(())
    }

    pub(crate) fn completed(&mut self, graph: &Graph, step_path: &StepPath, outcome: &Outcome) -> Option<()> {
        let Outcome { output, handle, event, .. } = outcome;
        let node = graph.node(step_path.node);
        if self.repeats.get(step_path).is_some_and(|repeat| !repeat.running.is_empty()) {
            return None;
        }
        let cell = self.cell_mut(graph, step_path).filter(|cell| cell.stage == Stage::Open)?;
        cell.stage = Stage::Completed;
        cell.output = non_null(output.clone());
        cell.event.clone_from(event);
        self.weight += cell.output.as_ref().map_or(0, Payload::size);
        if let NodeKind::End { is_error, terminate, .. } = &node.kind {
            self.ends.reached += 1;
            if *is_error && self.ends.error.is_none() {
                self.ends.error = Some(step_path.key(graph));
            }
            self.ends.terminated |= *terminate;
            if let Some(Value::Object(fields)) = output.value().get("workflowOutput") {
                self.ends.output.extend(fields.clone());
            }
        }
        self.drop_inside(step_path);
        self.agenda.remove(step_path);
        let handle = handle.as_deref().unwrap_or_else(|| node.kind.default_handle());
        self.settle_edges(graph, step_path, Some(handle));
        Some(())
    }

    pub(crate) fn skipped(&mut self, graph: &Graph, step_path: &StepPath) -> Option<()> {
        let cell = self.cell_mut(graph, step_path).filter(|cell| cell.stage == Stage::Pending)?;
        cell.stage = Stage::Skipped;
        self.agenda.remove(step_path);
        self.settle_edges(graph, step_path, None);
        Some(())
    }

    /// Records a final failure. Returns the steps that it makes obsolete, and `true` if an edge or a loop continues
    /// after it.
    pub(crate) fn failed(&mut self, graph: &Graph, step_path: &StepPath, failure: &Failure) -> Option<(bool, Dropped)> {
        let node = graph.node(step_path.node);
        let cell = self.cell_mut(graph, step_path).filter(|cell| cell.stage == Stage::Open)?;
        cell.stage = Stage::Failed;
        self.agenda.remove(step_path);
        if node.handles_failure() {
            let dropped = self.drop_inside(step_path).then(|| format!("{}[", step_path.key(graph)));
            self.settle_edges(graph, step_path, Some("error"));
            return Some((true, dropped));
        }
        if node.on_error == OnError::FailWorkflow {
            self.unhandled.get_or_insert_with(|| Box::new((step_path.key(graph), failure.clone())));
            return Some((false, None));
        }
        let Some((owner, iteration)) = step_path.path.owner() else {
            self.unhandled.get_or_insert_with(|| Box::new((step_path.key(graph), failure.clone())));
            return Some((false, None));
        };
        let goes_on = matches!(
            &graph.node(owner.node).kind,
            NodeKind::Loop(config) if config.on_item_error == OnItemError::Continue
        );
        if goes_on {
            let prefix = step_path.path.prefix(graph);
            self.end_iteration(graph, &step_path.path, Payload::null());
            return Some((true, Some(prefix)));
        }
        if let Some(repeat) = self.repeats.get_mut(&owner) {
            repeat.failed.get_or_insert_with(|| (iteration, failure.clone()));
        }
        self.refresh(graph, &owner);
        Some((false, None))
    }

    /// Reopens a failed step: a loop continues with its unfinished items.
    pub(crate) fn reopen(&mut self, graph: &Graph, step_path: &StepPath) {
        self.unhandled = None;
        if let Some(cell) = self.cell_mut(graph, step_path) {
            cell.stage = Stage::Open;
        }
        if let Some(repeat) = self.repeats.get_mut(step_path) {
            repeat.failed = None;
            // The failure of the loop ended the timer between two items.
            repeat.pace = Pacing::Unset;
            self.refresh(graph, step_path);
        }
    }

    pub(crate) fn paced(&mut self, graph: &Graph, step_path: &StepPath, pace: Pacing) {
        if let Some(repeat) = self.repeats.get_mut(step_path) {
            repeat.pace = pace;
        }
        self.refresh(graph, step_path);
    }

    /// The item of an iteration.
    pub(crate) fn item(&self, path: &ScopePath) -> Option<&Payload> {
        let (owner, iteration) = path.owner()?;
        self.repeats.get(&owner)?.items.get(iteration as usize)
    }

    /// Sets a variable in a scope, if the scope still exists.
    pub(crate) fn set(&mut self, path: &ScopePath, name: &str, value: Payload) {
        let Some(scope) = self.scopes.get_mut(path) else { return };
        self.bytes += value.size();
        if let Some(before) = scope.vars.insert(name.to_owned(), value) {
            self.bytes -= before.size();
        }
    }

    /// Settles the edges that leave a node: live by one handle, dead by the others.
    fn settle_edges(&mut self, graph: &Graph, step_path: &StepPath, live: Option<&str>) {
        let Some(scope) = self.scopes.get_mut(&step_path.path) else { return };
        for out in &graph.node(step_path.node).out {
            let target = graph.node(out.to);
            let cell = &mut scope.cells[target.slot as usize];
            cell.unsettled_in -= 1;
            cell.live_in += u32::from(live == Some(out.handle.as_str()));
            if is_decided(target, cell) {
                self.agenda.insert(StepPath { path: step_path.path.clone(), node: out.to });
            }
        }
        scope.unsettled -= 1;
        if scope.unsettled == 0 && step_path.path != ScopePath::default() {
            let result = result_of(graph, &step_path.path, scope);
            self.end_iteration(graph, &step_path.path, result);
        }
    }

    fn end_iteration(&mut self, graph: &Graph, path: &ScopePath, result: Payload) {
        let Some((owner, iteration)) = path.owner() else { return };
        self.drop_within(path);
        if let Some(repeat) = self.repeats.get_mut(&owner) {
            self.bytes += result.size();
            repeat.bytes += result.size();
            repeat.running.remove(&iteration);
            repeat.results[iteration as usize] = non_null(result);
        }
        self.refresh(graph, &owner);
    }

    /// Removes a loop or scope in progress, with its iterations; `false` if there is none.
    fn drop_inside(&mut self, owner: &StepPath) -> bool {
        let Some(repeat) = self.repeats.remove(owner) else { return false };
        self.bytes -= repeat.bytes;
        self.weight -= ITEM_OVERHEAD_BYTES * repeat.items.len();
        for iteration in repeat.running {
            self.drop_within(&owner.path.inside(owner.node, iteration));
        }
        true
    }

    /// Removes one iteration with everything in it, which is one range of each ordered map.
    fn drop_within(&mut self, path: &ScopePath) {
        let first = StepPath { path: path.clone(), node: 0 };
        let scopes: Vec<_> = self
            .scopes
            .range(path.clone()..)
            .map(|(path, _)| path)
            .take_while(|p| p.is_within(path))
            .cloned()
            .collect();
        for scope in scopes.iter().filter_map(|path| self.scopes.remove(path)) {
            self.bytes -= scope.vars.values().map(Payload::size).sum::<usize>();
            self.weight -= scope.weight();
        }
        let repeats: Vec<_> = self
            .repeats
            .range(first.clone()..)
            .map(|(step_path, _)| step_path)
            .take_while(|step_path| step_path.path.is_within(path))
            .cloned()
            .collect();
        for repeat in repeats.iter().filter_map(|step_path| self.repeats.remove(step_path)) {
            self.bytes -= repeat.bytes;
            self.weight -= ITEM_OVERHEAD_BYTES * repeat.items.len();
        }
        let agenda: Vec<_> =
            self.agenda.range(first..).take_while(|step_path| step_path.path.is_within(path)).cloned().collect();
        for step_path in agenda {
            self.agenda.remove(&step_path);
        }
    }

    /// Puts a loop or scope on the agenda if and only if something is ready there.
    fn refresh(&mut self, graph: &Graph, step_path: &StepPath) {
        let is_open = self.cell(graph, step_path).is_some_and(|cell| cell.stage == Stage::Open);
        let is_ready = is_open
            && self.repeats.get(step_path).is_some_and(|repeat| repeat.ready(graph.node(step_path.node)).is_some());
        if is_ready {
            self.agenda.insert(step_path.clone());
        } else {
            self.agenda.remove(step_path);
        }
    }

    pub(crate) fn is_under_way(&self, step_path: &StepPath) -> bool {
        self.repeats.contains_key(step_path)
    }

    pub(crate) fn ends_output(&self) -> &Map<String, Value> {
        &self.ends.output
    }

    pub(crate) fn step_status(&self, graph: &Graph, step: &StepKey, has_ended: bool) -> Option<StepStatus> {
        let cell = self.cell(graph, &StepPath::find(graph, step)?)?;
        Some(match cell.stage {
            Stage::Pending | Stage::Open if has_ended => StepStatus::Cancelled,
            Stage::Pending => StepStatus::Pending,
            Stage::Open => StepStatus::Running,
            Stage::Completed => StepStatus::Completed,
            Stage::Failed => StepStatus::Failed,
            Stage::Skipped => StepStatus::Skipped,
        })
    }

    /// The agenda, computed by visiting every node. The laws compare it with the folded one.
    pub(crate) fn scan(&self, graph: &Graph) -> BTreeSet<StepPath> {
        let mut found = BTreeSet::new();
        for (path, scope) in &self.scopes {
            let body = path.owner().map_or(0, |(owner, _)| graph.node(owner.node).body.unwrap_or(0));
            for node in &graph.bodies[body as usize].nodes {
                let cell = &scope.cells[graph.node(*node).slot as usize];
                let step_path = StepPath { path: path.clone(), node: *node };
                let is_ready = match cell.stage {
                    Stage::Pending => is_decided(graph.node(*node), cell),
                    Stage::Open => {
                        self.repeats.get(&step_path).is_some_and(|repeat| repeat.ready(graph.node(*node)).is_some())
                    }
                    Stage::Completed | Stage::Failed | Stage::Skipped => false,
                };
                if is_ready {
                    found.insert(step_path);
                }
            }
        }
        found
    }
}

/// When is a node decided?
///
/// 1. `all`: when every edge into it is settled.
/// 2. `any`: at the first live edge, or when every edge is settled.
fn is_decided(node: &Node, cell: &Cell) -> bool {
    if cell.stage != Stage::Pending {
        return false;
    }
    match node.join {
        Join::All => cell.unsettled_in == 0,
        Join::Any => cell.live_in > 0 || cell.unsettled_in == 0,
    }
}

fn non_null(payload: Payload) -> Option<Payload> {
    (!payload.is_null()).then_some(payload)
}

/// The result of an iteration: the output of the body's last node; of several last nodes, an object by node id.
fn result_of(graph: &Graph, path: &ScopePath, scope: &Scope) -> Payload {
    let Some((owner, _)) = path.owner() else { return Payload::null() };
    let Some(body) = graph.node(owner.node).body else { return Payload::null() };
    let output = |node: u32| scope.cells[graph.node(node).slot as usize].output.clone().unwrap_or_default();
    match graph.bodies[body as usize].lasts.as_slice() {
        [] => Payload::null(),
        [last] => output(*last),
        lasts => {
            let fields: Map<String, Value> =
                lasts.iter().map(|node| (graph.node(*node).id.clone(), output(*node).value().clone())).collect();
            Payload::from(Value::Object(fields))
        }
    }
}

/// Serialises maps whose keys are not strings as lists of pairs.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Vec::<(K, V)>::deserialize(deserializer).map(|pairs| pairs.into_iter().collect())
    }
}
