//! Query parameters. An unknown one is rejected, not ignored, and so is a text or a number outside the declared bounds.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use everstep_core::time::Timestamp;
use futures_util::future::BoxFuture;

use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::time::When;

/// The parameters of a request, each at most once. Repeated values of a list are joined with commas.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads the parameters of a route before its handler is called.
    pub(crate) async fn read(
        known: &'static [Parameter],
        mut request: Request,
        run: impl FnOnce(Request) -> BoxFuture<'static, Response>,
    ) -> Response {
        match Self::parse(request.uri().query().unwrap_or_default(), known) {
            Ok(query) => {
                request.extensions_mut().insert(query);
                run(request).await
            }
            Err(problem) => problem.into_response(),
        }
    }

    fn parse(text: &str, known: &[Parameter]) -> Result<Self, Problem> {
        let mut parameters = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let parameter = known.iter().find(|parameter| parameter.is_called(&name));
            let Some(parameter) = parameter else {
                let hint = match known {
                    [] => "this route has no query parameters".to_owned(),
                    known => {
                        let names: Vec<_> = known.iter().map(Parameter::shown).collect();
                        format!("the query parameters of this route are {}", names.join(", "))
                    }
                };
                return Err(Problem::invalid(format!("unknown query parameter {name:?}")).hint(hint));
            };
            check_bounds(parameter, &name, &value)?;
            match parameters.entry(name.into_owned()) {
                Entry::Vacant(place) => _ = place.insert(value.into_owned()),
                Entry::Occupied(mut list) if parameter.is_list() => *list.get_mut() += &format!(",{value}"),
                Entry::Occupied(twice) => {
                    return Err(Problem::invalid(format!("the query parameter {:?} occurs twice", twice.key())));
                }
            }
        }
        let missing =
            known.iter().find(|parameter| parameter.is_required() && !parameters.contains_key(parameter.name));
        if let Some(missing) = missing {
            return Err(Problem::invalid(format!("the query parameter {:?} is missing", missing.name)));
        }
        Ok(Self(parameters))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The parameters of a family, without their prefix.
    pub(crate) fn family<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, &**value)))
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Problem> {
        match self.text(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(text) => {
                Err(Problem::invalid(format!("the query parameter {name:?} must be `true` or `false`, not {text:?}")))
            }
        }
    }

    /// One of some words.
    pub(crate) fn word(&self, name: &str, words: &[&'static str]) -> Result<Option<&'static str>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let known = words.iter().find(|word| **word == text).copied();
        let detail = || format!("the query parameter {name:?} must be one of {}, not {text:?}", words.join(", "));
        known.map(Some).ok_or_else(|| Problem::invalid(detail()))
    }

    /// A parameter of another type than text.
    pub(crate) fn value<T>(&self, name: &str) -> Result<Option<T>, Problem>
    where
        T: FromStr<Err: std::fmt::Display>,
    {
        let parsed = self.text(name).map(str::parse).transpose();
        parsed.map_err(|error| Problem::invalid(format!("the query parameter {name:?} is not valid: {error}")))
    }

    /// A time, or a day.
    pub(crate) fn time(&self, name: &str) -> Result<Option<Timestamp>, Problem> {
        Ok(self.value::<When>(name)?.map(|When(time)| time))
    }

    /// A whole number, within the bounds that the route declares.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.text(name).map(|text| text.parse().expect("the bounds were checked when the query was read"))
    }

    /// A whole number within narrower bounds than those that the route declares.
    pub(crate) fn number_within(&self, name: &str, range: &RangeInclusive<u64>) -> Result<Option<u64>, Problem> {
        self.text(name).map(|text| read_number(name, text, range)).transpose()
    }
}

/// Checks a value against the bounds of its parameter.
fn check_bounds(parameter: &Parameter, name: &str, value: &str) -> Result<(), Problem> {
    if let Some(range) = parameter.numbers() {
        read_number(name, value, &range)?;
    }
    let is_sized = |range: &RangeInclusive<u32>| {
        u32::try_from(value.chars().count()).is_ok_and(|characters| range.contains(&characters))
    };
    match parameter.characters().filter(|range| !is_sized(range)) {
        None => Ok(()),
        Some(range) => {
            let (least, most) = range.into_inner();
            Err(Problem::invalid(format!("the query parameter {name:?} has {least} to {most} characters")))
        }
    }
}

fn read_number(name: &str, text: &str, range: &RangeInclusive<u64>) -> Result<u64, Problem> {
    // A sign is not a digit.
    let digits = text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text);
    let number = digits.unwrap_or_default().parse::<u64>().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        Problem::invalid(format!(
            "the query parameter {name:?} must be a whole number from {least} to {most}, not {text:?}"
        ))
    })
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(parts.extensions.remove::<Self>().expect("the table reads the query of every route"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Parameter] =
        &[Parameter::sized("name", 1, 3, ""), Parameter::text("note", ""), Parameter::whole("limit", 1, 10, "")];

    #[test]
    fn values_within_the_declared_bounds_are_read() {
        let query = Query::parse("name=%C3%A9t%C3%A9&note=&limit=010", KNOWN).expect("it is valid");
        assert_eq!((query.text("name"), query.text("note")), (Some("\u{e9}t\u{e9}"), Some("")));
        assert_eq!(query.number("limit"), Some(10));
        assert!(query.number_within("limit", &(1..=9)).is_err());
        assert_eq!(Query::parse("", KNOWN).expect("it is valid").number("limit"), None);
    }

    #[test]
    fn values_outside_the_declared_bounds_are_rejected() {
        for text in ["name=", "name=abcd", "limit=", "limit=0", "limit=11", "limit=+5", "limit=1.0", "limit=x"] {
            assert!(Query::parse(text, KNOWN).is_err(), "{text} was accepted");
        }
    }
}
