//! The documentation of a route: its row of the table contains it, beside the path.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use crate::http::openapi::Parameter;
use crate::http::openapi::parameter::{IF_ABSENT, IF_MATCH, IF_NONE_MATCH};

/// Generates the schema of a type.
pub(crate) type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

/// The documentation of a route.
#[derive(Clone, Debug)]
pub(crate) struct Doc {
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) about: &'static str,
    /// The query parameters that it accepts; others are rejected.
    pub(crate) query: &'static [Parameter],
    pub(crate) key: KeyPolicy,
    /// Whether a request changes nothing, whatever its method is.
    pub(crate) is_dry: bool,
    /// Whether all requests of a caller in a minute share an audit row.
    pub(crate) is_audited_per_minute: bool,
    /// The headers that it accepts, beside `Idempotency-Key`.
    pub(crate) headers: Vec<Parameter>,
    /// Path parameters that have another meaning for this route than for others of the same path.
    pub(crate) path: Vec<Parameter>,
    pub(crate) body: Option<RequestBody>,
    pub(crate) answers: Vec<ResponseDoc>,
    /// Its own rejections, beside those that follow from its method and path.
    pub(crate) refusals: Vec<(u16, &'static str)>,
}

/// Whether a route takes the header `Idempotency-Key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPolicy {
    Ignored,
    Accepted,
    Required,
}

/// The body of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestBody {
    /// Its content type.
    pub(crate) kind: &'static str,
    pub(crate) describe: SchemaFn,
    pub(crate) is_required: bool,
    pub(crate) example: Option<Value>,
    /// The same content in other content types.
    pub(crate) others: Vec<OtherBody>,
}

/// The body of a request in another content type.
#[derive(Clone, Debug)]
pub(crate) struct OtherBody {
    pub(crate) kind: &'static str,
    pub(crate) describe: SchemaFn,
    pub(crate) example: Value,
}

/// A response of a route.
#[derive(Clone, Debug)]
pub(crate) struct ResponseDoc {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    /// The schema of its body; none without a body.
    pub(crate) describe: Option<SchemaFn>,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    /// The server-sent events of a stream: the name of each, its text, and the schema of its data.
    pub(crate) events: Vec<(&'static str, &'static str, SchemaFn)>,
}

/// Begins the documentation of a route with its group and its summary.
pub(crate) fn doc(tag: &'static str, summary: &'static str) -> Doc {
    Doc {
        tag,
        summary,
        about: "",
        query: &[],
        key: KeyPolicy::Ignored,
        is_dry: false,
        is_audited_per_minute: false,
        headers: Vec::new(),
        path: Vec::new(),
        body: None,
        answers: Vec::new(),
        refusals: Vec::new(),
    }
}

impl Doc {
    /// Adds a description beyond the summary.
    pub(crate) fn about(mut self, about: &'static str) -> Self {
        self.about = about;
        self
    }

    /// Accepts these query parameters.
    pub(crate) fn query(mut self, parameters: &'static [Parameter]) -> Self {
        self.query = parameters;
        self
    }

    /// Accepts the header `Idempotency-Key`.
    pub(crate) fn keyed(mut self) -> Self {
        self.key = KeyPolicy::Accepted;
        self
    }

    /// Rejects requests without the header `Idempotency-Key`.
    pub(crate) fn must_be_keyed(mut self) -> Self {
        self.key = KeyPolicy::Required;
        self
    }

    /// Changes nothing, although the method is not a safe one.
    pub(crate) fn changes_nothing(mut self) -> Self {
        self.is_dry = true;
        self
    }

    /// Writes one audit row for all requests of a caller in a minute.
    pub(crate) fn audited_per_minute(mut self) -> Self {
        self.is_audited_per_minute = true;
        self
    }

    /// Accepts the header `If-Match`.
    pub(crate) fn matched(mut self) -> Self {
        self.headers.push(IF_MATCH);
        self.refuses(409, "`CONCURRENCY_ERROR`: the target has changed; nothing was done.")
    }

