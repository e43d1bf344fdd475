//! The rows of the route table.

use axum::http::Method;
use serde_json::json;

use super::wire::{
    CloudEvent, CloudEvents, EventDetail, Events, PublishRequest, PublishResponse, PublishedEvent, ReplayRequest,
};
use super::{list, publish, replay, show};
use crate::auth::Permission::{Manage, View};
use crate::http::openapi::{Doc, Parameter, doc};
use crate::http::schema::Json;
use crate::routes::Table;

/// The form of a topic.
pub(super) const TOPIC_PATTERN: &str = r"^[A-Za-z0-9_:/-]{1,64}(\.[A-Za-z0-9_:/-]{1,64}){0,15}$";
const TOPIC_ABOUT: &str = "The topic: 1 to 16 segments separated by dots, each of 1 to 64 letters, digits, `_`, `:`, \
     `/` and `-`, together at most 255 characters. It is percent-encoded, so that `%2F` is a slash of the topic. It \
     must not be `everstep`, and must not begin with `everstep.`.";
const STRUCTURED: &str = "application/cloudevents+json";
const BATCHED: &str = "application/cloudevents-batch+json";
const NOT_JSON: &str = "`UNSUPPORTED_MEDIA_TYPE`: the data of the event is not JSON.";
const KEY_REUSED: &str = "`IDEMPOTENCY_KEY_REUSED`: an event with this source and id has another topic or other data.";

pub(crate) fn add(table: Table) -> Table {
    table
        .path_parameter("topics", Parameter::pattern("topic", TOPIC_PATTERN, TOPIC_ABOUT))
        .path_parameter("events", Parameter::id("id", "The event's id."))
        .guarded(
            Manage,
            Method::POST,
            "/v1/topics/{topic}",
            to_topic_doc("Publish an event to a topic"),
            publish::to_topic,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/events/{id}",
            to_topic_doc("Publish an event to a topic (alias)").path(Parameter::pattern(
                "id",
                TOPIC_PATTERN,
                "The topic, as in `POST /v1/topics/{topic}`.",
            )),
            publish::to_topic,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/events",
            doc("events", "Publish events")
                .about(
                    "One event `{topic, data, id?, source?, subject?}`, or `{events: […]}` with at most 1,000 of them, \
                     together at most 16 MiB. Each event of a batch is accepted or rejected separately, and the \
                     results have the same order; 207 means that not all were accepted. CloudEvents are accepted in \
                     the structured, the binary and the batched mode; their `type` is the topic. The responses are the \
                     same as those of a publish to a topic.",
                )
                .query(publish::WAIT)
                .keyed()
                .takes::<PublishRequest>()
                .example(json!({"topic": "user.signup", "id": "signup-7", "data": {"user": 7}}))
                .also_takes::<CloudEvent>(STRUCTURED, cloud_event())
                .also_takes::<CloudEvents>(BATCHED, json!([cloud_event()]))
                .answers::<PublishResponse>(202)
                .answers::<PublishResponse>(200)
                .answers::<PublishResponse>(207)
                .refuses(409, KEY_REUSED)
                .refuses(415, NOT_JSON),
            publish::post,
        )
        .guarded(
            View,
            Method::GET,
            "/v1/events",
            doc("events", "List events")
                .about(
                    "Newest first, without their data. Paging is by keyset. Events are kept for \
                     `EVERSTEP_EVENT_RETENTION_DAYS`.",
                )
                .query(list::PARAMETERS)
                .answers::<Events>(200),
            list::list,
        )
        .guarded(
            View,
            Method::GET,
            "/v1/events/{id}",
            doc("events", "Get an event")
                .about(
                    "With its data, and a page of its results: the runs that it has started, the waits that it has \
                     reached, and the subscriptions that could not start a run, each with the reason.",
                )
                .query(show::PARAMETERS)
                .answers::<EventDetail>(200),
            show::get,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/events/{id}/replay",
            doc("events", "Replay an event")
                .about(
                    "Publishes the event again as a new event with `replayOf`, which reaches one subscription and no \
                     others, also if that subscription was created after the event. With an `Idempotency-Key`, a \
                     repeated request finds the same new event.",
                )
                .query(publish::WAIT)
                .keyed()
                .takes::<ReplayRequest>()
                .example(json!({"subscription": "019a8a3f-6c1e-7d58-9f3e-0d4b3a6f0c11"}))
                .answers::<PublishedEvent>(202)
                .answers::<PublishedEvent>(200),
            replay::post,
        )
}

fn to_topic_doc(summary: &'static str) -> Doc {
    doc("events", summary)
        .about(
            "The body is the data of the event: any JSON, at most 1 MiB, or none. Or it is a CloudEvent: structured \
             (`application/cloudevents+json`), or binary, with its attributes in `ce-` headers; its `type` is the topic \
             of the path. 202 after the event is stored. With `waitSeconds` the response is 200 as soon as the event has \
             reached all subscriptions and waits, with the counts. An event is published once per source and id; \
             without an id, the `Idempotency-Key` is the id. The response to a repeated publish is 200, with `created` \
             false.",
        )
        .query(publish::WAIT)
        .keyed()
        .header(Parameter::sized("Event-Id", 1, 255, "The id of the event within its source."))
        .header(Parameter::sized(
            "Event-Source",
            1,
            255,
            "The part of your system in which the fact occurred; `api` by default. Sources that begin with `run:` are \
             reserved.",
        ))
        .may_take::<Json>()
        .example(json!({"user": 7, "plan": "pro"}))
        .also_takes::<CloudEvent>(STRUCTURED, cloud_event())
        .answers::<PublishedEvent>(202)
        .answers::<PublishedEvent>(200)
        .refuses(409, KEY_REUSED)
        .refuses(415, NOT_JSON)
}

fn cloud_event() -> serde_json::Value {
    json!({
        "specversion": "1.0",
        "id": "signup-7",
        "source": "/accounts",
        "type": "user.signup",
        "datacontenttype": "application/json",
        "data": {"user": 7, "plan": "pro"},
    })
}
