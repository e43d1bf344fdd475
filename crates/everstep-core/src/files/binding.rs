//! The files that an item binds to its run.

use crate::ids::FileId;
use crate::journal::{Entry, Event};

/// A file that an item binds: the entry of this seq names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileBinding {
    pub file: FileId,
    pub seq: u64,
}

/// The files that the entries of one item bind, in the order of the entries.
pub fn bound_by(entries: &[Entry]) -> Vec<FileBinding> {
    let bind = |entry: &Entry| {
        let seq = entry.seq;
        // No request has a file whose id is not a UUID.
        let ids = files_of(&entry.event).iter().filter_map(|id| id.parse().ok());
        ids.map(move |file| FileBinding { file, seq }).collect::<Vec<_>>()
    };
    entries.iter().flat_map(bind).collect()
}

fn files_of(event: &Event) -> &[String] {
    match event {
        Event::TransitionApplied(applied) => &applied.files,
        Event::VoteCast(vote) => &vote.files,
        Event::RunStarted { .. }
        | Event::StepDispatched { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::StepSkipped { .. }
        | Event::TimerSet { .. }
        | Event::TimerFired { .. }
        | Event::ContextSet { .. }
        | Event::WaitOpened { .. }
        | Event::WaitResolved { .. }
        | Event::SignalBuffered { .. }
        | Event::TurnStarted { .. }
        | Event::TurnLost { .. }
        | Event::Assigned(_)
        | Event::RunPaused { .. }
        | Event::RunResumed
        | Event::RunRetried
        | Event::RunCompleted { .. }
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. } => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor::Actor;
    use crate::journal::VoteCast;
    use crate::time::Timestamp;

    #[test]
    fn an_item_binds_the_files_that_its_entries_name() {
        let files = [1, 2].map(|n| FileId::new(Timestamp::EPOCH, n));
        let vote = VoteCast {
            action: "APPROVE".to_owned(),
            version_no: 1,
            by: Actor::person("ann"),
            on_behalf_of: None,
            comment: None,
            files: files.iter().map(ToString::to_string).chain(["f1".to_owned()]).collect(),
            shown: None,
            is_withdrawn: false,
            request: None,
        };
        let entries = [
            Entry::new(6, Timestamp::EPOCH, Event::RunResumed),
            Entry::new(7, Timestamp::EPOCH, Event::VoteCast(Box::new(vote))),
        ];
        assert_eq!(bound_by(&entries), files.map(|file| FileBinding { file, seq: 7 }));
    }
}
