//! The documents of the API about itself.

use std::collections::BTreeSet;
use std::path::Path;

use axum::http::Method;
use everstep_api::{Route, openapi, routes};
use serde_json::{Value, json};

use crate::support::Server;

/// Compares a page of the reference with its expected content. `BLESS=1 cargo test -p everstep-api --test http
/// documents` writes it again.
fn check(page: &str, make: impl Fn(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page);
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let expected = make(&written);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, expected).unwrap();
    } else {
        assert!(written == expected, "docs/reference/{page} is out of date: write it again with BLESS=1");
    }
}

#[test]
fn the_committed_document_is_the_one_that_is_served() {
    check("openapi.json", |_| format!("{:#}\n", openapi()));
}

#[test]
fn every_route_is_in_the_reference() {
    const BEGIN: &str = "<!-- routes: generated from the table of routes by BLESS=1 -->\n";
    const END: &str = "<!-- end of routes -->\n";
    check("http.md", |page| {
        let (before, rest) = page.split_once(BEGIN).expect("the page has a place for routes");
        let (_, after) = rest.split_once(END).expect("the routes of the page have an end");
        format!("{before}{BEGIN}{}\n{END}{after}", list_of_routes())
    });
}

/// The routes by group, each with its access and its summary.
fn list_of_routes() -> String {
    let (document, routes) = (openapi(), routes());
    let mut list = String::new();
    for tag in document["tags"].as_array().unwrap() {
        let operation =
            |route: &Route| document["paths"][route.path][route.method.as_str().to_ascii_lowercase()].clone();
        let of_tag =
            routes.iter().map(|route| (route, operation(route))).filter(|(_, one)| one["tags"][0] == tag["name"]);
        list += &format!("\n### {}\n\n{}\n\n", tag["name"].as_str().unwrap(), tag["description"].as_str().unwrap());
        list += "| route | needs | does |\n|---|---|---|\n";
        for (route, operation) in of_tag {
            let does = what_it_does(&document, &operation);
            list += &format!("| `{} {}` | {} | {does} |\n", route.method, route.path, route.access);
        }
    }
    list
}

fn what_it_does(document: &Value, operation: &Value) -> String {
    let mut does = format!("{}.", operation["summary"].as_str().unwrap());
    // The access is in a separate column.
    let about = operation["description"]
        .as_str()
        .unwrap()
        .split("\n\n")
        .filter(|text| !text.is_empty() && !text.starts_with("Needs "));
    about.for_each(|text| does += &format!(" {text}"));
    let query = operation["parameters"].as_array().unwrap().iter().filter(|parameter| parameter["in"] == "query");
    let names: Vec<_> = query.map(|parameter| format!("`{}`", parameter["name"].as_str().unwrap())).collect();
    if !names.is_empty() {
        does += &format!(" Query: {}.", names.join(", "));
    }
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let schema = resolve(document, schema);
    let forms = schema["oneOf"].as_array().map_or_else(|| vec![schema], |forms| forms.iter().collect());
    let forms: Vec<_> = forms.into_iter().filter_map(|form| list_fields(resolve(document, form))).collect();
    if !forms.is_empty() {
        does += &format!(" Body: {}.", forms.join(" or "));
    }
    does.replace('|', "\\|").replace('\n', " ")
}

fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(place) => &document["components"]["schemas"][place.rsplit('/').next().unwrap()],
        None => schema,
    }
}

fn list_fields(schema: &Value) -> Option<String> {
    let fields = schema["properties"].as_object()?;
    let is_needed = |name: &&String| schema["required"].as_array().is_some_and(|all| all.contains(&json!(name)));
    let names = fields.keys().map(|name| if is_needed(&name) { name.clone() } else { format!("{name}?") });
    Some(format!("`{{{}}}`", names.collect::<Vec<_>>().join(", ")))
}

