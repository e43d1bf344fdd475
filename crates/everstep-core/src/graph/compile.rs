//! Checks a definition and compiles it. All problems are reported together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::bodies::{self, Link};
use super::model::{Body, Graph, Join, Node, NodeKind, Out};
use super::read::{self, Definition, NodeText, Ports};
use super::variables;
use crate::definition::{Care, HINTED_PROBLEMS_MAX, Problem, nearest};
use crate::evaluate::Evaluate;
use crate::kinds::Kinds;

/// Reads, checks and compiles a definition that is to be saved.
pub fn compile(definition: &Value, kinds: &dyn Kinds, evaluate: &dyn Evaluate) -> Result<Graph, Vec<Problem>> {
    build(definition, Ports { kinds, evaluate, care: Care::Saving })
}

/// Compiles a definition that was saved before. Checks that apply only to new definitions are skipped, so that a run
/// continues even if a later version of the server would reject its workflow.
pub fn load(definition: &Value, kinds: &dyn Kinds, evaluate: &dyn Evaluate) -> Result<Graph, Vec<Problem>> {
    build(definition, Ports { kinds, evaluate, care: Care::Loading })
}

fn build(definition: &Value, ports: Ports<'_>) -> Result<Graph, Vec<Problem>> {
    let mut problems = Vec::new();
    let definition = read::read(definition, ports, &mut problems);
    let graph = definition.and_then(|definition| connect(definition, ports.care, &mut problems));
    match graph {
        Some(graph) if problems.is_empty() => Ok(graph),
        _ => Err(problems),
    }
}

fn connect(definition: Definition, care: Care, problems: &mut Vec<Problem>) -> Option<Graph> {
    let Definition { nodes: mut texts, edges, retention_days, input_schema, is_whole, unread, normal } = definition;
    let before = problems.len();
    let mut index = BTreeMap::new();
    for (i, text) in texts.iter().enumerate() {
        if index.insert(text.id.clone(), i as u32).is_some() {
            problems.push(
                Problem::at(format!("{}/id", text.path), format!("two nodes have the id {:?}", text.id))
                    .of_node(&text.id)
                    .hint("give each node a different id"),
            );
        }
    }
    let links = link(&edges, &texts, &index, problems);
    check_ends(&texts, problems);
    let shape = Shape { texts: &texts, links: &links, index: &index };
    let owners = check_bodies(&shape, problems);
    check_cycles(&shape, &owners, problems);
    check_reach(&shape, problems);
    if care == Care::Saving {
        // The order of the nodes is known only if the shape of the graph is valid.
        let is_sound = is_whole && problems.len() == before;
        let order = is_sound.then_some(variables::Order { links: &links, owners: &owners });
        variables::check(&texts, order, &index, &unread, problems);
    }
    if !problems.is_empty() {
        return None;
    }
    let kinds = texts.iter_mut().map(|text| text.kind.take()).collect::<Option<Vec<_>>>()?;
    let graph = assemble(texts, kinds, &links, &owners, index);
    Some(Graph { definition: normal, retention_days, input_schema: input_schema.map(Arc::new), ..graph })
}

struct Shape<'a> {
    texts: &'a [NodeText],
    links: &'a [Link],
    index: &'a BTreeMap<String, u32>,
}

impl Shape<'_> {
    fn id(&self, node: u32) -> &str {
        &self.texts[node as usize].id
    }
}

