//! The names that an expression may read: variables that nodes before it write, and names that are always known.
//!
//! When is a name known at a node?
//!
//! 1. `ctx` and `vars` are the context; `payload`, `meta` and `null` are always known.
//! 2. A variable is known if a node before this one writes it, on any path. A run that takes another path may reach
//!    this node without the variable. A failed node whose failure is handled also writes its variable.
//! 3. The nodes before a loop or scope are also before every node of its body. The variables that a body writes are not
//!    visible outside it, nor in its next iteration.
//! 4. A loop's item and index names are known in its body, alone and as variables.
//! 5. `__node_x` is known if node `x` is before this one and not inside another body.
//! 6. An unknown variable with a fallback in its expression is not reported: a client may set it during the run.
//! 7. A node of an unknown type writes the variable that it names. Without one it may write the default variable of
//!    any type.
//! 8. If the order of the nodes is not known, because an edge or a body is wrong, every node counts as before every
//!    other one: then only names that no node can write are reported.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::bodies::Link;
use super::compile::points_back;
use super::control;
use super::read::NodeText;
use crate::definition::{HINTED_PROBLEMS_MAX, Problem, nearest};
use crate::kinds::Kinds;

pub(crate) const PROBLEM_CODE: &str = "UNKNOWN_VARIABLE";
pub(crate) const ROOTS: &[&str] = &["ctx", "vars", "payload", "meta", "null"];
pub(crate) const META: &[&str] = &["runId", "workflow", "version", "startedAt", "trigger"];
const NODE_PREFIX: &str = "__node_";
/// Maximum number of names in a hint.
const LISTED_NAMES_MAX: usize = 10;

/// A name that an expression of a node reads.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    /// The place in the definition, as a JSON pointer.
    pub(crate) path: String,
    pub(crate) root: String,
    pub(crate) name: Option<String>,
    pub(crate) has_fallback: bool,
}

/// The edges of a graph without a cycle, and the loop or scope around each node. Bodies are nested: two bodies
/// are disjoint, or one contains the other.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    pub(crate) links: &'a [Link],
    pub(crate) owners: &'a [Option<u32>],
}

/// The known facts about the nodes that could not be read.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    /// Whether a node was read whose type is unknown.
    pub(crate) has_unknown_type: bool,
    /// Whether a node could not be read.
    has_nodes: bool,
    /// The variables that these nodes name.
    variables: BTreeSet<String>,
    /// The item and index names of these nodes, which may be loops.
    locals: Vec<String>,
    /// The default variables of all types, if a node may write one of them.
    defaults: Vec<String>,
}

impl Unread {
    /// Adds a node that could not be read.
    pub(crate) fn add_node(&mut self, node: &Value) {
        self.has_nodes = true;
        let configs = ["config", "nodeConfig"].into_iter().filter_map(|field| node.get(field));
        self.locals.extend(configs.clone().flat_map(control::loop_locals).map(str::to_owned));
        let places = std::iter::once(node).chain(configs);
        let variables = places.filter_map(|place| place.get("outputVariable")?.as_str());
        self.variables.extend(variables.map(str::to_owned));
    }

    /// Adds the default variables of all types, if they are needed.
    pub(crate) fn add_defaults(&mut self, kinds: &dyn Kinds) {
        if self.has_nodes || self.has_unknown_type {
            let of_core = control::OUTPUT_VARIABLES.iter().map(|(_, variable)| (*variable).to_owned());
            let names = kinds.names();
            let of_kinds = names.iter().filter_map(|name| kinds.find(name)?.output_variable.clone());
            self.defaults = of_core.chain(of_kinds).collect();
        }
    }

    fn may_write(&self, name: &str) -> bool {
        self.variables.contains(name) || self.has_nodes && self.defaults.iter().any(|default| default == name)
    }
}

