//! The rows of the route table.

use axum::http::Method;
use everstep_handlers::sources::{Query, Source, SourceTest};
use serde_json::json;

use super::wire::{DataSource, DataSources, QueryAnswer, QueryRun, SavedQueries, SavedQuery};
use super::{queries, sources};
use crate::auth::Permission;
use crate::http::openapi::{Parameter, doc};
use crate::http::page::PAGE_PARAMETERS;
use crate::routes::Table;

/// Adds the routes of this folder.
pub(crate) fn add(table: Table) -> Table {
    add_queries(add_sources(table))
}

fn add_sources(table: Table) -> Table {
    use Permission::{Manage, Publish, Read};
    table
        .path_parameter(
            "data-sources",
            Parameter::pattern(
                "name",
                "^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$",
                "The data source's name: 1 to 128 letters, digits, `_`, `.` or `-`, beginning with a letter or digit. \
                 Not `test`.",
            ),
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/data-sources",
            doc("data", "List data sources").about("By name.").query(PAGE_PARAMETERS).answers::<DataSources>(200),
            sources::list,
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/data-sources/{name}",
            doc("data", "Get a data source").answers::<DataSource>(200),
            sources::get,
        )
        .guarded(
            Publish,
            Method::PUT,
            "/v1/data-sources/{name}",
            doc("data", "Save a data source")
                .about(
                    "A PostgreSQL database, a SQLite file or a service that responds with JSON. Credentials are \
                     names of secrets: `{\"$secret\": \"name\"}`. It is read-only by default.",
                )
                .takes::<Source>()
                .example(json!({
                    "type": "postgres",
                    "host": "db.example.com",
                    "database": "shop",
                    "user": "reader",
                    "password": {"$secret": "shop-password"},
                    "sslMode": "verify-full",
                }))
                .answers::<DataSource>(201)
                .answers::<DataSource>(200),
            sources::put,
        )
        .guarded(
            Publish,
            Method::DELETE,
            "/v1/data-sources/{name}",
            doc("data", "Delete a data source")
                .answers_nothing(204)
                .refuses(409, "`SOURCE_IN_USE`: saved queries use it; the response lists them."),
            sources::delete,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/data-sources/{name}/test",
            doc("data", "Test a data source")
                .about(
                    "Reports whether the source can be reached and accepts the credentials. The status is 200 even if \
                     the test fails.",
                )
                .answers::<SourceTest>(200),
            sources::test,
        )
        .guarded(
            // A caller that may name both a secret and a host could send the secret to the host.
            Publish,
            Method::POST,
            "/v1/data-sources/test",
            doc("data", "Test an unsaved data source")
                .about(
                    "Reports whether the source can be reached and accepts the credentials. The status is 200 even if \
                     the test fails; nothing is saved.",
                )
                .takes::<Source>()
                .answers::<SourceTest>(200),
            sources::test_unsaved,
        )
}

fn add_queries(table: Table) -> Table {
    use Permission::{Manage, Publish, Read};
    table
        .path_parameter(
            "queries",
            Parameter::pattern(
                "id",
                "^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$",
                "The query's name: 1 to 128 letters, digits, `_`, `.` or `-`, beginning with a letter or digit.",
            ),
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/queries",
            doc("data", "List saved queries").about("By name.").query(PAGE_PARAMETERS).answers::<SavedQueries>(200),
            queries::list,
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/queries/{id}",
            doc("data", "Get a saved query").answers::<SavedQuery>(200),
            queries::get,
        )
        .guarded(
            Publish,
            Method::PUT,
            "/v1/queries/{id}",
            doc("data", "Save a query")
                .about(
                    "One statement or one request for a data source, with the arguments that it declares. Their \
                     values are always bound, never part of the statement.",
                )
                .takes::<Query>()
                .example(json!({
                    "source": "shop",
                    "sql": "select id, total from orders where customer = :customer order by id limit :most",
                    "arguments": [
                        {"name": "customer", "type": "string"},
                        {"name": "most", "type": "integer", "default": 10},
                    ],
                }))
                .answers::<SavedQuery>(201)
                .answers::<SavedQuery>(200),
            queries::put,
        )
        .guarded(
            Publish,
            Method::DELETE,
            "/v1/queries/{id}",
            doc("data", "Delete a saved query").answers_nothing(204),
            queries::delete,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/queries/{id}/run",
            doc("data", "Run a saved query")
                .about("Queries the source as a dataQuery step does.")
                .may_take::<QueryRun>()
                .example(json!({"args": {"customer": "ann"}, "limit": 5}))
                .answers::<QueryAnswer>(200)
                .refuses(
                    424,
                    "The source did not respond; `code` and `detail` contain the reason. A retry may succeed.",
                ),
            queries::run,
        )
}
