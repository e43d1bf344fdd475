//! Generates the document.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::auth::Access;
use crate::http::openapi::parameter::IDEMPOTENCY_KEY;
use crate::http::openapi::{Doc, KeyPolicy, Parameter, normalize};
use crate::http::problem;
use crate::http::table::{Route, Table};

/// The parts of a document beside its routes.
pub(crate) struct Info {
    pub(crate) title: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) description: &'static str,
    pub(crate) version: &'static str,
    pub(crate) license: &'static str,
    /// The groups of routes, in the order of the docs page.
    pub(crate) tags: &'static [(&'static str, &'static str)],
}

/// The document of a table of routes.
pub(crate) fn document<S>(info: &Info, table: &Table<S>) -> Value {
    let mut schemas = Schemas::new(info, &table.path_parameters);
    let mut paths = Map::new();
    let mut names = BTreeSet::new();
    for route in &table.routes {
        let mut operation = schemas.operation(route);
        let name = name_of(route.doc.summary);
        assert!(names.insert(name.clone()), "two routes have the summary {:?}", route.doc.summary);
        operation["operationId"] = name.into();
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation;
    }
    let tags: Vec<_> = info.tags.iter().map(|(name, about)| json!({"name": name, "description": about})).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": info.title,
            "summary": info.summary,
            "description": info.description,
            "version": info.version,
            "license": {"name": info.license, "identifier": info.license},
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{"url": "/", "description": "The server of this document."}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas.take_definitions(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer es_…`"},
                "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "`x-api-key: es_…`"},
            },
        },
    })
}

/// Collects the schemas of requests and responses. A field that is optional in a request may be required in a response,
/// so the two are separate.
struct Schemas<'a> {
    info: &'a Info,
    path_parameters: &'a [(&'static str, Parameter)],
    sent: SchemaGenerator,
    received: SchemaGenerator,
}

impl<'a> Schemas<'a> {
    fn new(info: &'a Info, path_parameters: &'a [(&'static str, Parameter)]) -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let received = settings.clone().for_deserialize().into_generator();
        Self { info, path_parameters, sent: settings.for_serialize().into_generator(), received }
    }

    fn operation(&mut self, route: &Route) -> Value {
        let Doc { tag, summary, about, query, key, headers, path, body, .. } = &*route.doc;
        assert!(self.info.tags.iter().any(|(name, _)| name == tag), "{tag:?} is missing in the list of tags");
        let mut parameters: Vec<_> = path_parameters(route.path)
            .map(|(segment, name)| {
                let own = path.iter().find(|parameter| parameter.name == name);
                own.unwrap_or_else(|| self.path_parameter(segment, name)).document("path")
            })
            .collect();
        parameters.extend(query.iter().map(|parameter| parameter.document("query")));
        if *key != KeyPolicy::Ignored {
            let mut header = IDEMPOTENCY_KEY.document("header");
            header["required"] = (*key == KeyPolicy::Required).into();
            parameters.push(header);
        }
        parameters.extend(headers.iter().map(|parameter| parameter.document("header")));
        let needs = (route.access != Access::Public).then(|| format!("Needs {}.", route.access));
        let about: Vec<_> =
            [Some((*about).to_owned()), needs].into_iter().flatten().filter(|text| !text.is_empty()).collect();
        let mut operation = json!({
            "tags": [tag],
            "summary": summary,
            "description": about.join("\n\n"),
            "parameters": parameters,
            "responses": self.responses(route),
            "security": match route.access {
                Access::Key | Access::Permission(_) | Access::OrAct(_) => json!([{"bearer": []}, {"apiKey": []}]),
                Access::Public => json!([]),
            },
        });
        if let Some(permission) = route.access.permission() {
            operation["x-permission"] = permission.as_str().into();
        }
        if let Some(body) = body {
            let schema = (body.describe)(&mut self.received).to_value();
            let name = format!("{}Request", normalize::pascal(&name_of(summary)));
            let mut content = json!({"schema": normalize::received(&name, schema)});
            if let Some(example) = &body.example {
                content["examples"] = json!({"usual": {"value": example}});
            }
            let mut contents = json!({body.kind: content});
            for other in &body.others {
                let schema = normalize::received(&name, (other.describe)(&mut self.received).to_value());
                contents[other.kind] = json!({"schema": schema, "examples": {"usual": {"value": other.example}}});
            }
            operation["requestBody"] = json!({"required": body.is_required, "content": contents});
        }
        operation
    }

    /// The path parameter that follows a segment.
    ///
    /// # Panics
    /// If no row of the table describes it.
    fn path_parameter(&self, segment: &str, name: &str) -> &'a Parameter {
        let mut all = self.path_parameters.iter();
        let found = all.find(|(before, parameter)| (*before, parameter.name) == (segment, name));
        &found.unwrap_or_else(|| panic!("{segment}/{{{name}}} is not described")).1
    }

    fn responses(&mut self, route: &Route) -> Value {
        assert!(!route.doc.answers.is_empty(), "{} {} has no response", route.method, route.path);
        let mut responses = BTreeMap::new();
        for answer in &route.doc.answers {
            let mut response = json!({"description": reason(answer.status)});
            let name = format!("{}Response", normalize::pascal(&name_of(route.doc.summary)));
            if let Some(describe) = answer.describe {
                let schema = normalize::sent(&name, describe(&mut self.sent).to_value());
                response["content"] = json!({answer.kind: {"schema": schema}});
            }
            if !answer.events.is_empty() {
                let events =
                    answer.events.iter().map(|(event, _, describe)| (*event, describe(&mut self.sent).to_value()));
                response["content"][answer.kind]["x-events"] = events.collect();
                let about = answer.events.iter().map(|(event, about, _)| format!("* `{event}`: {about}"));
                let about = about.collect::<Vec<_>>().join("\n");
                let about = format!("Server-sent events. The `data` of each is one JSON document:\n\n{about}");
                response["content"][answer.kind]["schema"]["description"] = about.into();
            }
            if !answer.headers.is_empty() {
                let header = |about| json!({"description": about, "schema": {"type": "string"}});
                response["headers"] = answer.headers.iter().map(|(name, about)| (*name, header(*about))).collect();
            }
            responses.insert(answer.status.to_string(), response);
        }
        let problem = self.sent.subschema_for::<problem::Document>().to_value();
        for (status, why) in refusals(route) {
            let content = json!({"application/problem+json": {"schema": problem}});
            let response = json!({"description": why.join(" "), "content": content});
            responses.entry(status.to_string()).or_insert(response);
        }
        json!(responses)
    }

    /// All schemas by name.
    fn take_definitions(&mut self) -> Value {
        let mut all = BTreeMap::new();
        for (name, schema) in self.sent.take_definitions(true) {
            let schema = normalize::sent(&name, schema);
            all.insert(name, schema);
        }
        for (name, schema) in self.received.take_definitions(true) {
            let schema = normalize::received(&name, schema);
            let other = all.insert(name.clone(), schema.clone());
            let is_same = other.is_none_or(|other| other == schema);
            assert!(is_same, "{name} is sent in one form and received in another: give one of them another name");
        }
        normalize::name_parts(&mut all);
        json!(all)
    }
}

/// Which problems may be the response?
///
/// 1. Every route rejects an unknown query parameter.
/// 2. A route that needs an API key rejects callers without a valid one, without the permission, or beyond the rate
///    limit; and it needs the database.
/// 3. A route with a path parameter may not find the resource.
/// 4. A route with a body may receive one that is too large, compressed, or invalid.
/// 5. A route that writes may not learn the outcome, or find the disk full.
/// 6. A route adds its other rejections itself.
fn refusals(route: &Route) -> BTreeMap<u16, Vec<&'static str>> {
    let Doc { body, refusals, .. } = &*route.doc;
    let mut all: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    let mut may = |condition: bool, status: u16, why: &'static str| {
        if condition {
            all.entry(status).or_default().push(why);
        }
    };
    let (is_guarded, writes) = (route.access != Access::Public, !route.method.is_safe() && !route.doc.is_dry);
    may(true, 400, "`VALIDATION_ERROR`: the request is not valid; `detail` contains the reason.");
    may(is_guarded, 401, "`AUTH_ERROR`: no API key, or one that is unknown, expired or revoked.");
    may(is_guarded, 403, "`PERMISSION_DENIED`: the API key lacks the permission.");
    may(
        is_guarded,
        429,
        "`RATE_LIMITED`: too many requests of this API key or its workspace; try again after `Retry-After`.",
    );
    may(
        is_guarded,
        503,
        "`UNAVAILABLE`: the server or the database is not available; nothing was done. Try again after \
         `Retry-After`.",
    );
    may(route.path.contains('{'), 404, "`NOT_FOUND`: the workspace of the API key has no such resource.");
    may(body.is_some(), 408, "`BODY_TOO_SLOW`: the body arrived with less than 64 KiB per second.");
    may(body.is_some(), 413, "`PAYLOAD_TOO_LARGE`: the body or a part of it is too large.");
    may(body.is_some(), 415, "`UNSUPPORTED_MEDIA_TYPE`: the body has a `Content-Encoding`; send it uncompressed.");
    may(body.is_some(), 422, "`VALIDATION_ERROR` and others: the request can be parsed, but its content is not valid.");
    may(
        is_guarded && writes,
        504,
        "`OUTCOME_UNKNOWN`: the request may have been applied; repeat it with the same `Idempotency-Key`.",
    );
    may(is_guarded && writes, 507, "`STORE_FULL`: the disk of the database is full; nothing was written.");
    for (status, why) in refusals {
        may(true, *status, why);
    }
    all
}

/// The parameters of a path, each with the segment before it.
fn path_parameters(path: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let words = path.split('/');
    words.clone().zip(words.skip(1)).filter_map(|(word, next)| {
        let name = next.strip_prefix('{')?.strip_suffix('}')?;
        Some((word, name))
    })
}

fn reason(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("An answer")
}

/// An operation id: "List runs" is `listRuns`.
fn name_of(summary: &str) -> String {
    let words = summary.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words = words.filter(|word| !["", "a", "an", "the"].contains(word));
    let mut name = String::new();
    for word in words {
        let (first, rest) = word.split_at(1);
        let first = if name.is_empty() { first.to_ascii_lowercase() } else { first.to_ascii_uppercase() };
        name += &first;
        name += rest;
    }
    name
}
