//! `everstep nodes`: the servers that share a database.

use std::process::ExitCode;

use anyhow::Context;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use everstep_core::time::Timestamp;
use everstep_engine::NodeClock;
use everstep_store::NodeRow;
use serde_json::{Value, json};

use crate::args::NodesArgs;
use crate::config::Config;
use crate::{data_folder, output, text, wire};

pub(crate) async fn run(args: &NodesArgs, config: &Config) -> anyhow::Result<ExitCode> {
    data_folder::require_database(config)?;
    let mut stores = wire::open_stores(&config.server.data, &config.database).await;
    if !config.database.is_shared() {
        stores = stores.context("a running server lists its nodes at GET /v1/nodes");
    }
    let runs = stores?.runs;
    let mut nodes = Vec::new();
    for row in runs.nodes().await.context("reading the nodes")? {
        let owned = runs.owned_runs(row.id).await.context("counting runs")?.len();
        nodes.push((row, owned));
    }
    let now = NodeClock::system().now();
    if args.json {
        let nodes: Vec<_> = nodes.iter().map(|(row, runs)| describe(row, *runs)).collect();
        output::print(json!({"nodes": nodes}))?;
    } else {
        output::print(table(&nodes, now))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(row: &NodeRow, runs: usize) -> Value {
    json!({
        "id": row.id,
        "address": row.address,
        "leaseUntil": row.lease_until.to_string(),
        "isExpired": row.is_expired,
        "isFenced": row.fenced,
        "runs": runs,
    })
}

fn table(nodes: &[(NodeRow, usize)], now: Timestamp) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["NODE", "ADDRESS", "LEASE", "RUNS"]);
    for (row, runs) in nodes {
        let address = row.address.as_deref().map_or_else(|| "-".to_owned(), text::safe);
        table.add_row([row.id.to_string(), address, lease(row, now), runs.to_string()]);
    }
    table
}

/// The database decides whether a lease has expired; the remaining time is computed by this machine's clock.
fn lease(row: &NodeRow, now: Timestamp) -> String {
    match (row.fenced, row.is_expired) {
        (true, _) => "fenced".to_owned(),
        (false, true) => "expired".to_owned(),
        (false, false) => format!("{} left", text::span(row.lease_until.since(now))),
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::ids::NodeId;

    use super::*;

    #[test]
    fn a_lease_is_shown_with_its_state() {
        let now = Timestamp::from_millis(1_000_000);
        let row = |lease: i64, is_expired, fenced| NodeRow {
            id: NodeId::new(now, 1),
            lease_until: Timestamp::from_millis(1_000_000 + lease),
            fenced,
            is_expired,
            address: None,
        };
        assert_eq!(lease(&row(7_500, false, false), now), "7.5 s left");
        // Two clocks may differ; that of the database counts.
        assert_eq!(lease(&row(-500, false, false), now), "0 ms left");
        assert_eq!(lease(&row(5_000, true, false), now), "expired");
        assert_eq!(lease(&row(5_000, false, true), now), "fenced");
    }
}