/// Turns ids into indices and handles into known ones. A mistyped name is replaced by the nearest known one, so that
/// one mistake is reported once.
fn link(
    edges: &[read::EdgeText],
    texts: &[NodeText],
    index: &BTreeMap<String, u32>,
    problems: &mut Vec<Problem>,
) -> Vec<Link> {
    let mut links = Vec::new();
    let mut seen = BTreeSet::new();
    for edge in edges {
        let mut find = |id: &str, field: &str| {
            if let Some(found) = index.get(id) {
                return Some(*found);
            }
            let known = || index.keys().map(String::as_str);
            let near = if problems.len() < HINTED_PROBLEMS_MAX { nearest(id, known()) } else { None };
            let hint = match near {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("known nodes: {}", known().take(10).collect::<Vec<_>>().join(", ")),
            };
            let problem = Problem::at(format!("{}/{field}", edge.path), format!("there is no node {id:?}")).hint(hint);
            problems.push(problem);
            near.and_then(|near| index.get(near).copied())
        };
        let (from, to) = (find(&edge.source, "source"), find(&edge.target, "target"));
        let (Some(from), Some(to)) = (from, to) else { continue };
        let source = &texts[from as usize];
        let Some(kind) = &source.kind else {
            // The problem of the node itself is already reported; its edges still connect the graph.
            let handle = edge.handle.clone().unwrap_or_default();
            links.push(Link { from, to, handle, path: edge.path.clone() });
            continue;
        };
        let handle = match edge.handle.as_deref() {
            None if matches!(kind, NodeKind::Loop(_) | NodeKind::Condition { .. }) => {
                problems.push(
                    Problem::at(format!("{}/sourceHandle", edge.path), "this edge needs a sourceHandle")
                        .of_node(&source.id)
                        .hint(format!("use one of {}", source.handles.join(", "))),
                );
                continue;
            }
            None => kind.default_handle(),
            Some("completed") if matches!(kind, NodeKind::Loop(_)) => "done",
            Some("output" | "success") if matches!(kind.default_handle(), "output" | "success") => {
                kind.default_handle()
            }
            Some(handle) => handle,
        };
        if matches!(kind, NodeKind::End { .. }) {
            let problem = Problem::at(&edge.path, "an edge leaves an end node").of_node(&source.id);
            problems.push(problem.hint("remove the edge: an end node has no successor"));
            continue;
        }
        let known = || source.handles.iter().map(String::as_str);
        let handle = if known().any(|known| known == handle) {
            handle
        } else {
            problems.push(
                Problem::at(format!("{}/sourceHandle", edge.path), format!("{:?} has no handle {handle:?}", source.id))
                    .of_node(&source.id)
                    .hint(format!("use one of {}", source.handles.join(", "))),
            );
            nearest(handle, known()).unwrap_or(handle)
        };
        if !seen.insert((from, to, handle.to_owned())) {
            let problem = Problem::at(&edge.path, "this edge occurs twice").of_node(&source.id);
            problems.push(problem.hint("remove one of them"));
            continue;
        }
        links.push(Link { from, to, handle: handle.to_owned(), path: edge.path.clone() });
    }
    links
}

fn check_ends(texts: &[NodeText], problems: &mut Vec<Problem>) {
    let starts: Vec<_> = texts.iter().filter(|text| text.type_name.as_deref() == Some("start")).collect();
    let unsure = texts.iter().any(|text| text.type_name.is_none());
    match starts.as_slice() {
        [] if !unsure => {
            problems.push(Problem::at("/nodes", "there is no start node").hint("add a node of type \"start\""));
        }
        [] | [_] => {}
        [_, second, ..] => problems.push(
            Problem::at(&second.path, "there are two start nodes").of_node(&second.id).hint("keep one start node"),
        ),
    }
    if !unsure && !texts.iter().any(|text| text.type_name.as_deref() == Some("end")) {
        problems.push(Problem::at("/nodes", "there is no end node").hint("add a node of type \"end\""));
    }
}

