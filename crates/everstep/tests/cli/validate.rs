//! `everstep validate`, and hostile files.

use serde_json::{Value, json};

use crate::support::{Folder, call, chain};

#[test]
fn a_valid_file_is_reported_as_valid() {
    let folder = Folder::new();
    let file = folder.write("flow.json", chain(&[json!({"id": "a", "type": "noop"})]).to_string());
    call(&["validate", &file]).exits(0).says("is a valid workflow of 3 nodes");
    let output = call(&["validate", &file, "--json"]);
    assert_eq!(output.exits(0).json(), json!({"valid": true, "problems": []}));
}

#[test]
fn every_problem_is_reported_with_its_place_and_a_hint() {
    let folder = Folder::new();
    let definition = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "a", "type": "javascrpt", "config": {"code": "return 1"}},
            {"id": "b", "type": "javascript", "config": {"code": " ", "cod": 1}, "retires": {}},
            {"id": "end", "type": "end", "config": {"outputParameters": [{"name": "x", "sourceVariable": "{{ctx.}}"}]}},
        ],
        "edges": [{"source": "start", "target": "a"}, {"source": "a", "target": "nd"}],
    });
    let file = folder.write("flow.json", definition.to_string());
    let output = call(&["validate", &file]);
    output
        .exits(2)
        .says("is not a valid workflow")
        .says("/nodes/1/type (node \"a\"): unknown node type \"javascrpt\"")
        .says("did you mean \"javascript\"?")
        .says("/nodes/2/retires (node \"b\"): unknown field \"retires\"")
        .says("/nodes/2/config/cod ")
        .says("/nodes/2/config/code ")
        .says("/nodes/3/config/outputParameters/0/sourceVariable")
        .says("/edges/1/target: there is no node \"nd\"")
        .says("did you mean \"end\"?");
    assert_eq!(output.stdout, "");
    let output = call(&["validate", &file, "--json"]);
    let problems = output.exits(2).json();
    assert_eq!(problems["valid"], false);
    let paths: Vec<_> = problems["problems"].as_array().unwrap().iter().map(|problem| &problem["path"]).collect();
    assert!(paths.contains(&&json!("/nodes/1/type")) && paths.contains(&&json!("/edges/1/target")), "{paths:?}");
}

#[test]
fn scripts_and_input_schemas_are_checked_with_everything_else() {
    let folder = Folder::new();
    let mut definition = chain(&[
        json!({"id": "odd", "type": "javascrip"}),
        json!({"id": "script", "type": "javascript", "config": {"code": "const a = 1;\nreturn a +* 2;"}}),
        json!({"id": "sum", "type": "transform", "config": {"value": "{{ctx.totl}}"}}),
    ]);
    definition["$schema"] = json!("./graph.schema.json");
    definition["inputSchema"] = json!({"properties": {"amount": {"type": "nubmer"}}});
    let file = folder.write("flow.json", definition.to_string());
    call(&["validate", &file])
        .exits(2)
        .says("4 problems")
        .says("/inputSchema/properties/amount/type: a type is one of")
        .says("/nodes/1/type (node \"odd\"): unknown node type \"javascrip\"")
        .says("/nodes/2/config/code (node \"script\"): SyntaxError: ")
        .says("at line 2, column 11")
        .says("/nodes/3/config/value (node \"sum\"): no node before this one writes `ctx.totl`");
}

#[test]
fn a_missing_file_is_reported() {
    call(&["validate", "no-such-file.json"]).exits(2).says("no-such-file.json cannot be read: No such file");
    let folder = Folder::new();
    call(&["validate", folder.path().to_str().unwrap()]).exits(2).says("cannot be read: Is a directory");
    let file = folder.write("binary.json", b"\x7fELF\xff\xfe");
    call(&["validate", &file]).exits(2).says("is not a text in UTF-8");
    let file = folder.write("empty.yaml", "");
    call(&["validate", &file]).exits(2).says("expected an object, found null");
}

#[test]
fn a_duplicate_field_is_rejected() {
    let folder = Folder::new();
    let file = folder.write("twice.json", r#"{"nodes": [], "nodes": []}"#);
    call(&["validate", &file]).exits(2).says("the field \"nodes\" occurs twice");
    let file = folder.write("twice.yaml", "nodes: []\nnodes: []\n");
    call(&["validate", &file]).exits(2).says("duplicate mapping key: nodes");
}

/// A graph of this many parallel nodes.
fn wide(nodes: usize) -> Value {
    let branches: Vec<_> = (0..nodes - 2).map(|n| format!("b{n}")).collect();
    let mut list = vec![json!({"id": "start", "type": "start"}), json!({"id": "end", "type": "end"})];
    list.extend(branches.iter().map(|branch| json!({"id": branch, "type": "noop"})));
    let edges: Vec<_> = branches
        .iter()
        .flat_map(|branch| [json!({"source": "start", "target": branch}), json!({"source": branch, "target": "end"})])
        .collect();
    json!({"nodes": list, "edges": edges})
}

#[test]
fn ten_thousand_nodes_are_a_workflow_and_one_more_is_not() {
    let folder = Folder::new();
    let file = folder.write("wide.json", wide(10_000).to_string());
    let output = call(&["run", &file, "--quiet"]);
    assert_eq!(output.exits(0).json(), json!({}));
    // JSON is YAML too.
    let file = folder.write("wide.yaml", wide(10_000).to_string());
    call(&["validate", &file]).exits(0).says("10000 nodes");
    let file = folder.write("wider.json", wide(10_001).to_string());
    call(&["validate", &file]).exits(2).says("the graph has 10001 nodes, more than 10000");
}

#[test]
fn deeply_nested_files_are_refused() {
    let folder = Folder::new();
    for depth in [110, 1_000, 1_000_000] {
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let transform = chain(&[json!({"id": "t", "type": "transform", "config": {"value": "NESTED"}})]);
        let text = transform.to_string().replace("\"NESTED\"", &nested);
        for name in ["deep.json", "deep.yaml"] {
            let file = folder.write(name, &text);
            let output = call(&["validate", &file]);
            output.exits(2).says("is not a valid workflow");
        }
    }
}

#[test]
fn a_yaml_file_cannot_unfold_without_end() {
    let folder = Folder::new();
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..20 {
        let before = vec![format!("*a{}", n - 1); 9].join(", ");
        text += &format!("a{n}: &a{n} [{before}]\n");
    }
    let file = folder.write("bomb.yaml", text);
    call(&["validate", &file]).exits(2).says("not YAML");
}

#[test]
fn nul_characters_in_files_are_refused_or_kept() {
    let folder = Folder::new();
    let file = folder.write("nul.json", b"{\"nodes\": [\0]}");
    call(&["validate", &file]).exits(2).says("not JSON");
    let file = folder.write("nul.yaml", b"nodes: [\0]");
    call(&["validate", &file]).exits(2).says("not YAML");
    let file = folder.write("id.json", chain(&[json!({"id": "a\0b", "type": "noop"})]).to_string());
    let output = call(&["validate", &file]);
    output.exits(2).says("is not a valid id of a node");
    assert!(!output.stderr.contains('\0'), "{:?}", output.stderr);
}
