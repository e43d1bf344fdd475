//! Whole numbers in JSON. JSON Schema calls `3.0` an integer, and some clients send integers in this form: a field with
//! `#[serde(deserialize_with = "whole::number")]` accepts it.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde_json::Value;

/// An integer type.
pub trait Integer: TryFrom<i64> + TryFrom<u64> {
    const RANGE: (i128, i128);
}

macro_rules! integers {
    ($($name:ty),*) => {
        $(impl Integer for $name {
            const RANGE: (i128, i128) = (<$name>::MIN as i128, <$name>::MAX as i128);
        })*
    };
}

integers!(u16, u32, u64, usize, i64);

/// Floating-point numbers up to this one are exact.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Reads a whole number.
pub fn number<'de, D: Deserializer<'de>, T: Integer>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(WholeNumber(PhantomData))
}

/// Reads a whole number, or null.
pub fn optional<'de, D: Deserializer<'de>, T: Integer>(deserializer: D) -> Result<Option<T>, D::Error> {
    struct Read<T>(T);

    impl<'de, T: Integer> Deserialize<'de> for Read<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            number(deserializer).map(Self)
        }
    }

    Ok(Option::<Read<T>>::deserialize(deserializer)?.map(|Read(number)| number))
}

/// Rewrites the numbers of a document that have no fraction as integers.
pub fn rewrite(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Ok(whole) = self::number::<_, i64>(&*number) {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(rewrite),
        Value::Object(fields) => fields.values_mut().for_each(rewrite),
        _ => {}
    }
}

struct WholeNumber<T>(PhantomData<T>);

impl<T: Integer> Visitor<'_> for WholeNumber<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, most) = T::RANGE;
        write!(f, "a whole number from {least} to {most}")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        if number.fract() != 0.0 || number.abs() > EXACT_MAX {
            return Err(E::invalid_value(Unexpected::Float(number), &self));
        }
        self.visit_i64(number as i64)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Fields {
        #[serde(deserialize_with = "number")]
        n: u32,
        #[serde(default, deserialize_with = "optional")]
        at: Option<i64>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "kind")]
    enum Tagged {
        A(Fields),
    }

    fn read(value: &Value) -> Result<(u32, Option<i64>), String> {
        let Fields { n, at } = serde_json::from_str(&value.to_string()).map_err(|error| error.to_string())?;
        Ok((n, at))
    }

    #[test]
    fn a_number_without_a_fraction_is_whole() {
        assert_eq!(read(&json!({"n": 3})), Ok((3, None)));
        assert_eq!(read(&json!({"n": 3.0, "at": -2.0})), Ok((3, Some(-2))));
        assert_eq!(read(&json!({"n": 4_294_967_295.0, "at": null})), Ok((u32::MAX, None)));
        let Tagged::A(fields) = serde_json::from_str(r#"{"kind": "A", "n": 3.0, "at": 1e3}"#).unwrap();
        assert_eq!(fields, Fields { n: 3, at: Some(1_000) });
    }

    #[test]
    fn a_document_is_rewritten_with_integers() {
        let mut document = json!({"port": 5432.0, "list": [1.5, -2.0, {"n": 1e300}], "text": "3.0"});
        rewrite(&mut document);
        assert_eq!(document.to_string(), r#"{"port":5432,"list":[1.5,-2,{"n":1e+300}],"text":"3.0"}"#);
    }

    #[test]
    fn other_numbers_are_refused_with_the_range() {
        for (wrong, shown) in [
            (json!(3.5), "floating point `3.5`"),
            (json!(-1), "integer `-1`"),
            (json!(-1.0), "integer `-1`"),
            (json!(4_294_967_296_u64), "integer `4294967296`"),
            (json!(1e300), "floating point `1e"),
            (json!("3"), "string \"3\""),
            (json!(null), "null"),
        ] {
            let error = read(&json!({"n": wrong})).unwrap_err();
            assert!(error.contains(shown), "{error}");
            assert!(error.contains("expected a whole number from 0 to 4294967295"), "{error}");
        }
    }
}
