//! The tick: the periodic work of a node on the database, once a second.

use std::time::Duration;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::journal::FORMAT;
use everstep_core::time::Timestamp;
use uuid::Uuid;

use super::claims::{begin_after, read_rotation};
use crate::claims::{SERVER_LANE, visits_max};
use crate::error::{Error, Result};
use crate::item::InboxId;
use crate::postgres::columns::{self, get, list};
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;
use crate::rows::{InboxRow, NodeRow, Tick, TickRequest, first_event_of};
use crate::{numbers, texts};

impl PostgresStore {
    pub(super) async fn tick_node(
        &self,
        node: NodeId,
        lease: Duration,
        now: Timestamp,
        request: &TickRequest,
    ) -> Result<Tick> {
        let lanes = request.lanes.iter().filter(|(lane, _)| !texts::has_nul(lane));
        let (lanes, rooms): (Vec<_>, Vec<_>) =
            lanes.map(|(lane, room)| (lane.as_str(), numbers::clamp_limit(*room))).unzip();
        let server = request.lanes.iter().find(|(lane, _)| lane == SERVER_LANE).map_or(0, |(_, room)| *room);
        let row = self
            .heartbeat
            .query_one(
                query!("tick" with "claim_runs/3_shares"),
                params! {
                    "lease": numbers::micros(lease),
                    "node": node.uuid(),
                    "release": numbers::clamp_limit(request.release),
                    "now": now.micros(),
                    "lanes": lanes,
                    "rooms": rooms,
                    "format": numbers::checked_integer(FORMAT)?,
                    "inbox": numbers::clamp_limit(request.inbox),
                    "stalled": first_event_of(now),
                    "limit": numbers::clamp_limit(server),
                    "rotation": begin_after(request.rotation),
                    "visits_max": numbers::clamp_limit(visits_max(server)),
                },
            )
            .await?;
        if !get::<bool>(&row, 1)? {
            return Err(Error::Fenced(node));
        }
        let (ids, leases): (Vec<Uuid>, Vec<i64>) = (list(&row, 2)?, list(&row, 3)?);
        let (fenced, expired): (Vec<bool>, Vec<bool>) = (list(&row, 4)?, list(&row, 5)?);
        let addresses: Vec<Option<String>> = list(&row, 6)?;
        let columns = ids.into_iter().zip(leases).zip(fenced).zip(expired).zip(addresses);
        let nodes = columns.map(|((((id, lease_until), fenced), is_expired), address)| NodeRow {
            id: NodeId::from_uuid(id),
            lease_until: Timestamp::from_micros(lease_until),
            fenced,
            is_expired,
            address,
        });
        let (arrived, receivers): (Vec<i64>, Vec<Uuid>) = (list(&row, 9)?, list(&row, 10)?);
        let columns = arrived.into_iter().zip(receivers).zip(list::<Vec<u8>>(&row, 11)?);
        let arrivals =
            columns.map(|((id, run), input)| InboxRow { id: InboxId(id), run: RunId::from_uuid(run), input });
        Ok(Tick {
            clock: columns::time(&row, 0)?,
            nodes: nodes.collect(),
            released: usize::try_from(get::<i64>(&row, 7)?).unwrap_or_default(),
            claimed: list(&row, 8)?.into_iter().map(RunId::from_uuid).collect(),
            rotation: read_rotation(&row, 13)?.or(request.rotation),
            arrivals: arrivals.collect(),
            has_open_events: get(&row, 12)?,
        })
    }
}
