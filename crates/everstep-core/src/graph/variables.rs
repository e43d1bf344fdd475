//! Which names an expression may read: what the nodes before it write, and what is always there.
//!
//! When is a name known at a node?
//!
//! 1. `ctx` and `vars` are the context; `payload`, `meta` and `null` are always there.
//! 2. A variable is known if a node before this one writes it, by any path: it need not have been written, since
//!    another path may have been taken, but it can have been. A failed node whose failure is handled writes too.
//! 3. Before a node of a body is also what is before the loop or scope around it. What a body writes is not seen
//!    outside it, nor in its next iteration.
//! 4. A loop's item and index names are known in its body, alone and as variables.
//! 5. `__node_x` is known if node `x` is before this one and not inside another body.
//! 6. A variable with a fallback in its expression is forgiven: it may be set from outside while the run goes on.

use std::collections::{BTreeMap, BTreeSet};

use super::bodies::Link;
use super::compile::{HINTED_PROBLEMS_MAX, points_back};
use super::model::NodeKind;
use super::problem::{Problem, nearest};
use super::read::NodeText;

const PROBLEM_CODE: &str = "UNKNOWN_VARIABLE";
const ROOTS: &[&str] = &["ctx", "vars", "payload", "meta", "null"];
const META: &[&str] = &["runId", "workflow", "version", "startedAt"];
const NODE_PREFIX: &str = "__node_";
/// Names that a hint lists.
const LISTED_NAMES_MAX: usize = 10;

/// A name that an expression of a node reads.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    /// Where in the definition, as a JSON pointer.
    pub(crate) path: String,
    pub(crate) root: String,
    pub(crate) name: Option<String>,
    pub(crate) has_fallback: bool,
}

/// Notes every name that is read and not known. The graph has no cycle, and its bodies lie within each other.
pub(crate) fn check(
    texts: &[NodeText],
    links: &[Link],
    owners: &[Option<u32>],
    index: &BTreeMap<String, u32>,
    problems: &mut Vec<Problem>,
) {
    if texts.iter().all(|text| text.reads.is_empty()) {
        return;
    }
    let mut writers: BTreeMap<&str, Bits> = BTreeMap::new();
    let mut unsure = Bits::new(texts.len());
    for (node, text) in texts.iter().enumerate() {
        match &text.output_variable {
            Some(variable) => writers.entry(variable).or_insert_with(|| Bits::new(texts.len())).insert(node),
            // What a node of an unknown type would write is not known, and its type is told already.
            None if text.type_name.is_none() => unsure.insert(node),
            None => {}
        }
    }
    let graph = Graph { texts, owners, index, before: find_before(texts, links, owners), writers, unsure };
    for node in 0..texts.len() {
        graph.check_node(node, problems);
    }
}

struct Graph<'a> {
    texts: &'a [NodeText],
    owners: &'a [Option<u32>],
    index: &'a BTreeMap<String, u32>,
    /// The nodes before each node.
    before: Vec<Bits>,
    /// The nodes that write each variable.
    writers: BTreeMap<&'a str, Bits>,
    /// Nodes that may write any variable.
    unsure: Bits,
}

impl<'a> Graph<'a> {
    fn check_node(&self, node: usize, problems: &mut Vec<Problem>) {
        let Some(locals) = self.locals(node) else { return };
        if self.before[node].meets(&self.unsure) {
            return;
        }
        let mut told = BTreeSet::new();
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
            if told.insert((read.path.as_str(), unknown)) {
                let is_hinted = problems.len() < HINTED_PROBLEMS_MAX;
                problems.push(self.problem(node, &locals, &read.path, unknown, is_hinted));
            }
        }
    }

    /// The item and index names of the loops around a node; `None` if one of them could not be read.
    fn locals(&self, node: usize) -> Option<Vec<&'a str>> {
        let mut locals = Vec::new();
        let mut owner = self.owners[node];
        while let Some(around) = owner {
            match &self.texts[around as usize].kind {
                Some(NodeKind::Loop(config)) => locals.extend([config.item.as_str(), config.index.as_str()]),
                Some(_) => {}
                None => return None,
            }
            owner = self.owners[around as usize];
        }
        Some(locals)
    }

    fn knows(&self, node: usize, locals: &[&str], name: &str) -> bool {
        let before = &self.before[node];
        let is_node = || {
            let other = name.strip_prefix(NODE_PREFIX).and_then(|id| self.index.get(id));
            other.is_some_and(|other| before.contains(*other as usize))
        };
        name == "input"
            || locals.contains(&name)
            || self.writers.get(name).is_some_and(|writers| writers.meets(before))
            || is_node()
    }

    fn problem(&self, node: usize, locals: &[&str], path: &str, unknown: Unknown<'_>, is_hinted: bool) -> Problem {
        let known = || {
            let written = self.writers.iter().filter(|(_, writers)| writers.meets(&self.before[node]));
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
                let message = format!("there is no `{root}` here");
                let hint = if known().any(|name| name == root) {
                    format!("write ctx.{root}")
                } else {
                    let roots = || ROOTS[..4].iter().copied().chain(locals.iter().copied());
                    let near = if is_hinted { nearest(root, roots()) } else { None };
                    near.map_or_else(
                        || format!("an expression begins with one of {}", roots().collect::<Vec<_>>().join(", ")),
                        |near| format!("did you mean {near:?}?"),
                    )
                };
                (message, hint)
            }
            Unknown::Meta(name) => (format!("`meta` has no field {name:?}"), format!("one of {}", META.join(", "))),
            Unknown::Variable(name) => {
                let message = format!("`ctx.{name}` is written by no node before this one");
                let hint = match name.strip_prefix(NODE_PREFIX) {
                    Some(id) if self.index.contains_key(id) => {
                        format!("node {id:?} does not come before this one, or stands in a body of its own")
                    }
                    Some(id) => format!("there is no node {id:?}"),
                    None => match self.writers.get(name).and_then(Bits::first) {
                        Some(writer) => format!(
                            "node {:?} writes it, but does not come before this one or stands in a body of its own",
                            self.texts[writer].id
                        ),
                        None => match if is_hinted { nearest(name, known()) } else { None } {
                            Some(near) => format!("did you mean ctx.{near}?"),
                            None => format!("known here: {}; give it a default() if it is set from outside", listed()),
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

/// The nodes before each node, in the order of the edges: rule 2 and 3.
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
