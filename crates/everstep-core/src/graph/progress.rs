//! How far a run is through its graph: a fold of the journal.
//!
//! **Invariant**: the agenda holds exactly the places where something is ready, and is changed only by the fold.
//! So `settle` reads what is ready without looking at every node, and a step costs the same in a long run as in a
//! short one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::model::{Graph, Join, Kind, Node, OnError, OnItemError};
use super::repeat::{Pacing, Repeat};
use crate::failure::Failure;
use crate::ids::StepKey;
use crate::payload::Payload;
use crate::status::StepStatus;

/// The iterations that lead to a scope: pairs of a loop's index and an iteration. The graph itself has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Path(Vec<(u32, u32)>);

impl Path {
    pub(crate) fn inside(&self, node: u32, iteration: u32) -> Self {
        let mut path = self.0.clone();
        path.push((node, iteration));
        Self(path)
    }

    /// The place of the loop or scope around this path, and the iteration.
    pub(crate) fn owner(&self) -> Option<(Place, u32)> {
        let ((node, iteration), outer) = self.0.split_last()?;
        Some((Place { path: Self(outer.to_vec()), node: *node }, *iteration))
    }

    pub(crate) fn is_within(&self, outer: &Self) -> bool {
        self.0.starts_with(&outer.0)
    }

    /// The path as step keys have it: `each[3]`, `each[3].inner[0]`.
    pub fn name(&self, graph: &Graph) -> String {
        let mut name = self.prefix(graph);
        name.pop();
        name
    }

    /// The text before a node's id in a step key.
    pub(crate) fn prefix(&self, graph: &Graph) -> String {
        let mut prefix = String::new();
        for (node, iteration) in &self.0 {
            prefix.push_str(&graph.node(*node).id);
            prefix.push_str(&format!("[{iteration}]."));
        }
        prefix
    }
}

/// A node of one scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    pub path: Path,
    pub node: u32,
}

impl Place {
    pub(crate) fn key(&self, graph: &Graph) -> StepKey {
        let id = &graph.node(self.node).id;
        if self.path.0.is_empty() { StepKey::from(id.as_str()) } else { StepKey::from(self.path.prefix(graph) + id) }
    }

    /// Finds a step's place by its key; `None` when the graph has no such step.
    pub fn find(graph: &Graph, key: &StepKey) -> Option<Self> {
        let mut path = Vec::new();
        let mut home = 0;
        let mut segments = key.as_str().split('.').peekable();
        while let Some(segment) = segments.next() {
            if segments.peek().is_none() {
                let node = graph.find(segment)?;
                return (graph.node(node).home == home).then_some(Self { path: Path(path), node });
            }
            let (id, iteration) = segment.strip_suffix(']')?.split_once('[')?;
            // One place has one key: neither `[+1]` nor `[01]` is one.
            let is_plain = iteration == "0" || !iteration.starts_with(['0', '+']);
            let node = graph.find(id).filter(|_| is_plain)?;
            if graph.node(node).home != home {
                return None;
            }
            home = graph.node(node).body?;
            path.push((node, iteration.parse().ok()?));
        }
        None
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    #[serde(with = "pairs")]
    pub(crate) scopes: BTreeMap<Path, Scope>,
    #[serde(with = "pairs")]
    pub(crate) repeats: BTreeMap<Place, Repeat>,
    pub(crate) agenda: BTreeSet<Place>,
    pub(crate) ends: Ends,
    /// Bytes of JSON that variables and the results of iterations hold.
    pub(crate) bytes: usize,
    /// Roughly the memory that cells, their outputs and items take, in bytes.
    pub(crate) weight: usize,
    /// An unhandled failure: the run is to fail.
    pub(crate) doom: Option<Box<(StepKey, Failure)>>,
    /// Steps whose failure was not handled, with their last attempt. A retry opens them again.
    pub(crate) failed: BTreeMap<StepKey, u32>,
}

/// Bytes that an item takes beside its JSON.
const ITEM_WEIGHT: usize = 64;

/// What the ends that were reached said.
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
    /// Variables set in this scope; they are not seen outside it.
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
    /// `None` for null, so that a snapshot reads back as it was.
    pub(crate) output: Option<Payload>,
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

/// Steps that are of no more concern: everything whose key has this prefix.
pub(crate) type Dropped = Option<String>;

impl Progress {
    /// The iterations under way, outer ones first.
    pub fn iterations(&self) -> impl Iterator<Item = &Path> {
        self.scopes.keys().filter(|path| !path.0.is_empty())
    }

