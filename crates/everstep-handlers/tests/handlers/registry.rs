//! The registry of handlers.

use everstep_core::kinds::Kinds;
use everstep_handlers::Registry;
use serde_json::json;

use crate::registry;

#[test]
fn kinds_are_found_by_name() {
    let registry = registry();
    let names = registry.names();
    let (records, others): (Vec<_>, Vec<_>) = names.iter().map(String::as_str).partition(|name| name.contains('.'));
    assert_eq!(others, ["dataQuery", "http", "javascript", "noop", "notify", "webhook"]);
    assert_eq!(
        records,
        [
            "links.delete",
            "links.list",
            "links.list_namespaces",
            "links.lookup",
            "links.upsert",
            "store.delete",
            "store.get",
            "store.increment",
            "store.list",
            "store.list_namespaces",
            "store.set",
            "store.transact",
        ]
    );
    let javascript = registry.find("javascript").unwrap();
    assert_eq!(javascript.output_variable.as_deref(), Some("jsResult"));
    assert_eq!(javascript.raw_fields, ["code"]);
    assert!(javascript.needs_context);
    assert_eq!(javascript.timeout_seconds, 30);
    assert!(registry.find("nothing").is_none());
    assert!(registry.find_handler("nothing").is_none());
    assert!(Kinds::check(&registry, "nothing", &json!({})).is_empty());
    assert_eq!(Kinds::check(&registry, "javascript", &json!({}))[0].pointer, "/code");
}

#[test]
fn every_kind_is_described_with_a_schema() {
    for description in registry().descriptions() {
        let name = &description.info.name;
        assert!(!description.title.is_empty() && description.summary.ends_with('.'), "{name}");
        assert_eq!(description.schema.source()["type"], "object", "{name}");
        assert_eq!(description.schema.source()["additionalProperties"], false, "{name}");
        for (field, property) in description.schema.source()["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{name}.{field} has no description");
        }
        assert!(description.concurrency > 0, "{name}");
    }
}

#[test]
fn schemas_describe_the_checks() {
    let registry = registry();
    let schema = registry.find_handler("javascript").unwrap().describe().schema.source();
    assert_eq!(schema["required"], json!(["code"]));
    assert_eq!(schema["properties"]["code"]["minLength"], 1);
    assert_eq!(schema["properties"]["timeoutSeconds"]["maximum"], 3600);
}

#[test]
fn a_registry_may_hold_any_handlers() {
    let standard = registry();
    let only = Registry::with([standard.find_handler("noop").unwrap().clone()]);
    assert_eq!(only.names(), ["noop"]);
    assert!(Registry::default().names().is_empty());
}
