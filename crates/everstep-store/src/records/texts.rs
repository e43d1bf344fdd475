//! The texts of ops that a database must be able to store.

use everstep_core::ids::StepKey;
use everstep_core::records::{LinkKey, Op, PictureRequest};

use crate::error::Result;
use crate::texts::check;

/// Rejects ops with a text that cannot be stored. The check of an op's input refuses such a text as well.
pub(crate) fn check_texts(ops: &[Op]) -> Result<()> {
    for op in ops {
        check([op.namespace.as_str(), op.key.as_str(), &op.author.actor])?;
        check(op.author.step.as_ref().map(StepKey::as_str))?;
    }
    let request = PictureRequest::of_ops(ops);
    check(request.records.keys().map(|(_, _, key)| *key))?;
    for (_, _, LinkKey { from, to, relation }) in &request.links {
        check([&from.kind, &from.id, &to.kind, &to.id, relation].map(String::as_str))?;
    }
    for (_, _, unlink) in &request.deleted_links {
        let sides = [&unlink.from, &unlink.to].into_iter().flatten().flat_map(|side| [&*side.kind, &*side.id]);
        check(sides.chain(unlink.relation.as_deref()))?;
    }
    Ok(())
}