/// Finds the innermost body of every node, and every edge that crosses the border of a body.
fn check_bodies(shape: &Shape<'_>, problems: &mut Vec<Problem>) -> Vec<Option<u32>> {
    let found = bodies::find(shape.texts, shape.links);
    for (node, inner, outer) in &found.torn {
        problems.push(
            Problem::at(
                &shape.texts[*node as usize].path,
                format!("the node belongs to the bodies of both {:?} and {:?}", shape.id(*inner), shape.id(*outer)),
            )
            .of_node(shape.id(*node))
            .hint("a path leaves a body only through its loop or scope"),
        );
    }
    for link in shape.links {
        let (from, to) = (link.from as usize, link.to as usize);
        let opens_body = shape.texts[from].body_handle() == Some(link.handle.as_str());
        let is_inside = if opens_body {
            found.owner[to] == Some(link.from)
        } else {
            found.owner[from] == Some(link.to) || found.owner[from] == found.owner[to]
        };
        if !is_inside {
            let border = found.owner[to].or(found.owner[from]).unwrap_or(link.from);
            problems.push(
                Problem::at(
                    &link.path,
                    format!(
                        "the edge from {:?} to {:?} crosses the border of the body of {:?}",
                        shape.id(link.from),
                        shape.id(link.to),
                        shape.id(border)
                    ),
                )
                .of_node(shape.id(link.from))
                .hint(format!(
                    "a path leaves a body only through its loop or scope: connect the last node of the body back to \
                     {:?} and continue from there",
                    shape.id(border)
                )),
            );
        }
    }
    let opened: BTreeSet<_> = shape.links.iter().map(|link| (link.from, link.handle.as_str())).collect();
    for (node, text) in shape.texts.iter().enumerate() {
        if let (Some("end"), Some(owner)) = (text.type_name.as_deref(), found.owner[node]) {
            problems.push(
                Problem::at(&text.path, format!("an end node cannot be inside the body of {:?}", shape.id(owner)))
                    .of_node(&text.id)
                    .hint("connect the last node of the body back to the loop or scope, and put the end node after it"),
            );
        }
        let Some(handle) = text.body_handle() else { continue };
        if !opened.contains(&(node as u32, handle)) {
            problems.push(
                Problem::at(&text.path, "the node has an empty body")
                    .of_node(&text.id)
                    .hint(format!("connect its handle {handle:?} to the first node of the body")),
            );
        }
    }
    for node in &found.too_deep {
        let text = &shape.texts[*node as usize];
        let message = format!("loops and scopes are nested deeper than {}", bodies::NESTING_DEPTH_MAX);
        let problem = Problem::at(&text.path, message).of_node(&text.id);
        problems.push(problem.hint("move the inner ones to a separate workflow"));
    }
    found.owner
}

/// Whether an edge leads from a body back to its owner.
pub(crate) fn points_back(link: &Link, owners: &[Option<u32>]) -> bool {
    owners[link.from as usize] == Some(link.to)
}

fn check_cycles(shape: &Shape<'_>, owners: &[Option<u32>], problems: &mut Vec<Problem>) {
    let count = shape.texts.len();
    let mut incoming = vec![0_u32; count];
    let mut out = vec![Vec::new(); count];
    let mut back = vec![Vec::new(); count];
    for link in shape.links.iter().filter(|link| !points_back(link, owners)) {
        incoming[link.to as usize] += 1;
        out[link.from as usize].push(link.to);
        back[link.to as usize].push(link.from);
    }
    let mut free: Vec<u32> = (0..count as u32).filter(|node| incoming[*node as usize] == 0).collect();
    while let Some(node) = free.pop() {
        for to in &out[node as usize] {
            incoming[*to as usize] -= 1;
            if incoming[*to as usize] == 0 {
                free.push(*to);
            }
        }
    }
    let stuck = |node: u32| incoming[node as usize] > 0;
    let Some(mut node) = (0..count as u32).find(|node| stuck(*node)) else { return };
    // Every stuck node has a stuck predecessor: walking back ends in the cycle itself.
    let mut walked = Vec::new();
    let mut was_here = vec![false; count];
    while !std::mem::replace(&mut was_here[node as usize], true) {
        walked.push(node);
        let Some(before) = back[node as usize].iter().find(|before| stuck(**before)) else { break };
        node = *before;
    }
    let begin = walked.iter().position(|walked| *walked == node).unwrap_or(0);
    let mut names: Vec<_> = walked[begin..].iter().rev().map(|node| shape.id(*node)).collect();
    names.push(names[0]);
    names.truncate(12);
    problems.push(
        Problem::at(&shape.texts[node as usize].path, format!("a cycle outside a loop: {}", names.join(" → ")))
            .of_node(shape.id(node))
            .hint("use a loop node to repeat"),
    );
}

