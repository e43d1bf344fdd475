//! The verbs of links: upsert and delete.

use super::change::Effect;
use super::failure::OpFailure;
use super::fold::Draft;
use super::limits::DELETED_LINKS_MAX;
use super::link::{Link, LinkId, LinkKey};
use super::op::Verb;
use super::output::{UnlinkOutput, UpsertOutput, to_payload};
use super::requests::{UnlinkRequest, UpsertRequest};
use crate::ids::RunId;
use crate::payload::Payload;

/// Writes a link. A link with the same sides and relation keeps its id and its creation time.
pub(super) fn upsert(draft: &mut Draft<'_>, request: &UpsertRequest) -> Payload {
    let key = request.link_key();
    let change = draft.namespace.next_change();
    let before = draft.namespace.link(&key).map(|link| (link.id, link.created_at));
    let (id, created_at) = before.unwrap_or_else(|| (new_id(draft), draft.now));
    let link = Link {
        id,
        key,
        bytes: request.attributes.size(),
        attributes: Some(request.attributes.clone()),
        change,
        run: draft.op.author.run,
        step: draft.op.author.step.clone(),
        created_at,
        updated_at: draft.now,
    };
    draft.namespace.put_link(link.clone());
    draft.record_change(Verb::Upsert, Effect::Linked(link));
    to_payload(&UpsertOutput { link_id: id, created: before.is_none(), change })
}

/// Deletes all links that a request selects, each with a change.
pub(super) fn unlink(draft: &mut Draft<'_>, request: &UnlinkRequest) -> Result<Payload, OpFailure> {
    let selected = draft.namespace.links().filter(|link| request.selects(link.id, &link.key));
    let mut keys: Vec<LinkKey> = selected.map(|link| link.key.clone()).take(DELETED_LINKS_MAX + 1).collect();
    keys.sort();
    draft.deleted_links += keys.len();
    if draft.deleted_links > DELETED_LINKS_MAX {
        return Err(OpFailure::invalid(format!(
            "more than {DELETED_LINKS_MAX} links would be deleted, which is the limit of one op; name the other side or \
             the relation as well"
        )));
    }
    for key in &keys {
        if let Some(link) = draft.namespace.delete_link(key) {
            draft.record_change(Verb::Unlink, Effect::Unlinked(link));
        }
    }
    Ok(to_payload(&UnlinkOutput { deleted_count: keys.len() as u64 }))
}

fn new_id(draft: &mut Draft<'_>) -> LinkId {
    let random = draft.next_random();
    LinkId(RunId::new(draft.now, random).uuid())
}
