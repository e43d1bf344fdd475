//! Which nodes belong to the body of which loop or scope.

use super::model::Kind;

/// An edge between nodes that exist.
pub(crate) struct Link {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) handle: String,
    /// Its place in the definition, for problems.
    pub(crate) path: String,
}

pub(crate) struct Bodies {
    /// The innermost loop or scope around each node.
    pub(crate) owner: Vec<Option<u32>>,
    /// Nodes that lie in two bodies of which neither contains the other.
    pub(crate) torn: Vec<(u32, u32, u32)>,
}

/// Finds the bodies. The body of a loop is all that is reached from its `loop` handle without passing the loop.
pub(crate) fn find(kinds: &[Option<Kind>], links: &[Link]) -> Bodies {
    let count = kinds.len();
    let mut out: Vec<Vec<&Link>> = vec![Vec::new(); count];
    for link in links {
        out[link.from as usize].push(link);
    }
    let mut bodies: Vec<(u32, Vec<bool>, usize)> = Vec::new();
    for (index, kind) in kinds.iter().enumerate() {
        let Some(handle) = kind.as_ref().and_then(Kind::body_handle) else { continue };
        let mut inside = vec![false; count];
        let mut todo: Vec<u32> = out[index].iter().filter(|link| link.handle == handle).map(|link| link.to).collect();
        while let Some(node) = todo.pop() {
            if node as usize == index || std::mem::replace(&mut inside[node as usize], true) {
                continue;
            }
            todo.extend(out[node as usize].iter().map(|link| link.to));
        }
        let size = inside.iter().filter(|inside| **inside).count();
        bodies.push((index as u32, inside, size));
    }
    let mut owner = vec![None; count];
    let mut torn = Vec::new();
    for node in 0..count {
        let mut around: Vec<_> = bodies.iter().filter(|(_, inside, _)| inside[node]).collect();
        around.sort_by_key(|(_, _, size)| *size);
        owner[node] = around.first().map(|(owner, _, _)| *owner);
        for pair in around.windows(2) {
            let [(inner, _, _), (outer, inside, _)] = pair else { continue };
            if !inside[*inner as usize] {
                torn.push((node as u32, *inner, *outer));
            }
        }
    }
    Bodies { owner, torn }
}