#[tokio::test]
async fn the_document_needs_no_key_and_has_every_route() {
    let server = Server::start().await;
    let document = server.ask(Method::GET, "/v1/openapi.json", &[], "").await.is(200);
    assert_eq!(document, openapi());
    assert_eq!(document["openapi"], "3.1.0");
    let operations: usize =
        document["paths"].as_object().unwrap().values().map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(operations, routes().len());
    let mut names = BTreeSet::new();
    for route in routes() {
        let operation = &document["paths"][route.path][route.method.as_str().to_ascii_lowercase()];
        assert_eq!(operation["summary"], route.summary());
        assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()), "{operation}");
        assert_eq!(
            operation["x-permission"].as_str(),
            route.access.permission().map(everstep_api::auth::Permission::as_str)
        );
        let places: Vec<_> =
            operation["parameters"].as_array().unwrap().iter().filter(|one| one["in"] == "path").collect();
        assert_eq!(places.len(), route.path.matches('{').count(), "{}", route.path);
    }
}

/// Every reference has a target, and every definition is referenced.
#[test]
fn the_document_refers_to_what_it_has() {
    let document = openapi();
    let mut referred = BTreeSet::new();
    let mut open = vec![&document];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(place)) = fields.get("$ref") {
                    let name = place.strip_prefix("#/components/schemas/").unwrap();
                    assert!(document["components"]["schemas"][name].is_object(), "{place}");
                    referred.insert(name.to_owned());
                }
                open.extend(fields.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    let there: BTreeSet<_> = document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(referred, there);
}

#[tokio::test]
async fn the_docs_page_asks_this_server_alone() {
    let server = Server::start().await;
    let answer = server.ask(Method::GET, "/docs", &[], "").await;
    assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    let policy = answer.headers["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(policy.contains("connect-src 'self'") && !policy.contains("unsafe"), "{policy}");
    let page = answer.is(200);
    let page = page.as_str().unwrap();
    // No address of another host, in any form in which a page can contain one.
    for outside in
        ["http:", "https:", "\"//", "'//", "`//", "(//", "@import", " url(", "<link", "<img", "src=", "import("]
    {
        assert!(!page.contains(outside), "the docs page holds {outside}");
    }
    assert!(page.contains("v1/openapi.json"));
    // The policy allows no handlers and styles in attributes.
    assert!(!page.contains(" style=") && !page.contains(" onclick="));
}

#[tokio::test]
async fn the_root_is_the_console_for_browsers_and_a_document_for_programs() {
    let server = Server::start().await;
    let received = server.ask(Method::GET, "/", &[], "").await.is(200);
    assert_eq!((&received["name"], &received["docs"]), (&"everstep".into(), &"/docs".into()));
    let answer = server.ask(Method::GET, "/", &[("accept", "text/html,*/*")], "").await;
    assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
    assert_eq!(answer.headers["cache-control"], "no-cache");
    assert_eq!(answer.headers["cross-origin-opener-policy"], "same-origin");
    let policy = answer.headers["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src"), "{policy}");
    assert!(answer.is(200).as_str().unwrap().contains("<title>Everstep"));
}

#[tokio::test]
async fn deep_links_are_pages_for_browsers_only() {
    let server = Server::start().await;
    let browser = [("accept", "text/html,*/*")];
    server.ask(Method::GET, "/runs/some/where?status=failed", &browser, "").await.is(200);
    assert_eq!(server.ask(Method::GET, "/runs", &[], "").await.is(401)["code"], "AUTH_ERROR");
    assert_eq!(server.ask(Method::POST, "/runs", &browser, "").await.is(401)["code"], "AUTH_ERROR");
    assert_eq!(server.ask(Method::GET, "/v1/none", &browser, "").await.is(401)["code"], "AUTH_ERROR");
    assert_eq!(server.ask(Method::GET, "/assets/none.js", &browser, "").await.is(404)["code"], "NOT_FOUND");
}
