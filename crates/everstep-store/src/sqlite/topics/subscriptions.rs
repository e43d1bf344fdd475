//! Subscriptions.

use everstep_core::ids::{SubscriptionId, WorkspaceId};
use everstep_core::time::Timestamp;
use everstep_core::topics::{Origin, Subscription, heads};
use rusqlite::{Connection, named_params};
use uuid::Uuid;

use super::rows::{collect, subscription_from_row};
use crate::error::Result;
use crate::sqlite::columns;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
use crate::topics::{SubscriptionOutcome, SubscriptionQuery, subscription_filter, target_json};
use crate::{numbers, texts};

impl Database {
    pub fn add_subscription(&mut self, subscription: &Subscription, quota: usize) -> Result<SubscriptionOutcome> {
        texts::check_subscription(subscription)?;
        let tx = self.begin()?;
        let count = count_subscriptions(&tx, subscription.workspace, quota)?;
        if count >= quota as u64 {
            return Ok(SubscriptionOutcome::QuotaReached(count));
        }
        insert_subscription(&tx, subscription)?;
        tx.commit()?;
        Ok(SubscriptionOutcome::Added)
    }

    pub fn change_subscription(&mut self, subscription: &Subscription) -> Result<bool> {
        texts::check_subscription(subscription)?;
        let changed = self.connection.prepare_cached(query!("topics/change_subscription"))?.execute(named_params! {
            ":workspace": subscription.workspace.uuid().into_bytes(),
            ":id": bytes(subscription.id),
            ":pattern": subscription.pattern.as_str(),
            ":head": subscription.pattern.head(),
            ":filter": subscription_filter(subscription),
            ":target": target_json(&subscription.target),
            ":input": subscription.input.as_ref().map(|input| input.json().as_bytes()),
        })?;
        Ok(changed == 1)
    }

    pub fn pause_subscription(
        &mut self,
        workspace: WorkspaceId,
        id: SubscriptionId,
        paused_at: Option<Timestamp>,
    ) -> Result<Option<Subscription>> {
        self.connection.prepare_cached(query!("topics/pause_subscription"))?.execute(named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":id": bytes(id),
            ":paused_at": paused_at.map(Timestamp::micros),
        })?;
        self.subscription(workspace, id)
    }

    pub fn delete_subscription(&mut self, workspace: WorkspaceId, id: SubscriptionId) -> Result<bool> {
        let params = named_params! { ":workspace": workspace.uuid().into_bytes(), ":id": bytes(id) };
        Ok(self.connection.prepare_cached(query!("topics/delete_subscription"))?.execute(params)? == 1)
    }

    pub fn subscription(&self, workspace: WorkspaceId, id: SubscriptionId) -> Result<Option<Subscription>> {
        let mut statement = self.connection.prepare_cached(query!("topics/subscription"))?;
        let mut found =
            statement.query(named_params! { ":workspace": workspace.uuid().into_bytes(), ":id": bytes(id) })?;
        found.next()?.map(subscription_from_row).transpose()
    }

    pub fn list_subscriptions(&self, workspace: WorkspaceId, query: &SubscriptionQuery) -> Result<Vec<Subscription>> {
        let workspace = workspace.uuid().into_bytes();
        let (after, limit) = (first_after(query.after), numbers::clamp_limit(query.limit));
        let mut statement;
        let found = match &query.pattern {
            Some(pattern) => {
                statement = self.connection.prepare_cached(query!("topics/list_subscriptions/2_of_pattern"))?;
                statement.query(named_params! {
                    ":workspace": workspace,
                    ":head": pattern.head(),
                    ":after": after,
                    ":pattern": pattern.as_str(),
                    ":limit": limit,
                })?
            }
            None => {
                statement = self.connection.prepare_cached(query!("topics/list_subscriptions/1_all"))?;
                statement.query(named_params! { ":workspace": workspace, ":after": after, ":limit": limit })?
            }
        };
        collect(found, subscription_from_row)
    }

    pub fn subscriptions_of(
        &self,
        workspace: WorkspaceId,
        topic: &str,
        after: Option<SubscriptionId>,
        limit: usize,
    ) -> Result<Vec<Subscription>> {
        let mut statement = self.connection.prepare_cached(query!("topics/subscriptions_of"))?;
        let mut subscriptions = Vec::new();
        for head in heads(topic) {
            let found = statement.query(named_params! {
                ":workspace": workspace.uuid().into_bytes(),
                ":head": head,
                ":after": first_after(after),
                ":limit": numbers::clamp_limit(limit),
            })?;
            subscriptions.extend(collect(found, subscription_from_row)?);
        }
        subscriptions.sort_by_key(|subscription| subscription.id);
        subscriptions.truncate(limit);
        Ok(subscriptions)
    }
}

/// The number of subscriptions of a workspace, counted to a quota.
pub(super) fn count_subscriptions(tx: &Connection, workspace: WorkspaceId, quota: usize) -> Result<u64> {
    let params = named_params! {
        ":workspace": workspace.uuid().into_bytes(),
        ":quota": numbers::clamp_limit(quota),
    };
    let mut statement = tx.prepare_cached(query!("topics/add_subscription/1_count"))?;
    Ok(statement.query_row(params, |row| columns::seq(row, 0))?)
}

pub(super) fn insert_subscription(tx: &Connection, subscription: &Subscription) -> Result<()> {
    let origin = match &subscription.origin {
        Origin::Api => None,
        Origin::Workflow(name) => Some(name.as_str()),
    };
    tx.prepare_cached(query!("topics/add_subscription/2_insert"))?.execute(named_params! {
        ":workspace": subscription.workspace.uuid().into_bytes(),
        ":id": bytes(subscription.id),
        ":pattern": subscription.pattern.as_str(),
        ":head": subscription.pattern.head(),
        ":filter": subscription_filter(subscription),
        ":target": target_json(&subscription.target),
        ":input": subscription.input.as_ref().map(|input| input.json().as_bytes()),
        ":origin": origin,
        ":paused_at": subscription.paused_at.map(Timestamp::micros),
        ":created_at": subscription.created_at.micros(),
    })?;
    Ok(())
}

pub(super) fn bytes(id: SubscriptionId) -> [u8; 16] {
    id.uuid().into_bytes()
}

fn first_after(after: Option<SubscriptionId>) -> [u8; 16] {
    after.map_or(Uuid::nil(), SubscriptionId::uuid).into_bytes()
}