    /// Accepts the header `If-None-Match: *`.
    pub(crate) fn may_require_absence(mut self) -> Self {
        self.headers.push(IF_ABSENT);
        self
    }

    /// Accepts the header `If-None-Match`, and answers 304 if the client has the present version.
    pub(crate) fn cached(mut self) -> Self {
        self.headers.push(IF_NONE_MATCH);
        self.answers_nothing(304).with_header("ETag", "The present version.")
    }

    /// Accepts another header.
    pub(crate) fn header(mut self, parameter: Parameter) -> Self {
        self.headers.push(parameter);
        self
    }

    /// Describes a path parameter of this route, in place of the description that all routes share.
    pub(crate) fn path(mut self, parameter: Parameter) -> Self {
        self.path.push(parameter);
        self
    }

    /// Accepts a body.
    pub(crate) fn takes<T: JsonSchema>(self) -> Self {
        self.with_body("application/json", SchemaGenerator::subschema_for::<T>, true)
    }

    /// Accepts a body of another content type than JSON.
    pub(crate) fn takes_bytes<T: JsonSchema>(self, kind: &'static str) -> Self {
        self.with_body(kind, SchemaGenerator::subschema_for::<T>, true)
    }

    /// Accepts a body, or none.
    pub(crate) fn may_take<T: JsonSchema>(self) -> Self {
        self.with_body("application/json", SchemaGenerator::subschema_for::<T>, false)
    }

    fn with_body(mut self, kind: &'static str, describe: SchemaFn, is_required: bool) -> Self {
        self.body = Some(RequestBody { kind, describe, is_required, example: None, others: Vec::new() });
        self
    }

    /// Accepts the body also in another content type.
    pub(crate) fn also_takes<T: JsonSchema>(mut self, kind: &'static str, example: Value) -> Self {
        let body = self.body.as_mut().expect("only a route that accepts a body has other content types");
        body.others.push(OtherBody { kind, describe: SchemaGenerator::subschema_for::<T>, example });
        self
    }

    /// An example of a body.
    pub(crate) fn example(mut self, example: Value) -> Self {
        let body = self.body.as_mut().expect("only a route that accepts a body has an example of one");
        body.example = Some(example);
        self
    }

    /// Responds with JSON.
    pub(crate) fn answers<T: JsonSchema>(mut self, status: u16) -> Self {
        let describe = Some(SchemaGenerator::subschema_for::<T> as SchemaFn);
        self.answers.push(ResponseDoc {
            status,
            kind: "application/json",
            describe,
            headers: Vec::new(),
            events: Vec::new(),
        });
        self
    }

    /// Responds with a body of this content type, other than JSON.
    pub(crate) fn sends(mut self, status: u16, kind: &'static str) -> Self {
        let describe = Some(SchemaGenerator::subschema_for::<String> as SchemaFn);
        self.answers.push(ResponseDoc { status, kind, describe, headers: Vec::new(), events: Vec::new() });
        self
    }

    /// Makes the last response a stream, and adds an event with this data to it.
    pub(crate) fn with_event<T: JsonSchema>(mut self, name: &'static str, about: &'static str) -> Self {
        let answer = self.answers.last_mut().expect("an event belongs to a response");
        answer.events.push((name, about, SchemaGenerator::subschema_for::<T>));
        self
    }

    /// Responds without a body.
    pub(crate) fn answers_nothing(mut self, status: u16) -> Self {
        self.answers.push(ResponseDoc { status, kind: "", describe: None, headers: Vec::new(), events: Vec::new() });
        self
    }

    /// Adds a header to the last response.
    pub(crate) fn with_header(mut self, name: &'static str, about: &'static str) -> Self {
        let answer = self.answers.last_mut().expect("a header belongs to a response");
        answer.headers.push((name, about));
        self
    }

    /// Adds a rejection of this route: begin with the code, such as "`WORKFLOW_IN_USE`: …".
    pub(crate) fn refuses(mut self, status: u16, why: &'static str) -> Self {
        self.refusals.push((status, why));
        self
    }
}
