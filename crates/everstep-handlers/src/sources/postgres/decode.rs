//! Columns as JSON, from the binary format of the server.
//!
//! Integers are numbers, exact in all their digits. A `numeric` is a string: it may have more digits than a JSON number
//! keeps. Times are RFC 3339, bytes are base64, JSON is itself, arrays are arrays.

use std::error::Error;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tokio_postgres::types::{FromSql, Kind, Type};

use super::times;
use crate::sources::rows::write_text;

/// The maximum number of elements of one array, and the nesting depth of types: more is not decoded.
const NESTING_DEPTH_MAX: usize = 16;

/// A value in the binary format.
pub(super) struct Raw<'a> {
    kind: Type,
    bytes: &'a [u8],
}

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(kind: &Type, bytes: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self { kind: kind.clone(), bytes })
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl Raw<'_> {
    /// Writes it as JSON; none if the bytes do not fit its type.
    pub(super) fn write(&self, out: &mut String) -> Option<()> {
        write(out, &self.kind, self.bytes, NESTING_DEPTH_MAX)
    }
}

/// Whether JSON can represent values of a type.
pub(super) fn knows(kind: &Type) -> bool {
    match kind.kind() {
        Kind::Enum(_) => true,
        Kind::Array(inner) | Kind::Domain(inner) => knows(inner),
        Kind::Composite(fields) => fields.iter().all(|field| knows(field.type_())),
        Kind::Simple | Kind::Pseudo => {
            matches!(
                *kind,
                Type::BOOL
                    | Type::INT2
                    | Type::INT4
                    | Type::INT8
                    | Type::OID
                    | Type::XID
                    | Type::CID
                    | Type::FLOAT4
                    | Type::FLOAT8
                    | Type::NUMERIC
                    | Type::BYTEA
                    | Type::UUID
                    | Type::JSON
                    | Type::JSONB
                    | Type::TIMESTAMP
                    | Type::TIMESTAMPTZ
                    | Type::DATE
                    | Type::TIME
                    | Type::TIMETZ
                    | Type::INTERVAL
                    | Type::INET
                    | Type::CIDR
                    | Type::MACADDR
                    | Type::MACADDR8
                    | Type::VOID
            ) || is_text(kind)
        }
        _ => false,
    }
}

fn is_text(kind: &Type) -> bool {
    matches!(
        *kind,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN | Type::CHAR | Type::XML | Type::CSTRING
    ) || kind.name() == "citext"
}

fn write(out: &mut String, kind: &Type, bytes: &[u8], depth: usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match kind.kind() {
        Kind::Domain(inner) => return write(out, inner, bytes, depth),
        Kind::Array(element) => return write_array(out, element, bytes, depth),
        Kind::Composite(fields) => {
            let fields: Vec<(&str, &Type)> = fields.iter().map(|field| (field.name(), field.type_())).collect();
            return write_composite(out, &fields, bytes, depth);
        }
        Kind::Enum(_) => {
            write_text(out, std::str::from_utf8(bytes).ok()?);
            return Some(());
        }
        _ => {}
    }
    if is_text(kind) {
        write_text(out, std::str::from_utf8(bytes).ok()?);
        return Some(());
    }
    let mut reader = Reader(bytes);
    match *kind {
        Type::BOOL => out.push_str(if *bytes.first()? == 0 { "false" } else { "true" }),
        Type::INT2 => write!(out, "{}", reader.i16()?).ok()?,
        Type::INT4 => write!(out, "{}", reader.i32()?).ok()?,
        Type::INT8 => write!(out, "{}", reader.i64()?).ok()?,
        Type::OID | Type::XID | Type::CID => write!(out, "{}", reader.i32()?.cast_unsigned()).ok()?,
        Type::FLOAT4 => write_float(out, f64::from(f32::from_bits(reader.i32()?.cast_unsigned())), true),
        Type::FLOAT8 => write_float(out, f64::from_bits(reader.i64()?.cast_unsigned()), false),
        Type::NUMERIC => write_text(out, &numeric(&mut reader)?),
        Type::BYTEA => write_text(out, &STANDARD.encode(bytes)),
        Type::UUID => write_text(out, &uuid(bytes)?),
        Type::JSON => write_json(out, bytes)?,
        Type::JSONB => write_json(out, bytes.strip_prefix(&[1])?)?,
        Type::TIMESTAMP => write_text(out, &times::timestamp(reader.i64()?, "")),
        Type::TIMESTAMPTZ => write_text(out, &times::timestamp(reader.i64()?, "Z")),
        Type::DATE => write_text(out, &times::date(reader.i32()?)),
        Type::TIME => write_text(out, &times::time(reader.i64()?)),
        Type::TIMETZ => write_text(out, &times::time_with_zone(reader.i64()?, reader.i32()?)),
        Type::INTERVAL => write_text(out, &times::interval(reader.i64()?, reader.i32()?, reader.i32()?)),
        Type::INET | Type::CIDR => write_text(out, &network(bytes, *kind == Type::CIDR)?),
        Type::MACADDR | Type::MACADDR8 => {
            let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            write_text(out, &pairs.join(":"));
        }
        Type::VOID => out.push_str("null"),
        _ => return None,
    }
    Some(())
}