/// Reports every name that is read and not known.
pub(crate) fn check(
    texts: &[NodeText],
    order: Option<Order<'_>>,
    index: &BTreeMap<String, u32>,
    unread: &Unread,
    problems: &mut Vec<Problem>,
) {
    if texts.iter().all(|text| text.reads.is_empty()) {
        return;
    }
    let mut writers: BTreeMap<&str, Bits> = BTreeMap::new();
    for (node, text) in texts.iter().enumerate() {
        let written: &[String] = match &text.output_variable {
            Some(variable) => std::slice::from_ref(variable),
            None if text.type_name.is_none() => &unread.defaults,
            None => &[],
        };
        for variable in written {
            writers.entry(variable).or_insert_with(|| Bits::new(texts.len())).insert(node);
        }
    }
    let before = order.map(|order| find_before(texts, order.links, order.owners));
    let all = Bits::all(texts.len());
    let unknown = (0..texts.len()).filter(|node| texts[*node].type_name.is_none()).collect();
    let owners = order.map(|order| order.owners);
    let graph = Graph { texts, owners, index, before, all, unknown, writers, unread };
    for node in 0..texts.len() {
        graph.check_node(node, problems);
    }
}

struct Graph<'a> {
    texts: &'a [NodeText],
    /// The loop or scope around each node, if the order of the nodes is known.
    owners: Option<&'a [Option<u32>]>,
    index: &'a BTreeMap<String, u32>,
    /// The nodes before each node, if their order is known.
    before: Option<Vec<Bits>>,
    all: Bits,
    /// The nodes of an unknown type. One may be meant as a loop, so that its names are known in the nodes after it.
    unknown: Vec<usize>,
    /// The nodes that may write each variable.
    writers: BTreeMap<&'a str, Bits>,
    unread: &'a Unread,
}

impl<'a> Graph<'a> {
    fn check_node(&self, node: usize, problems: &mut Vec<Problem>) {
        if self.texts[node].reads.is_empty() {
            return;
        }
        let locals = self.locals(node);
        let mut reported = BTreeSet::new();
        for read in &self.texts[node].reads {
            let is_context = matches!(read.root.as_str(), "ctx" | "vars");
            let unknown = match read.name.as_deref() {
                _ if !is_context && !ROOTS.contains(&read.root.as_str()) && !locals.contains(&read.root.as_str()) => {
                    Unknown::Root(&read.root)
                }
                Some(name) if is_context && !read.has_fallback && !self.knows(node, &locals, name) => {
                    Unknown::Variable(name)
                }
                Some(name) if read.root == "meta" && !META.contains(&name) => Unknown::Meta(name),
                Some(name) if read.root == "null" => Unknown::Variable(name),
                Some(_) | None => continue,
            };
            if reported.insert((read.path.as_str(), unknown)) {
                let is_hinted = problems.len() < HINTED_PROBLEMS_MAX;
                problems.push(self.problem(node, &locals, &read.path, unknown, is_hinted));
            }
        }
    }

    /// The nodes that may have run before a node.
    fn before(&self, node: usize) -> &Bits {
        self.before.as_ref().map_or(&self.all, |before| &before[node])
    }

