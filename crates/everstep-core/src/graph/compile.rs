//! Checks a definition and compiles it. Every problem is reported at once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::bodies::{self, Link};
use super::model::{Body, Graph, Join, Kind, Node, Out};
use super::problem::{Problem, nearest};
use super::read::{self, Definition, NodeText, Ports};
use crate::evaluate::Evaluate;
use crate::kinds::Kinds;

/// How many loops and scopes may stand inside each other.
const DEEPEST_NESTING: usize = 16;

/// Reads, checks and compiles a definition.
pub fn compile(definition: &Value, kinds: &dyn Kinds, evaluate: &dyn Evaluate) -> Result<Graph, Vec<Problem>> {
    let mut problems = Vec::new();
    let definition = read::read(definition, Ports { kinds, evaluate }, &mut problems);
    let graph = definition.and_then(|definition| connect(definition, &mut problems));
    match graph {
        Some(graph) if problems.is_empty() => Ok(graph),
        _ => Err(problems),
    }
}

fn connect(definition: Definition, problems: &mut Vec<Problem>) -> Option<Graph> {
    let Definition { nodes: mut texts, edges, retention_days, normal } = definition;
    let mut index = BTreeMap::new();
    for (i, text) in texts.iter().enumerate() {
        if index.insert(text.id.clone(), i as u32).is_some() {
            problems.push(
                Problem::at(format!("{}/id", text.path), format!("id {:?} is there twice", text.id)).of_node(&text.id),
            );
        }
    }
    let links = link(&edges, &texts, &index, problems);
    check_ends(&texts, problems);
    let kinds: Vec<_> = texts.iter_mut().map(|text| text.kind.take()).collect();
    let shape = Shape { texts: &texts, kinds: &kinds, links: &links };
    let owners = check_bodies(&shape, problems);
    check_cycles(&shape, &owners, problems);
    check_reach(&shape, problems);
    if !problems.is_empty() {
        return None;
    }
    let kinds = kinds.into_iter().collect::<Option<Vec<_>>>()?;
    Some(assemble(texts, kinds, &links, &owners, index, normal, retention_days))
}

struct Shape<'a> {
    texts: &'a [NodeText],
    kinds: &'a [Option<Kind>],
    links: &'a [Link],
}

impl Shape<'_> {
    fn id(&self, node: u32) -> &str {
        &self.texts[node as usize].id
    }
}

/// Turns ids into indices and handles into known ones.
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
            let found = index.get(id).copied();
            if found.is_none() {
                let hint = nearest(id, index.keys().map(String::as_str)).map(|near| format!("did you mean {near:?}?"));
                let mut problem = Problem::at(format!("{}/{field}", edge.path), format!("there is no node {id:?}"));
                problem.hint = hint;
                problems.push(problem);
            }
            found
        };
        let (from, to) = (find(&edge.source, "source"), find(&edge.target, "target"));
        let (Some(from), Some(to)) = (from, to) else { continue };
        let source = &texts[from as usize];
        let Some(kind) = &source.kind else { continue };
        let handle = match edge.handle.as_deref() {
            None if matches!(kind, Kind::Loop(_) | Kind::Condition { .. }) => {
                problems.push(
                    Problem::at(format!("{}/sourceHandle", edge.path), "this edge needs a sourceHandle")
                        .of_node(&source.id)
                        .hint(format!("one of {}", source.handles.join(", "))),
                );
                continue;
            }
            None => kind.default_handle(),
            Some("completed") if matches!(kind, Kind::Loop(_)) => "done",
            Some("output" | "success") if matches!(kind.default_handle(), "output" | "success") => {
                kind.default_handle()
            }
            Some(handle) => handle,
        };
        if matches!(kind, Kind::End { .. }) {
            problems.push(Problem::at(&edge.path, "no edge leaves an end").of_node(&source.id));
            continue;
        }
        if !source.handles.iter().any(|known| known == handle) {
            problems.push(
                Problem::at(format!("{}/sourceHandle", edge.path), format!("{:?} has no handle {handle:?}", source.id))
                    .of_node(&source.id)
                    .hint(format!("one of {}", source.handles.join(", "))),
            );
            continue;
        }
        if !seen.insert((from, to, handle.to_owned())) {
            problems.push(Problem::at(&edge.path, "this edge is there twice").of_node(&source.id));
            continue;
        }
        links.push(Link { from, to, handle: handle.to_owned(), path: edge.path.clone() });
    }
    links
}

fn check_ends(texts: &[NodeText], problems: &mut Vec<Problem>) {
    let starts: Vec<_> = texts.iter().filter(|text| matches!(text.kind, Some(Kind::Start))).collect();
    let unsure = texts.iter().any(|text| text.kind.is_none());
    match starts.as_slice() {
        [] if !unsure => problems.push(Problem::at("/nodes", "no start node").hint("add a node of type \"start\"")),
        [] | [_] => {}
        [_, second, ..] => problems.push(
            Problem::at(&second.path, "there are two start nodes").of_node(&second.id).hint("keep one start node"),
        ),
    }
    if !unsure && !texts.iter().any(|text| matches!(text.kind, Some(Kind::End { .. }))) {
        problems.push(Problem::at("/nodes", "no end node").hint("add a node of type \"end\""));
    }
}

