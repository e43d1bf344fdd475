//! `everstep run`.

use std::io::{Read, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{CommandOutput, Folder, call, call_with_stdin, chain, chain_to, everstep, example, wait_for};

/// A workflow that doubles its input, and logs it.
fn double() -> Value {
    let code = "console.log('doubling', ctx.input.n); return ctx.input.n * 2";
    let parameter = json!({"name": "n", "sourceVariable": "{{ctx.jsResult}}"});
    chain_to(
        &[json!({"id": "double", "type": "javascript", "config": {"code": code}})],
        json!({"id": "end", "type": "end", "config": {"outputParameters": [parameter]}}),
    )
}

#[test]
fn a_completed_run_prints_its_output_and_nothing_else() {
    let folder = Folder::new();
    let file = folder.write("double.json", double().to_string());
    let output = call(&["run", &file, "--input", r#"{"n": 21}"#]);
    assert_eq!(output.exits(0).stdout, "{\"n\":42}\n");
    output.says("started   double").says("log       double: doubling 21").says("completed double in ");
    let output = call(&["run", &file, "--input", r#"{"n": 21}"#, "--quiet"]);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("{\"n\":42}\n", ""));
}

#[test]
fn a_reader_that_goes_away_is_no_error_of_the_run() {
    let folder = Folder::new();
    let file = folder.write("double.json", double().to_string());
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output: CommandOutput = everstep().args(["run", &file, "--quiet"]).stdout(writer).output().unwrap().into();
    assert_eq!(output.exits(0).stderr, "");
}

#[test]
fn input_comes_from_the_command_line_a_file_or_standard_input() {
    let folder = Folder::new();
    let file = folder.write("double.json", double().to_string());
    let input = folder.write("input.json", "{\n  \"n\": 4\n}\n");
    assert_eq!(call(&["run", &file, "--input", &format!("@{input}")]).exits(0).json(), json!({"n": 8}));
    assert_eq!(call_with_stdin(&["run", &file, "--input", "-"], b"{\"n\": 5}\n").exits(0).json(), json!({"n": 10}));
}

#[test]
fn a_yaml_file_runs_as_its_json_does() {
    let folder = Folder::new();
    let text = "\
nodes:
  - {id: start, type: start}
  - id: double
    type: javascript
    config:
      code: |
        const n = ctx.input.n
        return n * 2
  - id: end
    type: end
    config:
      outputParameters:
        - name: answer
          sourceVariable: '{{ctx.jsResult}}'
        - name: words
          sourceVariable: [no, off, '1']
edges:
  - {source: start, target: double}
  - {source: double, target: end}
";
    let file = folder.write("double.yaml", text);
    let output = call(&["run", &file, "--input", r#"{"n": 3}"#]);
    assert_eq!(output.exits(0).json(), json!({"answer": 6, "words": ["no", "off", "1"]}));
}

#[test]
fn a_failed_run_shows_the_reason_and_exits_with_one() {
    let folder = Folder::new();
    let broken = json!({
        "id": "broken",
        "type": "javascript",
        "config": {"code": "console.log('about to'); throw new Error('out of \\u001b[31morder')"},
        "retry": {"maxAttempts": 2, "baseMs": 100},
    });
    let file = folder.write("broken.json", chain(&[broken]).to_string());
    let output = call(&["run", &file]);
    output
        .exits(1)
        .says("log       broken: about to")
        .says("failed    broken (attempt 1)")
        .says("retrying  broken in 100 ms")
        .says("failed    broken (attempt 2)")
        .says(" failed: JAVASCRIPT_ERROR: ");
    assert_eq!(output.stdout, "");
    assert!(!output.stderr.contains('\u{1b}'), "text of a workflow cannot control a terminal");
    let output = call(&["run", &example("shapes/error_path.json"), "--quiet"]);
    output.exits(1).says("END_ERROR");
}

#[test]
fn a_loop_that_waits_between_items_does_not_retry() {
    let folder = Folder::new();
    let config = json!({"sourceVariable": "{{[1, 2]}}", "delayBetweenItems": 100});
    let definition = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "each", "type": "loop", "config": config},
            {"id": "visit", "type": "noop"},
            {"id": "end", "type": "end"},
        ],
        "edges": [
            {"source": "start", "target": "each"},
            {"source": "each", "target": "visit", "sourceHandle": "loop"},
            {"source": "each", "target": "end", "sourceHandle": "done"},
        ],
    });
    let file = folder.write("paced.json", definition.to_string());
    let output = call(&["run", &file]);
    output.exits(0).says("running   each: 2 items").says("completed each in ");
    assert!(!output.stderr.contains("retrying"), "{}", output.stderr);
    output.says("waiting   each: next item in 100 ms");
}

#[test]
fn an_invalid_file_is_not_run() {
    let folder = Folder::new();
    let file = folder.write("bad.json", json!({"nodes": [{"id": "s", "type": "start", "x": 1}]}).to_string());
    let output = call(&["run", &file, "--data", &folder.at("data")]);
    output.exits(2).says("/nodes/0/x (node \"s\"): unknown field \"x\"").says("no end node");
    assert!(!folder.path().join("data").exists(), "nothing was started");
}

#[test]
fn an_invalid_input_is_refused() {
    let folder = Folder::new();
    let file = folder.write("double.json", double().to_string());
    let refused = |input: &str| -> CommandOutput {
        let output = call(&["run", &file, "--input", input]);
        output.exits(2);
        output
    };
    refused("{n: 1}").says("--input is not JSON");
    refused("").says("not JSON");
    refused("@no-such-file").says("No such file");
    refused(r#"{"n": "a\u0000b"}"#).says("NUL");
    refused(&format!("{}{}", "[".repeat(101), "]".repeat(101))).says("nested deeper than 100 levels");
    let large = json!({"n": "x".repeat(1024 * 1024)}).to_string();
    call_with_stdin(&["run", &file, "--input", "-"], large.as_bytes()).exits(2).says("more than 1048576 bytes");
    let input = folder.write("large.json", &large);
    call(&["run", &file, "--input", &format!("@{input}")]).exits(2).says("more than 1048576 bytes");
    let nested = "[".repeat(500_000) + &"]".repeat(500_000);
    call_with_stdin(&["run", &file, "--input", "-"], nested.as_bytes()).exits(2).says("nested deeper than");
    call_with_stdin(&["run", &file, "--input", "-"], b"\"\xff\"").exits(2).says("not UTF-8");
}

#[test]
fn a_text_with_a_nul_character_passes_through_a_run() {
    let folder = Folder::new();
    let parameter = json!({"name": "text", "sourceVariable": "{{ctx.jsResult}}"});
    let definition = chain_to(
        &[json!({"id": "nul", "type": "javascript", "config": {"code": "return 'a' + String.fromCharCode(0)"}})],
        json!({"id": "end", "type": "end", "config": {"outputParameters": [parameter]}}),
    );
    let file = folder.write("nul.json", definition.to_string());
    let output = call(&["run", &file, "--data", &folder.at("data"), "--key", "k"]);
    assert_eq!(output.exits(0).json(), json!({"text": "a\0"}));
    let again = call(&["run", &file, "--data", &folder.at("data"), "--key", "k"]);
    assert_eq!(again.exits(0).json(), json!({"text": "a\0"}));
}

#[test]
fn a_key_leads_to_the_same_run_again() {
    let folder = Folder::new();
    let file = folder.write("double.json", double().to_string());
    let data = folder.at("data");
    let run = |input: &str, key: &str| call(&["run", &file, "--data", &data, "--key", key, "--input", input]);
    assert_eq!(run(r#"{"n": 1}"#, "a").exits(0).json(), json!({"n": 2}));
    let again = run(r#"{"n": 100}"#, "a");
    let ended = "has that idempotency key and has ended; its stored output follows";
    assert_eq!(again.exits(0).says(ended).json(), json!({"n": 2}));
    assert_eq!(run(r#"{"n": 100}"#, "b").exits(0).json(), json!({"n": 200}));
    call(&["run", &file, "--key", "a"]).exits(2).says("--data");
    run("{}", &"k".repeat(256)).exits(2).says("1 to 255 characters");
}

#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let folder = Folder::new();
    let definition = chain_to(
        &[
            json!({"id": "first", "type": "javascript", "config": {"code": "return Math.random()"}}),
            json!({"id": "pause", "type": "delay", "config": {"delaySeconds": 2}}),
        ],
        json!({"id": "end", "type": "end", "config": {
            "outputParameters": [{"name": "first", "sourceVariable": "{{ctx.jsResult}}"}],
        }}),
    );
    let file = folder.write("slow.json", definition.to_string());
    let data = folder.at("data");
    let args = ["run", &file, "--data", &data, "--key", "k"];
    let mut command = everstep();
    let child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let database = folder.path().join("data/everstep.db");
    let output = || -> Option<Vec<u8>> {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let connection = rusqlite::Connection::open_with_flags(&database, flags).ok()?;
        let sql = "select payload from journal where step = 'first' and kind = 3";
        connection.query_row(sql, [], |row| row.get(0)).ok()
    };
    let before = wait_for("the first step", output);
    crate::support::server::send(&child, "INT");
    let output = CommandOutput::from(child.wait_with_output().unwrap());
    output.exits(130).says("is stored; continue it with: everstep run").says("--key k");
    assert_eq!(output.stdout, "");
    let output = call(&args);
    let first = output.exits(0).json()["first"].clone();
    let before: Value = serde_json::from_slice(&before).unwrap();
    assert_eq!(first, before["output"], "a completed step is not performed again");
}

#[test]
fn a_data_folder_belongs_to_one_process() {
    let folder = Folder::new();
    let data = folder.at("data");
    let server = crate::support::Server::start(&data);
    let file = folder.write("double.json", double().to_string());
    let holder = format!("is in use by process {}", server.id());
    call(&["run", &file, "--data", &data]).exits(3).says(&holder).says("--data");
    call(&["serve", "--listen", "127.0.0.1:0", "--data", &data]).exits(3).says(&holder);
    server.stop();
    call(&["run", &file, "--data", &data, "--input", r#"{"n": 1}"#]).exits(0);
}

#[test]
fn an_unusable_folder_is_reported() {
    let folder = Folder::new();
    let file = folder.write("double.json", double().to_string());
    let not_a_folder = format!("{file}/data");
    call(&["run", &file, "--data", &not_a_folder]).exits(3).says("cannot be created").says(&not_a_folder);
}

#[test]
fn settings_that_mean_nothing_are_refused() {
    let folder = Folder::new();
    let file = folder.write("double.json", double().to_string());
    let settings = folder.write("everstep.toml", "[engine]\nmax_active_rnus = 3\n");
    call(&["--config", &settings, "validate", &file]).exits(2).says("unknown field `max_active_rnus`").says("line 2");
    call(&["--config", "no-such.toml", "validate", &file]).exits(2).says("no-such.toml");
    let settings = folder.write("everstep.toml", "[engine]\npark_after = \"soon\"\n");
    call(&["--config", &settings, "validate", &file]).exits(2).says("\"soon\" is not a valid duration");
    let output: CommandOutput =
        everstep().args(["validate", &file]).env("EVERSTEP_DATTA", "x").output().unwrap().into();
    output.exits(2).says("unknown variable EVERSTEP_DATTA; did you mean EVERSTEP_DATA?");
    let output: CommandOutput = everstep().args(["validate", &file]).env("EVERSTEP_URL", "x").output().unwrap().into();
    output.exits(0);
    call(&["validate", &file, "--log", "everstep=loud"]).exits(2).says("is not a valid log filter");
    call(&["validate", &file, "--loud"]).exits(2).says("--loud");
}

#[test]
fn a_script_of_a_person_s_own_file_may_make_requests() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = [0; 1024];
        let _ = stream.read(&mut asked).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\n{\"n\": 42}").unwrap();
    });
    let code = format!("return (await (await fetch('http://{address}/n')).json()).n");
    let parameter = json!({"name": "n", "sourceVariable": "{{ctx.jsResult}}"});
    let definition = chain_to(
        &[json!({"id": "ask", "type": "javascript", "config": {"code": code}})],
        json!({"id": "end", "type": "end", "config": {"outputParameters": [parameter]}}),
    );
    let folder = Folder::new();
    let file = folder.write("ask.json", definition.to_string());
    assert_eq!(call(&["run", &file]).exits(0).json(), json!({"n": 42}));
    server.join().unwrap();
}