    /// Whether a step may be dispatched, or something is to be written for a loop.
    pub(crate) fn has_ready_steps(&self) -> bool {
        !self.agenda.is_empty()
    }

    pub(crate) fn has_failed_steps(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Forgets failed steps whose keys begin with a prefix. The keys are one range.
    pub(crate) fn drop_failed(&mut self, prefix: &str) {
        let range = self.failed.range(StepKey::from(prefix)..).map(|(step, _)| step);
        let steps: Vec<_> = range.take_while(|step| step.as_str().starts_with(prefix)).cloned().collect();
        for step in steps {
            self.failed.remove(&step);
        }
    }

    pub(crate) fn begin(&mut self, graph: &Graph) {
        self.open_scope(graph, Path::default(), 0);
    }

    fn open_scope(&mut self, graph: &Graph, path: Path, body: u32) {
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
                self.agenda.insert(Place { path: path.clone(), node: *node });
            }
        }
        let scope = Scope { unsettled: cells.len() as u32, cells, vars: BTreeMap::new() };
        self.weight += scope.weight();
        self.scopes.insert(path, scope);
    }

    pub(crate) fn cell(&self, graph: &Graph, place: &Place) -> Option<&Cell> {
        self.scopes.get(&place.path)?.cells.get(graph.node(place.node).slot as usize)
    }

    fn cell_mut(&mut self, graph: &Graph, place: &Place) -> Option<&mut Cell> {
        self.scopes.get_mut(&place.path)?.cells.get_mut(graph.node(place.node).slot as usize)
    }

    /// Notes a dispatch. The first one of an iteration opens its scope.
    pub(crate) fn dispatched(&mut self, graph: &Graph, place: &Place, items: Option<&[Payload]>) -> Option<()> {
        if !self.scopes.contains_key(&place.path) {
            let (owner, iteration) = place.path.owner()?;
            let repeat = self.repeats.get_mut(&owner)?;
            if repeat.next != iteration || repeat.pace == Pacing::Waits {
                return None;
            }
            repeat.items.get(iteration as usize)?;
            repeat.running.insert(iteration);
            repeat.next += 1;
            repeat.pace = Pacing::Unset;
            self.open_scope(graph, place.path.clone(), graph.node(owner.node).body?);
            self.refresh(graph, &owner);
        }
        let cell = self.cell_mut(graph, place)?;
        if !matches!(cell.stage, Stage::Pending | Stage::Open) {
            return None;
        }
        cell.stage = Stage::Open;
        self.agenda.remove(place);
        if let Some(items) = items {
            graph.node(place.node).body?;
            let results = vec![None; items.len()];
            self.weight += ITEM_WEIGHT * items.len();
            self.repeats.insert(place.clone(), Repeat { items: items.to_vec(), results, ..Repeat::default() });
            self.refresh(graph, place);
        }
        Some(())
    }

    pub(crate) fn completed(
        &mut self,
        graph: &Graph,
        place: &Place,
        output: &Payload,
        handle: Option<&str>,
    ) -> Option<()> {
        let node = graph.node(place.node);
        if self.repeats.get(place).is_some_and(|repeat| !repeat.running.is_empty()) {
            return None;
        }
        let cell = self.cell_mut(graph, place).filter(|cell| cell.stage == Stage::Open)?;
        cell.stage = Stage::Completed;
        cell.output = non_null(output.clone());
        self.weight += cell.output.as_ref().map_or(0, Payload::size);
        if let Kind::End { is_error, terminate, .. } = &node.kind {
            self.ends.reached += 1;
            if *is_error && self.ends.error.is_none() {
                self.ends.error = Some(place.key(graph));
            }
            self.ends.terminated |= *terminate;
            if let Some(Value::Object(fields)) = output.value().get("workflowOutput") {
                self.ends.output.extend(fields.clone());
            }
        }
        self.drop_inside(place);
        self.agenda.remove(place);
        let handle = handle.unwrap_or_else(|| node.kind.default_handle());
        self.settle_edges(graph, place, Some(handle));
        Some(())
    }

