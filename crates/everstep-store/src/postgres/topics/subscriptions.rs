//! Subscriptions: adding them, and their columns as arrays.

use everstep_core::time::Timestamp;
use everstep_core::topics::{Origin, Subscription};
use uuid::Uuid;

use crate::error::Result;
use crate::postgres::arrays::arrays;
use crate::postgres::columns;
use crate::postgres::connection::Connection;
use crate::postgres::errors::StatementError;
use crate::postgres::queries::{Param, params, query};
use crate::postgres::store::PostgresStore;
use crate::topics::{SubscriptionOutcome, subscription_filter, target_json};
use crate::{numbers, texts};

arrays! {
    /// Subscriptions that are added.
    Added {
        workspaces: "workspaces", Uuid;
        ids: "ids", Uuid;
        patterns: "patterns", &'a str;
        heads: "heads", &'a str;
        filters: "filters", Option<&'a [u8]>;
        targets: "targets", String;
        inputs: "inputs", Option<&'a [u8]>;
        origins: "origins", Option<&'a str>;
        paused_at: "paused_at", Option<i64>;
        created_at: "created_at", i64;
    }
}

impl<'a> Added<'a> {
    fn push(&mut self, subscription: &'a Subscription) {
        self.workspaces.push(subscription.workspace.uuid());
        self.ids.push(subscription.id.uuid());
        self.patterns.push(subscription.pattern.as_str());
        self.heads.push(subscription.pattern.head());
        self.filters.push(subscription_filter(subscription));
        self.targets.push(target_json(&subscription.target));
        self.inputs.push(subscription.input.as_ref().map(|input| input.json().as_bytes()));
        self.origins.push(match &subscription.origin {
            Origin::Api => None,
            Origin::Workflow(name) => Some(name),
        });
        self.paused_at.push(subscription.paused_at.map(Timestamp::micros));
        self.created_at.push(subscription.created_at.micros());
    }
}

impl PostgresStore {
    pub(super) async fn add_one_subscription(
        &self,
        subscription: &Subscription,
        quota: usize,
    ) -> Result<SubscriptionOutcome> {
        texts::check_subscription(subscription)?;
        let workspace = subscription.workspace.uuid();
        let connection = self.connections.get().await?;
        connection.begin("begin").await?;
        let count = count_subscriptions(&connection, workspace, quota).await?;
        if count >= quota as u64 {
            connection.rollback().await?;
            return Ok(SubscriptionOutcome::QuotaReached(count));
        }
        insert_subscriptions(&connection, std::slice::from_ref(subscription)).await?;
        connection.commit().await?;
        Ok(SubscriptionOutcome::Added)
    }
}

/// The number of subscriptions of a workspace, counted to a quota and locked until the transaction ends.
pub(super) async fn count_subscriptions(
    connection: &Connection<'_>,
    workspace: Uuid,
    quota: usize,
) -> Result<u64, StatementError> {
    connection.query(query!("topics/add_subscription/1_lock"), params! { "workspace": workspace }).await?;
    let counted_max = numbers::clamp_limit(quota);
    let counted = params! { "workspace": workspace, "quota": counted_max };
    let rows = connection.query(query!("topics/add_subscription/2_count"), counted).await?;
    Ok(columns::seq(rows.first().expect("the statement always returns a row"), 0)?)
}

pub(super) async fn insert_subscriptions(
    connection: &Connection<'_>,
    subscriptions: &[Subscription],
) -> Result<(), StatementError> {
    let mut added = Added::default();
    for subscription in subscriptions {
        added.push(subscription);
    }
    let params: Vec<Param<'_>> = added.params().collect();
    connection.execute(query!("topics/add_subscription/3_insert"), &params).await?;
    Ok(())
}