/// Finds the innermost body of every node, and every edge that crosses a body's border.
fn check_bodies(shape: &Shape<'_>, problems: &mut Vec<Problem>) -> Vec<Option<u32>> {
    let found = bodies::find(shape.kinds, shape.links);
    for (node, inner, outer) in &found.torn {
        problems.push(
            Problem::at(
                &shape.texts[*node as usize].path,
                format!("lies in the bodies of both {:?} and {:?}", shape.id(*inner), shape.id(*outer)),
            )
            .of_node(shape.id(*node))
            .hint("a body is left only through its loop or scope"),
        );
    }
    for link in shape.links {
        let (from, to) = (link.from as usize, link.to as usize);
        let opens_body = shape.kinds[from].as_ref().and_then(Kind::body_handle) == Some(link.handle.as_str());
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
                    "a body is left only through its owner: point its last node back to {:?} and go on from there",
                    shape.id(border)
                )),
            );
        }
    }
    for (node, kind) in shape.kinds.iter().enumerate() {
        let text = &shape.texts[node];
        if let (Some(Kind::End { .. }), Some(owner)) = (kind, found.owner[node]) {
            problems.push(
                Problem::at(&text.path, format!("an end cannot stand in the body of {:?}", shape.id(owner)))
                    .of_node(&text.id)
                    .hint("let the body's last node point back, and put the end after the loop"),
            );
        }
        let Some(handle) = kind.as_ref().and_then(Kind::body_handle) else { continue };
        if !shape.links.iter().any(|link| link.from as usize == node && link.handle == handle) {
            problems.push(
                Problem::at(&text.path, "has no body")
                    .of_node(&text.id)
                    .hint(format!("connect its handle {handle:?} to the first node of the body")),
            );
        }
        let mut depth = 1;
        let mut around = found.owner[node];
        while let Some(owner) = around.filter(|_| depth <= DEEPEST_NESTING) {
            depth += 1;
            around = found.owner[owner as usize];
        }
        if depth > DEEPEST_NESTING {
            problems.push(
                Problem::at(&text.path, format!("stands in more than {DEEPEST_NESTING} bodies")).of_node(&text.id),
            );
        }
    }
    found.owner
}

/// Whether an edge leads from a body back to its owner.
fn points_back(link: &Link, owners: &[Option<u32>]) -> bool {
    owners[link.from as usize] == Some(link.to)
}

fn check_cycles(shape: &Shape<'_>, owners: &[Option<u32>], problems: &mut Vec<Problem>) {
    let count = shape.texts.len();
    let forward = || shape.links.iter().filter(|link| !points_back(link, owners));
    let mut incoming = vec![0_u32; count];
    let mut out = vec![Vec::new(); count];
    for link in forward() {
        incoming[link.to as usize] += 1;
        out[link.from as usize].push(link.to);
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
    // Every stuck node has a stuck one before it: walking back ends in the cycle itself.
    let mut walked = Vec::new();
    while !walked.contains(&node) {
        walked.push(node);
        let Some(link) = forward().find(|link| link.to == node && stuck(link.from)) else { break };
        node = link.from;
    }
    let begin = walked.iter().position(|walked| *walked == node).unwrap_or(0);
    let mut names: Vec<_> = walked[begin..].iter().rev().map(|node| shape.id(*node)).collect();
    names.push(names[0]);
    names.truncate(12);
    problems.push(
        Problem::at(&shape.texts[node as usize].path, format!("a cycle outside a loop: {}", names.join(" → ")))
            .of_node(shape.id(node))
            .hint("repeat with a loop node"),
    );
}

fn check_reach(shape: &Shape<'_>, problems: &mut Vec<Problem>) {
    let Some(start) = shape.kinds.iter().position(|kind| matches!(kind, Some(Kind::Start))) else { return };
    if shape.kinds.iter().any(Option::is_none) {
        return;
    }
    let mut out = vec![Vec::new(); shape.texts.len()];
    for link in shape.links {
        out[link.from as usize].push(link.to);
        if link.to as usize == start {
            problems.push(Problem::at(&link.path, "no edge leads to a start").of_node(shape.id(link.from)));
        }
    }
    let mut reached = vec![false; shape.texts.len()];
    let mut todo = vec![start as u32];
    while let Some(node) = todo.pop() {
        if !std::mem::replace(&mut reached[node as usize], true) {
            todo.extend(&out[node as usize]);
        }
    }
    for (text, _) in shape.texts.iter().zip(&reached).filter(|(_, reached)| !**reached) {
        problems.push(
            Problem::at(&text.path, "is not reached from the start").of_node(&text.id).hint("connect it, or remove it"),
        );
    }
}

fn assemble(
    texts: Vec<NodeText>,
    kinds: Vec<Kind>,
    links: &[Link],
    owners: &[Option<u32>],
    index: BTreeMap<String, u32>,
    definition: Value,
    retention_days: Option<u32>,
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
        let default_join = if matches!(kind, Kind::Loop(_)) { Join::Any } else { Join::All };
        nodes.push(Node {
            id: text.id,
            name: text.name,
            kind,
            join: text.join.unwrap_or(default_join),
            retry: text.retry,
            timeout: text.timeout,
            on_error: text.on_error,
            output_variable: text.output_variable,
            out: Vec::new(),
            incoming: 0,
            home,
            slot,
            body: own_body.get(&(node as u32)).copied(),
        });
    }
    for link in links {
        if points_back(link, owners) {
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
    Graph { nodes, bodies, index, definition, retention_days }
}