    /// The item and index names of the loops around a node; of all loops if the order of the nodes is not known.
    fn locals(&self, node: usize) -> Vec<&'a str> {
        let Some(owners) = self.owners else {
            let locals = self.texts.iter().flat_map(|text| &text.locals);
            return locals.chain(&self.unread.locals).map(String::as_str).collect();
        };
        let mut locals = Vec::new();
        let mut owner = owners[node];
        while let Some(around) = owner {
            locals.extend(self.texts[around as usize].locals.iter().map(String::as_str));
            owner = owners[around as usize];
        }
        for unknown in self.unknown.iter().filter(|unknown| self.before(node).contains(**unknown)) {
            locals.extend(self.texts[*unknown].locals.iter().map(String::as_str));
        }
        locals
    }

    fn knows(&self, node: usize, locals: &[&str], name: &str) -> bool {
        let before = self.before(node);
        let is_node = || {
            let other = name.strip_prefix(NODE_PREFIX).and_then(|id| self.index.get(id));
            other.is_some_and(|other| before.contains(*other as usize))
        };
        name == "input"
            || locals.contains(&name)
            || self.writers.get(name).is_some_and(|writers| writers.meets(before))
            || is_node()
            || self.unread.may_write(name)
    }

    fn problem(&self, node: usize, locals: &[&str], path: &str, unknown: Unknown<'_>, is_hinted: bool) -> Problem {
        let known = || {
            let written = self.writers.iter().filter(|(_, writers)| writers.meets(self.before(node)));
            std::iter::once("input").chain(written.map(|(name, _)| *name)).chain(locals.iter().copied())
        };
        let listed = || {
            let mut listed: Vec<_> = known().take(LISTED_NAMES_MAX + 1).map(|name| format!("ctx.{name}")).collect();
            if listed.len() > LISTED_NAMES_MAX {
                listed[LISTED_NAMES_MAX] = "…".to_owned();
            }
            listed.join(", ")
        };
        let (message, hint) = match unknown {
            Unknown::Root(root) => {
                let message = format!("`{root}` does not exist here");
                let hint = if known().any(|name| name == root) {
                    format!("write ctx.{root}")
                } else {
                    let roots = || ROOTS[..4].iter().copied().chain(locals.iter().copied());
                    let near = if is_hinted { nearest(root, roots()) } else { None };
                    near.map_or_else(
                        || format!("begin the expression with one of {}", roots().collect::<Vec<_>>().join(", ")),
                        |near| format!("did you mean {near:?}?"),
                    )
                };
                (message, hint)
            }
            Unknown::Meta(name) => (format!("`meta` has no field {name:?}"), format!("use one of {}", META.join(", "))),
            Unknown::Variable(name) => {
                let message = format!("no node before this one writes `ctx.{name}`");
                let hint = match name.strip_prefix(NODE_PREFIX) {
                    Some(id) if self.index.contains_key(id) => {
                        format!("node {id:?} is not before this one, or is inside another body")
                    }
                    Some(id) => format!("there is no node {id:?}"),
                    None => match self.writers.get(name).and_then(Bits::first) {
                        Some(writer) => format!(
                            "node {:?} writes it, but is not before this one or is inside another body",
                            self.texts[writer].id
                        ),
                        None => match if is_hinted { nearest(name, known()) } else { None } {
                            Some(near) => format!("did you mean ctx.{near}?"),
                            None => format!("known here: {}; if a client sets this variable, add default()", listed()),
                        },
                    },
                };
                (message, hint)
            }
        };
        Problem::at(path, message).code(PROBLEM_CODE).of_node(&self.texts[node].id).hint(hint)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unknown<'n> {
    Root(&'n str),
    Variable(&'n str),
    Meta(&'n str),
}

/// The nodes before each node, in the order of the edges: rules 2 and 3.
fn find_before(texts: &[NodeText], links: &[Link], owners: &[Option<u32>]) -> Vec<Bits> {
    let count = texts.len();
    let mut incoming = vec![0_u32; count];
    let mut out: Vec<Vec<&Link>> = vec![Vec::new(); count];
    for link in links.iter().filter(|link| !points_back(link, owners)) {
        incoming[link.to as usize] += 1;
        out[link.from as usize].push(link);
    }
    let mut before = vec![Bits::new(count); count];
    let mut free: Vec<usize> = (0..count).filter(|node| incoming[*node] == 0).collect();
    while let Some(node) = free.pop() {
        let own = std::mem::take(&mut before[node]);
        for link in &out[node] {
            let to = link.to as usize;
            before[to].add(&own);
            let enters_body = texts[node].body_handle() == Some(link.handle.as_str());
            if !enters_body {
                before[to].insert(node);
            }
            incoming[to] -= 1;
            if incoming[to] == 0 {
                free.push(to);
            }
        }
        before[node] = own;
    }
    before
}

/// A set of nodes.
#[derive(Clone, Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    fn all(count: usize) -> Self {
        Self(vec![u64::MAX; count.div_ceil(64)])
    }

    fn insert(&mut self, node: usize) {
        self.0[node / 64] |= 1 << (node % 64);
    }

    fn contains(&self, node: usize) -> bool {
        self.0[node / 64] & (1 << (node % 64)) != 0
    }

    fn add(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word |= other;
        }
    }

    fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(word, other)| word & other != 0)
    }

    fn first(&self) -> Option<usize> {
        let word = self.0.iter().position(|word| *word != 0)?;
        Some(word * 64 + self.0[word].trailing_zeros() as usize)
    }
}