    pub(crate) fn skipped(&mut self, graph: &Graph, place: &Place) -> Option<()> {
        let cell = self.cell_mut(graph, place).filter(|cell| cell.stage == Stage::Pending)?;
        cell.stage = Stage::Skipped;
        self.agenda.remove(place);
        self.settle_edges(graph, place, None);
        Some(())
    }

    /// Notes a final failure. What it makes obsolete is returned; `true` when an edge or a loop goes on from it.
    pub(crate) fn failed(&mut self, graph: &Graph, place: &Place, failure: &Failure) -> Option<(bool, Dropped)> {
        let node = graph.node(place.node);
        let cell = self.cell_mut(graph, place).filter(|cell| cell.stage == Stage::Open)?;
        cell.stage = Stage::Failed;
        self.agenda.remove(place);
        if node.handles_failure() {
            let dropped = self.drop_inside(place).then(|| format!("{}[", place.key(graph)));
            self.settle_edges(graph, place, Some("error"));
            return Some((true, dropped));
        }
        if node.on_error == OnError::FailWorkflow {
            self.doom.get_or_insert_with(|| Box::new((place.key(graph), failure.clone())));
            return Some((false, None));
        }
        let Some((owner, iteration)) = place.path.owner() else {
            self.doom.get_or_insert_with(|| Box::new((place.key(graph), failure.clone())));
            return Some((false, None));
        };
        let goes_on = matches!(
            &graph.node(owner.node).kind,
            Kind::Loop(config) if config.on_item_error == OnItemError::Continue
        );
        if goes_on {
            let prefix = place.path.prefix(graph);
            self.end_iteration(graph, &place.path, Payload::null());
            return Some((true, Some(prefix)));
        }
        if let Some(repeat) = self.repeats.get_mut(&owner) {
            repeat.failed.get_or_insert_with(|| (iteration, failure.clone()));
        }
        self.refresh(graph, &owner);
        Some((false, None))
    }

    /// Opens a failed step again: a loop goes on with what was unfinished.
    pub(crate) fn reopen(&mut self, graph: &Graph, place: &Place) {
        self.doom = None;
        if let Some(cell) = self.cell_mut(graph, place) {
            cell.stage = Stage::Open;
        }
        if let Some(repeat) = self.repeats.get_mut(place) {
            repeat.failed = None;
            // A timer between two items ended with the loop's failure.
            repeat.pace = Pacing::Unset;
            self.refresh(graph, place);
        }
    }

    pub(crate) fn paced(&mut self, graph: &Graph, place: &Place, pace: Pacing) {
        if let Some(repeat) = self.repeats.get_mut(place) {
            repeat.pace = pace;
        }
        self.refresh(graph, place);
    }

    /// The item of an iteration.
    pub(crate) fn item(&self, path: &Path) -> Option<&Payload> {
        let (owner, iteration) = path.owner()?;
        self.repeats.get(&owner)?.items.get(iteration as usize)
    }

    /// Sets a variable in a scope, if the scope is still there.
    pub(crate) fn set(&mut self, path: &Path, name: &str, value: Payload) {
        let Some(scope) = self.scopes.get_mut(path) else { return };
        self.bytes += value.size();
        if let Some(before) = scope.vars.insert(name.to_owned(), value) {
            self.bytes -= before.size();
        }
    }

    /// Settles the edges that leave a node: live by one handle, dead by the others.
    fn settle_edges(&mut self, graph: &Graph, place: &Place, live: Option<&str>) {
        let Some(scope) = self.scopes.get_mut(&place.path) else { return };
        for out in &graph.node(place.node).out {
            let target = graph.node(out.to);
            let cell = &mut scope.cells[target.slot as usize];
            cell.unsettled_in -= 1;
            cell.live_in += u32::from(live == Some(out.handle.as_str()));
            if is_decided(target, cell) {
                self.agenda.insert(Place { path: place.path.clone(), node: out.to });
            }
        }
        scope.unsettled -= 1;
        if scope.unsettled == 0 && place.path != Path::default() {
            let result = result_of(graph, &place.path, scope);
            self.end_iteration(graph, &place.path, result);
        }
    }

