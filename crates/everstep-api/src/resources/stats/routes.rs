//! The rows of the route table.

use axum::http::Method;

use super::read;
use super::wire::Stats;
use crate::auth::Permission::View;
use crate::http::openapi::doc;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    table.guarded(
        View,
        Method::GET,
        "/v1/stats",
        doc("runs", "Get figures of runs")
            .about(
                "How many runs started and ended in each period, and how long they took. Percentiles are interpolated \
                 within buckets of durations. Test runs are not counted; a retried run that ends again is counted \
                 again. Figures are kept for 35 days. They are written once a second: a server that is killed loses \
                 those of its last second.",
            )
            .query(read::PARAMETERS)
            .answers::<Stats>(200),
        read::get,
    )
}