/// JSON is parsed and written again: a run must not contain text that our own parser rejects.
fn write_json(out: &mut String, bytes: &[u8]) -> Option<()> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    out.push_str(&value.to_string());
    Some(())
}

/// A float that is not a JSON number becomes a string.
fn write_float(out: &mut String, number: f64, is_short: bool) {
    if !number.is_finite() {
        let name = if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        };
        write_text(out, name);
        return;
    }
    // The shortest digits that identify this number among those of its own size.
    let number = if is_short { (number as f32).to_string().parse().unwrap_or(number) } else { number };
    out.push_str(&Value::from(number).to_string());
}

fn write_array(out: &mut String, element: &Type, bytes: &[u8], depth: usize) -> Option<()> {
    let mut reader = Reader(bytes);
    let dimensions = usize::try_from(reader.i32()?).ok().filter(|count| *count <= 6)?;
    reader.i32()?;
    reader.i32()?;
    let mut sizes = Vec::with_capacity(dimensions);
    for _ in 0..dimensions {
        sizes.push(usize::try_from(reader.i32()?).ok()?);
        reader.i32()?;
    }
    if sizes.is_empty() {
        out.push_str("[]");
        return Some(());
    }
    write_dimension(out, element, &mut reader, &sizes, depth)
}

fn write_dimension(
    out: &mut String,
    element: &Type,
    reader: &mut Reader<'_>,
    sizes: &[usize],
    depth: usize,
) -> Option<()> {
    let (size, inner) = sizes.split_first()?;
    out.push('[');
    for place in 0..*size {
        if place > 0 {
            out.push(',');
        }
        if inner.is_empty() {
            write_part(out, element, reader, depth)?;
        } else {
            write_dimension(out, element, reader, inner, depth)?;
        }
    }
    out.push(']');
    Some(())
}

fn write_composite(out: &mut String, fields: &[(&str, &Type)], bytes: &[u8], depth: usize) -> Option<()> {
    let mut reader = Reader(bytes);
    if usize::try_from(reader.i32()?).ok()? != fields.len() {
        return None;
    }
    out.push('{');
    for (place, (name, kind)) in fields.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        reader.i32()?;
        write_text(out, name);
        out.push(':');
        write_part(out, kind, &mut reader, depth)?;
    }
    out.push('}');
    Some(())
}

/// A value with its length before it; -1 is null.
fn write_part(out: &mut String, kind: &Type, reader: &mut Reader<'_>, depth: usize) -> Option<()> {
    match usize::try_from(reader.i32()?) {
        Ok(length) => write(out, kind, reader.take_bytes(length)?, depth),
        Err(_) => {
            out.push_str("null");
            Some(())
        }
    }
}

/// Groups of four digits, the position of the point, a sign and the number of digits after the point.
fn numeric(reader: &mut Reader<'_>) -> Option<String> {
    let count = reader.i16()?;
    let weight = i32::from(reader.i16()?);
    let sign = reader.i16()?.cast_unsigned();
    let scale = usize::try_from(reader.i16()?).ok()?;
    match sign {
        0xC000 => return Some("NaN".to_owned()),
        0xD000 => return Some("Infinity".to_owned()),
        0xF000 => return Some("-Infinity".to_owned()),
        _ => {}
    }
    let mut groups = Vec::new();
    for _ in 0..count {
        groups.push(reader.i16()?);
    }
    let group = |place: i32| usize::try_from(place).ok().and_then(|place| groups.get(place)).copied().unwrap_or(0);
    let mut text = String::from(if sign == 0x4000 { "-" } else { "" });
    if weight < 0 {
        text.push('0');
    }
    for place in 0..=weight {
        let digits = group(place);
        if place == 0 { write!(text, "{digits}").ok()? } else { write!(text, "{digits:04}").ok()? }
    }
    if scale > 0 {
        let mut fraction = String::new();
        let mut place = weight + 1;
        while fraction.len() < scale {
            write!(fraction, "{:04}", group(place)).ok()?;
            place += 1;
        }
        fraction.truncate(scale);
        text.push('.');
        text.push_str(&fraction);
    }
    Some(text)
}

fn uuid(bytes: &[u8]) -> Option<String> {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Some([hex.get(..8)?, hex.get(8..12)?, hex.get(12..16)?, hex.get(16..20)?, hex.get(20..32)?].join("-"))
}

fn network(bytes: &[u8], is_net: bool) -> Option<String> {
    let (family, bits, address) = (*bytes.first()?, *bytes.get(1)?, bytes.get(4..)?);
    let (address, whole) = match family {
        2 => (Ipv4Addr::from(<[u8; 4]>::try_from(address).ok()?).to_string(), 32),
        3 => (Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?).to_string(), 128),
        _ => return None,
    };
    Some(if is_net || bits != whole { format!("{address}/{bits}") } else { address })
}

/// Reads numbers in network order.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take_bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn i16(&mut self) -> Option<i16> {
        self.take_bytes(2).and_then(|bytes| bytes.try_into().ok()).map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take_bytes(4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take_bytes(8).and_then(|bytes| bytes.try_into().ok()).map(i64::from_be_bytes)
    }
}
