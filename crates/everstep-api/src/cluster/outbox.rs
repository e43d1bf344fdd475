//! Queued hints for one other node. They are batched while a request is in progress, and may be lost.

use std::collections::{BTreeMap, BTreeSet};

use everstep_core::ids::{NodeId, RunId};
use everstep_engine::Hint;

/// The maximum number of queued hints of each kind. Further ones are dropped: the tick finds the changes.
const HINTS_PER_KIND_MAX: usize = 4_096;

/// The next hints. A repeated hint has no additional effect, so each is queued once.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    inbox: bool,
    work: bool,
    watch: BTreeSet<(RunId, NodeId)>,
    /// The highest seq of each run, and whether it has ended with it.
    written: BTreeMap<RunId, (u64, bool)>,
}

impl Outbox {
    pub(super) fn add(&mut self, hint: Hint) {
        match hint {
            Hint::Inbox => self.inbox = true,
            Hint::Work => self.work = true,
            Hint::Watch { run, by } => {
                if self.watch.len() < HINTS_PER_KIND_MAX {
                    self.watch.insert((run, by));
                }
            }
            Hint::Written { run, seq } => self.add_written(run, (seq, false)),
            Hint::Ended { run, seq } => self.add_written(run, (seq, true)),
        }
    }

    fn add_written(&mut self, run: RunId, news: (u64, bool)) {
        if let Some(known) = self.written.get_mut(&run) {
            // A failed run may be retried: the later hint counts.
            *known = news.max(*known);
        } else if self.written.len() < HINTS_PER_KIND_MAX {
            self.written.insert(run, news);
        }
    }

    /// Takes all queued hints.
    pub(super) fn take_hints(&mut self) -> Vec<Hint> {
        let Self { inbox, work, watch, written } = std::mem::take(self);
        let news = [(inbox, Hint::Inbox), (work, Hint::Work)].into_iter().filter(|(is_new, _)| *is_new);
        news.map(|(_, hint)| hint)
            .chain(watch.into_iter().map(|(run, by)| Hint::Watch { run, by }))
            .chain(written.into_iter().map(|(run, (seq, has_ended))| match has_ended {
                true => Hint::Ended { run, seq },
                false => Hint::Written { run, seq },
            }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::time::Timestamp;

    use super::*;

    fn run(n: u128) -> RunId {
        RunId::new(Timestamp::EPOCH, n)
    }

    #[test]
    fn hints_are_gathered_and_each_is_said_once() {
        let mut outbox = Outbox::default();
        let by = NodeId::new(Timestamp::EPOCH, 9);
        for _ in 0..3 {
            outbox.add(Hint::Inbox);
            outbox.add(Hint::Work);
            outbox.add(Hint::Watch { run: run(1), by });
        }
        for seq in [4, 7, 5] {
            outbox.add(Hint::Written { run: run(2), seq });
        }
        outbox.add(Hint::Ended { run: run(3), seq: 9 });
        outbox.add(Hint::Written { run: run(3), seq: 8 });
        let said = outbox.take_hints();
        let ended = Hint::Ended { run: run(3), seq: 9 };
        let written = Hint::Written { run: run(2), seq: 7 };
        assert_eq!(said, [Hint::Inbox, Hint::Work, Hint::Watch { run: run(1), by }, written, ended]);
        assert_eq!(outbox.take_hints(), []);
    }

    #[test]
    fn an_outbox_does_not_grow_for_ever() {
        let mut outbox = Outbox::default();
        for n in 0..2 * HINTS_PER_KIND_MAX as u128 {
            outbox.add(Hint::Written { run: run(n), seq: 1 });
        }
        assert_eq!(outbox.take_hints().len(), HINTS_PER_KIND_MAX);
    }
}
