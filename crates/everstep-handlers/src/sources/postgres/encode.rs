//! JSON as parameters. They are sent as texts, which the server parses as values of their types; never as SQL.

use std::error::Error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use everstep_core::failure::{Failure, code};
use serde_json::Value;
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type};

use crate::sources::arguments::describe;
use crate::sources::query::{ArgumentType, Values};

/// A parameter as text; none is null.
#[derive(Debug)]
pub(super) struct Bound(Option<String>);

/// The parameters of a statement, in their order.
pub(super) fn bind(names: &[String], values: &Values<'_>, types: &[Type]) -> Result<Vec<Bound>, Failure> {
    let bound = names.iter().zip(types).map(|(name, kind)| {
        let Some((declared, value)) = values.get(name.as_str()) else {
            return Err(Failure::fatal(code::INVALID_CONFIG, format!("the argument {name:?} is not declared")));
        };
        let text = if value.is_null() {
            Ok(None)
        } else if *declared == ArgumentType::Json && !is_json(kind) {
            // Declared as JSON: it is sent as JSON in every place.
            if is_text(kind) { Ok(Some(value.to_string())) } else { Err("JSON".to_owned()) }
        } else {
            text(value, kind).map(Some)
        };
        text.map(Bound).map_err(|given| {
            let message = format!(
                "the argument {name:?} is {given}; the statement needs {} there; write :{name}::type to use another \
                 type",
                kind.name()
            );
            Failure::fatal(code::INVALID_CONFIG, message)
        })
    });
    bound.collect()
}

/// A value in the text format of its type, or, if it does not have the type, a description of the value.
fn text(value: &Value, kind: &Type) -> Result<String, String> {
    let other = || Err(describe(value).to_owned());
    match kind.kind() {
        Kind::Domain(inner) => return text(value, inner),
        Kind::Array(element) => return array(value, element),
        Kind::Simple | Kind::Enum(_) | Kind::Pseudo | Kind::Range(_) | Kind::Multirange(_) | Kind::Composite(_) => {}
        _ => {}
    }
    if is_json(kind) {
        return Ok(value.to_string());
    }
    match *kind {
        Type::BOOL => value.as_bool().map_or_else(other, |flag| Ok(flag.to_string())),
        Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => match value {
            Value::Number(number) => whole(number).map_or_else(|| Err("not a whole number".to_owned()), Ok),
            Value::String(text) => Ok(text.clone()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => other(),
        },
        Type::NUMERIC | Type::FLOAT4 | Type::FLOAT8 | Type::MONEY => match value {
            Value::Number(number) => Ok(number.to_string()),
            Value::String(text) => Ok(text.clone()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => other(),
        },
        Type::BYTEA => match value.as_str().map(|text| STANDARD.decode(text)) {
            Some(Ok(bytes)) => Ok(bytes.iter().fold(String::from("\\x"), |hex, byte| format!("{hex}{byte:02x}"))),
            Some(Err(_)) => Err("not base64".to_owned()),
            None => other(),
        },
        // Strings, times, UUIDs, enums and other types: the server parses their texts.
        _ => value.as_str().map_or_else(other, |text| Ok(text.to_owned())),
    }
}

/// `{"a","b",NULL}`
fn array(value: &Value, element: &Type) -> Result<String, String> {
    let Some(values) = value.as_array() else { return Err(describe(value).to_owned()) };
    let elements = values.iter().map(|value| match value {
        Value::Null => Ok("NULL".to_owned()),
        // An array in an array is another dimension.
        Value::Array(_) if !is_json(element) => array(value, element),
        value => {
            let text = text(value, element).map_err(|given| format!("an array with {given}"))?;
            Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
        }
    });
    Ok(format!("{{{}}}", elements.collect::<Result<Vec<_>, _>>()?.join(",")))
}

fn whole(number: &serde_json::Number) -> Option<String> {
    if number.is_i64() || number.is_u64() {
        return Some(number.to_string());
    }
    // 3.0 is an integer, however it was computed.
    number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9.0e15).map(|number| format!("{number:.0}"))
}

fn is_json(kind: &Type) -> bool {
    matches!(*kind, Type::JSON | Type::JSONB)
}

fn is_text(kind: &Type) -> bool {
    matches!(*kind, Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::UNKNOWN)
}

impl ToSql for Bound {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Some(text) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.to_sql(kind, out)
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }
}