fn check_reach(shape: &Shape<'_>, problems: &mut Vec<Problem>) {
    let is_start = |text: &NodeText| text.type_name.as_deref() == Some("start");
    let Some(start) = shape.texts.iter().position(is_start) else { return };
    let mut out = vec![Vec::new(); shape.texts.len()];
    for link in shape.links {
        out[link.from as usize].push(link.to);
        if link.to as usize == start {
            let problem = Problem::at(&link.path, "an edge leads to the start node").of_node(shape.id(link.from));
            problems.push(problem.hint("use a loop node to repeat"));
        }
    }
    let mut reached = vec![false; shape.texts.len()];
    let mut todo = vec![start as u32];
    while let Some(node) = todo.pop() {
        if !std::mem::replace(&mut reached[node as usize], true) {
            todo.extend(&out[node as usize]);
        }
    }
    for (node, text) in shape.texts.iter().enumerate() {
        // A second start node and a duplicate id are reported elsewhere.
        let is_reported = is_start(text) || shape.index.get(&text.id) != Some(&(node as u32));
        if reached[node] || is_reported {
            continue;
        }
        problems.push(
            Problem::at(&text.path, "the node is not reachable from the start node")
                .of_node(&text.id)
                .hint("connect it, or remove it"),
        );
    }
}

fn assemble(
    texts: Vec<NodeText>,
    kinds: Vec<NodeKind>,
    links: &[Link],
    owners: &[Option<u32>],
    index: BTreeMap<String, u32>,
) -> Graph {
    let mut bodies = vec![Body::default()];
    let mut own_body = BTreeMap::new();
    for (node, kind) in kinds.iter().enumerate() {
        if kind.body_handle().is_some() {
            own_body.insert(node as u32, bodies.len() as u32);
            bodies.push(Body::default());
        }
    }
    let mut nodes: Vec<Node> = Vec::with_capacity(texts.len());
    for (node, (text, kind)) in texts.into_iter().zip(kinds).enumerate() {
        let home = owners[node].map_or(0, |owner| own_body[&owner]);
        let slot = bodies[home as usize].nodes.len() as u32;
        bodies[home as usize].nodes.push(node as u32);
        let default_join = if matches!(kind, NodeKind::Loop(_)) { Join::Any } else { Join::All };
        nodes.push(Node {
            id: text.id,
            name: text.name,
            kind,
            join: text.join.unwrap_or(default_join),
            retry: text.retry,
            timeout: text.timeout,
            on_error: text.on_error,
            output_variable: text.output_variable,
            handles: text.handles,
            out: Vec::new(),
            errs_back: false,
            incoming: 0,
            home,
            slot,
            body: own_body.get(&(node as u32)).copied(),
        });
    }
    for link in links {
        if points_back(link, owners) {
            nodes[link.from as usize].errs_back |= link.handle == "error";
            let body = own_body[&link.to];
            if !bodies[body as usize].lasts.contains(&link.from) {
                bodies[body as usize].lasts.push(link.from);
            }
            continue;
        }
        nodes[link.to as usize].incoming += 1;
        if nodes[link.from as usize].kind.body_handle() == Some(link.handle.as_str()) {
            bodies[own_body[&link.from] as usize].entries.push(link.to);
        } else {
            nodes[link.from as usize].out.push(Out { handle: link.handle.clone(), to: link.to });
        }
    }
    for body in &mut bodies[1..] {
        if body.lasts.is_empty() {
            body.lasts = body.nodes.iter().copied().filter(|node| nodes[*node as usize].out.is_empty()).collect();
        }
        body.lasts.sort_unstable();
    }
    Graph { nodes, bodies, index, ..Graph::default() }
}
