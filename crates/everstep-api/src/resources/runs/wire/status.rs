//! Schemas of statuses.

use everstep_core::status;
use schemars::json_schema;

use crate::http::schema::inline_schema;

inline_schema!(
    /// One status of a run, or several.
    Statuses,
    json_schema!({"anyOf": [
        {"type": "string", "enum": words()},
        {"type": "array", "items": {"type": "string", "enum": words()}},
    ]})
);
inline_schema!(
    /// The status of a run.
    Status,
    json_schema!({"type": "string", "enum": words()})
);

fn words() -> Vec<&'static str> {
    status::Status::ALL.iter().map(|status| status.as_str()).collect()
}
