//! Parameters of requests: their description for clients, and their check.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

/// A query parameter, a header or a path parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameter {
    /// Its name; of a family, the common prefix.
    pub(crate) name: &'static str,
    about: &'static str,
    shape: Shape,
    is_required: bool,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Text { least: u32, most: u32 },
    Pattern(&'static str),
    Whole { least: u64, most: u64 },
    Flag,
    Time,
    Id,
    Choice(&'static [&'static str]),
    Choices(&'static [&'static str]),
    Family,
}

impl Parameter {
    const fn new(name: &'static str, about: &'static str, shape: Shape) -> Self {
        Self { name, about, shape, is_required: false }
    }

    pub(crate) const fn text(name: &'static str, about: &'static str) -> Self {
        Self::new(name, about, Shape::Text { least: 0, most: 0 })
    }

    /// Text with a number of characters.
    pub(crate) const fn sized(name: &'static str, least: u32, most: u32, about: &'static str) -> Self {
        Self::new(name, about, Shape::Text { least, most })
    }

    /// Text that a regular expression describes.
    pub(crate) const fn pattern(name: &'static str, pattern: &'static str, about: &'static str) -> Self {
        Self::new(name, about, Shape::Pattern(pattern))
    }

    /// A whole number within bounds.
    pub(crate) const fn whole(name: &'static str, least: u64, most: u64, about: &'static str) -> Self {
        Self::new(name, about, Shape::Whole { least, most })
    }

    /// `true` or `false`.
    pub(crate) const fn flag(name: &'static str, about: &'static str) -> Self {
        Self::new(name, about, Shape::Flag)
    }

    /// A time in RFC 3339, or a day.
    pub(crate) const fn time(name: &'static str, about: &'static str) -> Self {
        Self::new(name, about, Shape::Time)
    }

    /// A UUID.
    pub(crate) const fn id(name: &'static str, about: &'static str) -> Self {
        Self::new(name, about, Shape::Id)
    }

    /// One of these words.
    pub(crate) const fn choice(name: &'static str, words: &'static [&'static str], about: &'static str) -> Self {
        Self::new(name, about, Shape::Choice(words))
    }

    /// Some of these words: the parameter is repeated for each, or sent once with commas between them.
    pub(crate) const fn choices(name: &'static str, words: &'static [&'static str], about: &'static str) -> Self {
        Self::new(name, about, Shape::Choices(words))
    }

    /// A request without this query parameter is rejected.
    pub(crate) const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    pub(crate) fn is_required(&self) -> bool {
        self.is_required
    }

    /// Whether a request may contain it more than once.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.shape, Shape::Choices(_))
    }

    /// Any number of parameters with a common prefix: `input.` includes `input.order.id`.
    pub(crate) const fn family(prefix: &'static str, about: &'static str) -> Self {
        Self::new(prefix, about, Shape::Family)
    }

    /// Whether `name` is this parameter, or one of this family.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        match self.shape {
            Shape::Family => name.len() > self.name.len() && name.starts_with(self.name),
            _ => name == self.name,
        }
    }

    /// The number of characters that its text may have, if it is bounded.
    pub(crate) fn characters(&self) -> Option<RangeInclusive<u32>> {
        match self.shape {
            Shape::Text { least, most } if most > 0 => Some(least..=most),
            _ => None,
        }
    }

    /// The numbers that it may be, if it is a whole number.
    pub(crate) fn numbers(&self) -> Option<RangeInclusive<u64>> {
        match self.shape {
            Shape::Whole { least, most } => Some(least..=most),
            _ => None,
        }
    }

    /// Its name in messages.
    pub(crate) fn shown(&self) -> String {
        match self.shape {
            Shape::Family => format!("{}<path>", self.name),
            _ => self.name.to_owned(),
        }
    }

    /// Its form in the document. `location` is `query`, `header` or `path`.
    pub(crate) fn document(&self, location: &str) -> Value {
        let mut shown = json!({
            "name": self.name.trim_end_matches('.'),
            "in": location,
            "description": self.about,
            "required": self.is_required || location == "path",
            "schema": self.schema(),
        });
        if matches!(self.shape, Shape::Family) {
            // An exploded object: each of its fields is a separate parameter.
            shown["style"] = json!("form");
            shown["explode"] = json!(true);
        }
        shown
    }

    fn schema(&self) -> Value {
        match self.shape {
            Shape::Text { most: 0, .. } => json!({"type": "string"}),
            Shape::Text { least, most } => json!({"type": "string", "minLength": least, "maxLength": most}),
            Shape::Pattern(pattern) => json!({"type": "string", "pattern": pattern}),
            Shape::Whole { least, most } => json!({"type": "integer", "minimum": least, "maximum": most}),
            Shape::Flag => json!({"type": "boolean"}),
            Shape::Time => {
                json!({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]})
            }
            Shape::Id => json!({"type": "string", "format": "uuid"}),
            Shape::Choice(words) => json!({"type": "string", "enum": words}),
            Shape::Choices(words) => {
                json!({"type": "array", "minItems": 1, "items": {"type": "string", "enum": words}})
            }
            Shape::Family => {
                let pattern = format!("^{}.+$", self.name.replace('.', "\\."));
                json!({
                    "type": "object",
                    "patternProperties": {pattern: {"type": "string"}},
                    "additionalProperties": false,
                })
            }
        }
    }
}

/// `Idempotency-Key`.
pub(crate) const IDEMPOTENCY_KEY: Parameter = Parameter::sized(
    "Idempotency-Key",
    1,
    255,
    "A repeated request with the same idempotency key is answered without being applied again.",
);

/// `If-Match`.
pub(crate) const IF_MATCH: Parameter = Parameter::pattern(
    "If-Match",
    "^([0-9]{1,19}|\"[0-9]{1,19}\")$",
    "The version that the target must have, as in the header `ETag` of `GET`: `\"12\"`. Otherwise nothing is done \
     and the response is `CONCURRENCY_ERROR`.",
);

/// `If-None-Match` of a write.
pub(crate) const IF_ABSENT: Parameter = Parameter::choice(
    "If-None-Match",
    &["*"],
    "`*`: the target must not exist. Otherwise nothing is done and the response is `CONCURRENCY_ERROR`.",
);

/// `If-None-Match` of a read.
pub(crate) const IF_NONE_MATCH: Parameter = Parameter::text(
    "If-None-Match",
    "Versions that the client has, as in the header `ETag`: `\"12\"`. If the target has one of them, the response is \
     304 without a body.",
);
