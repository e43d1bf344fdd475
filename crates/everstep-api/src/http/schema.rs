//! Schemas of the core's types in the API. The core itself has no schemas: a field of such a type is marked
//! `#[schemars(with = "Id")]`.

use schemars::json_schema;

/// A type that has only a schema, which is inlined.
macro_rules! inline_schema {
    ($(#[$doc:meta])* $name:ident, $schema:expr) => {
        $(#[$doc])*
        pub(crate) enum $name {}

        impl ::schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                $schema
            }
        }
    };
}

pub(crate) use inline_schema;

inline_schema!(
    /// Any JSON.
    Json,
    json_schema!({})
);
inline_schema!(
    /// Any JSON object.
    Object,
    json_schema!({"type": "object"})
);
inline_schema!(
    /// A UUID.
    Id,
    json_schema!({"type": "string", "format": "uuid"})
);
inline_schema!(
    /// A time.
    Moment,
    json_schema!({"type": "string", "format": "date-time"})
);
inline_schema!(
    /// A time, or a day: its midnight in UTC.
    MomentOrDay,
    json_schema!({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]})
);
