//! Schemas of what the core's types look like on the wire. The core itself knows no schemas:
//! a field of such a type says `#[schemars(with = "Id")]`.

use std::borrow::Cow;

use everstep_core::status;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

macro_rules! inline {
    ($(#[$doc:meta])* $name:ident, $schema:expr) => {
        $(#[$doc])*
        pub(crate) enum $name {}

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

inline!(
    /// Any JSON.
    Json,
    Schema::from(true)
);
inline!(
    /// Any JSON object.
    Object,
    json_schema!({"type": "object"})
);
inline!(
    /// A UUID.
    Id,
    json_schema!({"type": "string", "format": "uuid"})
);
inline!(
    /// A time.
    Moment,
    json_schema!({"type": "string", "format": "date-time"})
);
inline!(
    /// A time, or a day: its midnight in UTC.
    MomentOrDay,
    json_schema!({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]})
);
inline!(
    /// One status of a run, or several.
    Statuses,
    json_schema!({"anyOf": [
        {"type": "string", "enum": words()},
        {"type": "array", "items": {"type": "string", "enum": words()}},
    ]})
);
inline!(
    /// The status of a run.
    Status,
    json_schema!({"type": "string", "enum": words()})
);

fn words() -> Vec<&'static str> {
    status::Status::ALL.iter().map(|status| status.as_str()).collect()
}
