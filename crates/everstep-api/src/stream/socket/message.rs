//! The messages of a socket, each a JSON object.

use everstep_core::decode::describe_error;
use everstep_core::ids::RunId;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::http::problem::Problem;
use crate::resources::runs::EntryForm;
use crate::stream::feed::RunMessage;

/// A request of a client: `{"follow": "run", "id": …}`, `{"follow": "workspace"}`, `{"leave": "run", "id": …}` or
/// `{"leave": "workspace"}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SocketRequest {
    follow: Option<String>,
    leave: Option<String>,
    /// The run.
    id: Option<String>,
    /// Follow a run from after this entry; without it, the first message is a snapshot.
    after: Option<u64>,
    /// `heads` for entries without values; `full` by default.
    view: Option<String>,
}

/// A request that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    FollowRun { run: RunId, after: Option<u64>, form: EntryForm },
    LeaveRun { run: RunId },
    FollowWorkspace,
    LeaveWorkspace,
}

/// Reads a request. The refusal contains the run that it names, if it names one.
pub(super) fn read(text: &str) -> Result<Command, (Option<String>, Problem)> {
    let hint = "send {\"follow\": \"run\", \"id\": …}, {\"follow\": \"workspace\"}, or the same with \"leave\"";
    let invalid = |detail: String| Problem::invalid(detail).hint(hint);
    // An array would be decoded as the fields of an object, in order.
    if !text.trim_ascii_start().starts_with('{') {
        return Err((None, invalid("a message must be an object".to_owned())));
    }
    let request: SocketRequest = serde_json::from_str(text)
        .map_err(|error| (None, invalid(format!("the message is not valid: {}", describe_error(&error)))))?;
    let SocketRequest { follow, leave, id, after, view } = request;
    let refuse = |detail: &str| (id.clone(), invalid(detail.to_owned()));
    let run = |id: &Option<String>| {
        let id = id.as_deref().ok_or_else(|| refuse("the message has no id of a run"))?;
        id.parse::<RunId>().map_err(|_| refuse("the id is not that of a run"))
    };
    match (follow.as_deref(), leave.as_deref()) {
        (Some("run"), None) => {
            let form = match view.as_deref().map(EntryForm::from_word) {
                None => EntryForm::Whole,
                Some(Some(form)) => form,
                Some(None) => return Err(refuse("view must be `full` or `heads`")),
            };
            Ok(Command::FollowRun { run: run(&id)?, after, form })
        }
        (None, Some("run")) if after.is_none() && view.is_none() => Ok(Command::LeaveRun { run: run(&id)? }),
        (Some("workspace"), None) if id.is_none() && after.is_none() && view.is_none() => Ok(Command::FollowWorkspace),
        (None, Some("workspace")) if id.is_none() && after.is_none() && view.is_none() => Ok(Command::LeaveWorkspace),
        _ => Err(refuse("the message is neither to follow nor to leave a run or the workspace")),
    }
}

pub(super) fn render(run: RunId, message: &RunMessage) -> String {
    fn text(run: RunId, event: &str, seq: Option<u64>, data: &impl Serialize) -> String {
        let data = serde_json::to_string(data).expect("an event can be written as JSON");
        let seq = seq.map(|seq| format!("\"seq\":{seq},")).unwrap_or_default();
        format!("{{\"run\":\"{run}\",\"event\":\"{event}\",{seq}\"data\":{data}}}")
    }
    match message {
        RunMessage::Snapshot { seq, data } => text(run, "snapshot", Some(*seq), data),
        RunMessage::Entry { seq, data } => text(run, "entry", Some(*seq), data),
        RunMessage::Status(data) => text(run, "status", None, data),
        RunMessage::End(data) => text(run, "end", None, data),
    }
}

/// A refusal.
pub(super) fn refusal(run: Option<&str>, problem: Problem) -> String {
    let (code, detail) = problem.into_words();
    let mut message = json!({"error": {"code": code, "detail": detail}});
    if let Some(run) = run {
        message["run"] = json!(run);
    }
    message.to_string()
}

#[cfg(test)]
mod tests {
    use everstep_core::time::Timestamp;

    use super::*;

    #[test]
    fn requests_are_read_exactly() {
        let run = RunId::new(Timestamp::EPOCH, 7);
        let follow = format!(r#"{{"follow":"run","id":"{run}","after":3,"view":"heads"}}"#);
        let command = Command::FollowRun { run, after: Some(3), form: EntryForm::Head };
        assert_eq!(read(&follow).ok(), Some(command));
        assert_eq!(read(r#"{"follow":"workspace"}"#).ok(), Some(Command::FollowWorkspace));
        let wrong = [
            "",
            "[]",
            "{}",
            r#"{"follow":"run"}"#,
            r#"{"follow":"run","id":"x"}"#,
            r#"{"follow":"workspace","id":"x"}"#,
            r#"{"follow":"workspace","leave":"workspace"}"#,
            r#"{"follow":"all"}"#,
            r#"{"follow":"workspace","more":1}"#,
        ];
        for text in wrong {
            assert!(read(text).is_err(), "{text}");
        }
        let half = format!(r#"{{"follow":"run","id":"{run}","view":"half"}}"#);
        assert_eq!(read(&half).err().and_then(|(named, _)| named), Some(run.to_string()));
    }
}
