//! Query parameters. An unknown one is rejected, not ignored.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::RangeInclusive;
use std::str::FromStr;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use everstep_core::time::Timestamp;

use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::time::When;

/// The parameters of a request, each at most once. Repeated values of a list are joined with commas.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads the parameters of a route before its handler is called.
    pub(crate) async fn read(known: &'static [Parameter], mut request: Request, next: Next) -> Response {
        match Self::parse(request.uri().query().unwrap_or_default(), known) {
            Ok(query) => {
                request.extensions_mut().insert(query);
                next.run(request).await
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

    pub(crate) fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        // A sign is not a digit.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text);
        match digits.unwrap_or_default().parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let (least, most) = (range.start(), range.end());
                let range = if *most == u64::MAX { format!("from {least}") } else { format!("from {least} to {most}") };
                Err(Problem::invalid(format!(
                    "the query parameter {name:?} must be a whole number {range}, not {text:?}"
                )))
            }
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(parts.extensions.remove::<Self>().expect("the table reads the query of every route"))
    }
}
