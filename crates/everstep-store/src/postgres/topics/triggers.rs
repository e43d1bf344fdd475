//! Replaces the subscriptions and the search attributes that a workflow declares, in the transaction that moves its
//! active version.

use everstep_core::ids::{SubscriptionId, WorkspaceId};
use everstep_core::limits;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_core::topics::Subscription;
use tokio_postgres::Row;

use super::rows::subscription_from_row;
use super::subscriptions::{count_subscriptions, insert_subscriptions};
use crate::error::Result;
use crate::postgres::columns;
use crate::postgres::connection::Connection;
use crate::postgres::errors::StatementError;
use crate::postgres::queries::{params, query};
use crate::postgres::search::replace_attributes;
use crate::terms::PriorVersions;
use crate::topics::trigger_changes;

/// Makes the subscriptions of a workflow, and its search attributes, those of its active version, as the transaction
/// leaves it. The transaction holds the lock of the workflow's name.
pub(in crate::postgres) async fn replace_triggers(
    connection: &Connection<'_>,
    workspace: WorkspaceId,
    name: &str,
    prior: PriorVersions,
) -> Result<(), StatementError> {
    let id = workspace.uuid();
    let key = params! { "workspace": id, "name": name };
    let active = connection.query(query!("topics/triggers/1_active"), key).await?;
    let known = connection.query(query!("topics/triggers/2_known"), key).await?;
    let (now, definition, known) = read(&active, &known)?;
    replace_attributes(connection, workspace, name, definition.as_ref(), now, prior).await?;
    let changes = trigger_changes(workspace, name, definition.as_ref(), &known, now);
    if !changes.removed.is_empty() {
        let ids: Vec<_> = changes.removed.iter().copied().map(SubscriptionId::uuid).collect();
        connection.execute(query!("topics/triggers/3_delete"), params! { "workspace": id, "ids": ids }).await?;
    }
    if changes.adds_some() {
        changes.check_quota(count_subscriptions(connection, id, limits::SUBSCRIPTIONS).await?)?;
    }
    if !changes.added.is_empty() {
        insert_subscriptions(connection, &changes.added).await?;
    }
    Ok(())
}

/// The clock, the active definition and the known subscriptions.
fn read(active: &[Row], known: &[Row]) -> Result<(Timestamp, Option<Payload>, Vec<Subscription>)> {
    let active = active.first().expect("the statement always returns a row");
    let definition: Option<&[u8]> = columns::get(active, 1)?;
    let definition = definition.map(columns::bytes_payload).transpose()?;
    let known = known.iter().map(subscription_from_row).collect::<Result<_>>()?;
    Ok((columns::time(active, 0)?, definition, known))
}
