//! Pages of `docs/reference` that are generated from the help of a binary.

use std::process::Command;

use everstep_testkit::contents;

use super::{CommandOutput, root};

/// Compares a page with the help of a program and of all its commands. With `BLESS=1` the page is written first.
pub(crate) fn check(page: &str, title: &str, name: &str, program: impl Fn() -> Command, last: &str) {
    let help = |args: &[&str]| -> String {
        let help: CommandOutput = program().args(args).arg("--help").env("COLUMNS", "100").output().unwrap().into();
        let lines: Vec<_> = help.exits(0).stdout.lines().map(str::trim_end).collect();
        lines.join("\n").trim_end().to_owned()
    };
    let mut sections = format!("\n## {name}\n\n```text\n{}\n```\n", help(&[]));
    let commands = commands(&help(&[])).into_iter().flat_map(|command| {
        let inner = commands(&help(&[&command]));
        let inner: Vec<_> = inner.into_iter().map(|inner| format!("{command} {inner}")).collect();
        if inner.is_empty() { vec![command] } else { inner }
    });
    for command in commands {
        let words: Vec<_> = command.split(' ').collect();
        sections += &format!("\n## {name} {command}\n\n```text\n{}\n```\n", help(&words));
    }
    let head = format!("# {title}\n\nThe output of `{name} --help`, for each command.\n\n");
    let text = format!("{head}{}{sections}\n{last}\n", contents::table(&sections));
    let path = root().join(page);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, text, "{page} is not the help of `{name}`: run the test with BLESS=1 to write it");
}

/// The commands that a help text lists.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A line that is indented further continues the line before it.
    let heads = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    heads.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}
