//! `everstep follow`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::client_args::FollowArgs;
use crate::commands::client::{entry_line, run_id};
use crate::remote::Remote;
use crate::{exit, output, text};

/// The pause before a lost stream or request is repeated, and the number of attempts without a new entry or response.
pub(super) const RECONNECT_AFTER: Duration = Duration::from_secs(1);
pub(super) const RECONNECTS_MAX: u32 = 30;

pub(crate) async fn run(args: &FollowArgs) -> anyhow::Result<ExitCode> {
    let remote = Remote::from_settings_or_default(&args.remote)?;
    let run = run_id::find(&remote, &args.run).await?;
    let (mut after, mut failures) = (args.after, 0);
    loop {
        let before = after;
        // The first connection is not retried: its error is reported to the user.
        match follow(&remote, &run, &mut after).await {
            Ok(Some(status)) => return end(&run, &status),
            Ok(None) => {}
            Err(error) if after == args.after => return Err(error),
            Err(error) if error.is::<output::OutputClosed>() => return Err(error),
            Err(error) if failures == RECONNECTS_MAX => return Err(error),
            Err(error) => tracing::debug!(%error, "the stream was interrupted"),
        }
        failures = if after > before { 0 } else { failures + 1 };
        if failures > RECONNECTS_MAX {
            bail!("the server closed the stream {RECONNECTS_MAX} times without a new entry");
        }
        tokio::time::sleep(RECONNECT_AFTER).await;
    }
}

/// Prints entries until the stream ends. Returns the status of a run that has ended.
async fn follow(remote: &Remote, run: &str, after: &mut u64) -> anyhow::Result<Option<String>> {
    let path = Remote::path(&["v1", "runs", run, "events"], &[("after", after.to_string())]);
    let mut response = remote.open(&path).await?;
    // The run has ended, and there is no later entry.
    if response.status().as_u16() == 204 {
        let path = Remote::path(&["v1", "runs", run], crate::remote::NO_QUERY);
        let shown = remote.ask(everstep_net::Method::GET, &path, None).await?;
        return Ok(shown["status"].as_str().map(str::to_owned));
    }
    let mut events = Events::default();
    while let Some(chunk) = response.chunk().await.context("following the run")? {
        for (name, data) in events.read(&chunk) {
            match &*name {
                "entry" => {
                    output::print(entry_line::draw(&data))?;
                    *after = data["seq"].as_u64().unwrap_or(*after);
                }
                "status" if data["status"] == "paused" => {
                    eprintln!("the run is paused; `everstep resume {run}` continues it");
                }
                // Without a status the run has not ended: the server closes the stream for another reason.
                "end" => return Ok(data["status"].as_str().map(str::to_owned)),
                _ => {}
            }
        }
    }
    Ok(None)
}

fn end(run: &str, status: &str) -> anyhow::Result<ExitCode> {
    eprintln!("run {run} {}", text::safe(status));
    Ok(ExitCode::from(if status == "completed" { 0 } else { exit::FAILED }))
}

/// Reads server-sent events from the chunks of a response.
#[derive(Default)]
struct Events(Vec<u8>);

impl Events {
    /// The events that are complete with this chunk, with their names.
    fn read(&mut self, chunk: &[u8]) -> Vec<(String, Value)> {
        self.0.extend_from_slice(chunk);
        let mut events = Vec::new();
        while let Some(end) = self.0.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = self.0.drain(..end + 2).collect();
            let event = String::from_utf8_lossy(&event);
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            if let (Some(name), Some(data)) = (field("event: "), field("data: ")) {
                events.push((name.to_owned(), serde_json::from_str(data).unwrap_or_default()));
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_read_in_whatever_pieces_they_come() {
        let stream = b"retry: 1000\n\n:\n\nid: 1\nevent: entry\ndata: {\"seq\": 1}\n\nevent: end\ndata: {\"status\":\"failed\"}\n\n";
        for size in [1, 2, 7, 1_000] {
            let mut events = Events::default();
            let read: Vec<_> = stream.chunks(size).flat_map(|chunk| events.read(chunk)).collect();
            let expected = [("entry".to_owned(), json!({"seq": 1})), ("end".to_owned(), json!({"status": "failed"}))];
            assert_eq!(read, expected, "{size}");
        }
    }
}