    fn end_iteration(&mut self, graph: &Graph, path: &Path, result: Payload) {
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

    /// Forgets a loop or scope that is under way, with its iterations; `false` where there is none.
    fn drop_inside(&mut self, owner: &Place) -> bool {
        let Some(repeat) = self.repeats.remove(owner) else { return false };
        self.bytes -= repeat.bytes;
        self.weight -= ITEM_WEIGHT * repeat.items.len();
        for iteration in repeat.running {
            self.drop_within(&owner.path.inside(owner.node, iteration));
        }
        true
    }

    /// Forgets one iteration with everything in it. All of it lies in one range of each ordered map.
    fn drop_within(&mut self, path: &Path) {
        let first = Place { path: path.clone(), node: 0 };
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
            .map(|(place, _)| place)
            .take_while(|place| place.path.is_within(path))
            .cloned()
            .collect();
        for repeat in repeats.iter().filter_map(|place| self.repeats.remove(place)) {
            self.bytes -= repeat.bytes;
            self.weight -= ITEM_WEIGHT * repeat.items.len();
        }
        let agenda: Vec<_> =
            self.agenda.range(first..).take_while(|place| place.path.is_within(path)).cloned().collect();
        for place in agenda {
            self.agenda.remove(&place);
        }
    }

    /// Puts a loop or scope on the agenda exactly when something is ready there.
    fn refresh(&mut self, graph: &Graph, place: &Place) {
        let is_open = self.cell(graph, place).is_some_and(|cell| cell.stage == Stage::Open);
        let is_ready =
            is_open && self.repeats.get(place).is_some_and(|repeat| repeat.ready(graph.node(place.node)).is_some());
        if is_ready {
            self.agenda.insert(place.clone());
        } else {
            self.agenda.remove(place);
        }
    }

    pub(crate) fn is_under_way(&self, place: &Place) -> bool {
        self.repeats.contains_key(place)
    }

    pub(crate) fn ends_output(&self) -> &Map<String, Value> {
        &self.ends.output
    }

    pub(crate) fn step_status(&self, graph: &Graph, step: &StepKey, has_ended: bool) -> Option<StepStatus> {
        let cell = self.cell(graph, &Place::find(graph, step)?)?;
        Some(match cell.stage {
            Stage::Pending | Stage::Open if has_ended => StepStatus::Cancelled,
            Stage::Pending => StepStatus::Pending,
            Stage::Open => StepStatus::Running,
            Stage::Completed => StepStatus::Completed,
            Stage::Failed => StepStatus::Failed,
            Stage::Skipped => StepStatus::Skipped,
        })
    }

    /// The agenda, found the slow way. The laws compare it with the folded one.
    pub(crate) fn scan(&self, graph: &Graph) -> BTreeSet<Place> {
        let mut found = BTreeSet::new();
        for (path, scope) in &self.scopes {
            let body = path.owner().map_or(0, |(owner, _)| graph.node(owner.node).body.unwrap_or(0));
            for node in &graph.bodies[body as usize].nodes {
                let cell = &scope.cells[graph.node(*node).slot as usize];
                let place = Place { path: path.clone(), node: *node };
                let is_ready = match cell.stage {
                    Stage::Pending => is_decided(graph.node(*node), cell),
                    Stage::Open => {
                        self.repeats.get(&place).is_some_and(|repeat| repeat.ready(graph.node(*node)).is_some())
                    }
                    Stage::Completed | Stage::Failed | Stage::Skipped => false,
                };
                if is_ready {
                    found.insert(place);
                }
            }
        }
        found
    }
}

/// When is a node decided?
///
/// 1. `all`: once every edge into it is settled.
/// 2. `any`: at the first live edge, or once every edge is settled.
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

/// An iteration's result: the output of the body's last node; of several, an object by node id.
fn result_of(graph: &Graph, path: &Path, scope: &Scope) -> Payload {
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

/// Maps whose keys are not text, as lists of pairs.
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
