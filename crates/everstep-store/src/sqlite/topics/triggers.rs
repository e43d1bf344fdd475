//! Replaces the subscriptions and the search attributes that a workflow declares, in the transaction that moves its
//! active version.

use everstep_core::ids::WorkspaceId;
use everstep_core::limits;
use everstep_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, named_params};

use super::rows::{collect, subscription_from_row};
use super::subscriptions::{bytes, count_subscriptions, insert_subscription};
use crate::error::Result;
use crate::sqlite::columns;
use crate::sqlite::queries::query;
use crate::sqlite::search::replace_attributes;
use crate::terms::PriorVersions;
use crate::topics::trigger_changes;

/// Makes the subscriptions of a workflow, and its search attributes, those of its active version, as the transaction
/// leaves it.
pub(in crate::sqlite) fn replace_triggers(
    tx: &Connection,
    workspace: WorkspaceId,
    name: &str,
    now: Timestamp,
    prior: PriorVersions,
) -> Result<()> {
    let key = named_params! { ":workspace": workspace.uuid().into_bytes(), ":name": name };
    let definition = tx
        .prepare_cached(query!("topics/triggers/1_active"))?
        .query_row(key, |row| columns::payload(0, row.get(0)?))
        .optional()?;
    replace_attributes(tx, workspace, name, definition.as_ref(), now, prior)?;
    let mut statement = tx.prepare_cached(query!("topics/triggers/2_known"))?;
    let known = collect(statement.query(key)?, subscription_from_row)?;
    let changes = trigger_changes(workspace, name, definition.as_ref(), &known, now);
    for id in &changes.removed {
        tx.prepare_cached(query!("topics/triggers/3_delete"))?
            .execute(named_params! { ":workspace": workspace.uuid().into_bytes(), ":id": bytes(*id) })?;
    }
    if changes.adds_some() {
        changes.check_quota(count_subscriptions(tx, workspace, limits::SUBSCRIPTIONS)?)?;
    }
    for subscription in &changes.added {
        insert_subscription(tx, subscription)?;
    }
    Ok(())
}
