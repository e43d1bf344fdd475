//! Finds the nodes that belong to the body of each loop and scope.

use super::read::NodeText;

/// The maximum nesting depth of loops and scopes.
pub(crate) const NESTING_DEPTH_MAX: usize = 16;

/// An edge between nodes that exist.
pub(crate) struct Link {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) handle: String,
    /// Its position in the definition, for problems.
    pub(crate) path: String,
}

pub(crate) struct Bodies {
    /// The innermost loop or scope around each node.
    pub(crate) owner: Vec<Option<u32>>,
    /// Nodes that belong to two bodies of which neither contains the other.
    pub(crate) torn: Vec<(u32, u32, u32)>,
    /// Loops and scopes that are nested too deep.
    pub(crate) too_deep: Vec<u32>,
}

/// Finds the bodies. The body of a loop is everything that is reachable from its `loop` handle without passing the
/// loop.
pub(crate) fn find(texts: &[NodeText], links: &[Link]) -> Bodies {
    let count = texts.len();
    let mut out: Vec<Vec<&Link>> = vec![Vec::new(); count];
    for link in links {
        out[link.from as usize].push(link);
    }
    // The owners of the bodies around each node, and the size of each owner's body.
    let mut around: Vec<Vec<u32>> = vec![Vec::new(); count];
    let mut sizes = vec![0_usize; count];
    let mut seen = vec![u32::MAX; count];
    for (owner, text) in texts.iter().enumerate() {
        let Some(handle) = text.body_handle() else { continue };
        let id = owner as u32;
        let mut todo: Vec<u32> = out[owner].iter().filter(|link| link.handle == handle).map(|link| link.to).collect();
        while let Some(node) = todo.pop() {
            if node == id || std::mem::replace(&mut seen[node as usize], id) == id {
                continue;
            }
            sizes[owner] += 1;
            // Deeper nesting is rejected in any case.
            if around[node as usize].len() <= NESTING_DEPTH_MAX {
                around[node as usize].push(id);
            }
            todo.extend(out[node as usize].iter().map(|link| link.to));
        }
    }
    let mut found = Bodies { owner: vec![None; count], torn: Vec::new(), too_deep: Vec::new() };
    for owners in &mut around {
        owners.sort_by_key(|owner| sizes[*owner as usize]);
    }
    for (node, owners) in around.iter().enumerate() {
        found.owner[node] = owners.first().copied();
        let is_torn = |pair: &&[u32]| !around[pair[0] as usize].contains(&pair[1]);
        if let Some(&[inner, outer]) = owners.windows(2).find(is_torn) {
            found.torn.push((node as u32, inner, outer));
        }
        if owners.len() >= NESTING_DEPTH_MAX && texts[node].body_handle().is_some() {
            found.too_deep.push(node as u32);
        }
    }
    found
}
