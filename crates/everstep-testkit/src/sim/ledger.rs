//! The facts of a simulation outside the servers: replies, faults and observations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::{DeadLetterId, EventId, FileId, NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::run::Input;
use everstep_core::time::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;
use uuid::Uuid;

use super::audit::{Asked, AuditedRequest};
use super::callers::StoreCall;
use super::event_order::EventOrder;
use super::executor::{BEGIN, Process};
use super::figures::AddedFigures;
use super::follower::Followed;
use super::forks::Forked;
use super::people::PersonRequest;
use super::requeues::Requeues;

pub(super) struct Ledger {
    /// Whether the servers share their database, and the lease of a node.
    pub(super) is_shared: bool,
    /// Whether graphs read and write records and links.
    pub(super) has_records: bool,
    /// Whether clients publish events.
    pub(super) has_events: bool,
    /// The runs of the other workspaces.
    pub(super) neighbours: BTreeSet<(WorkspaceId, RunId)>,
    /// How often in a row the claims of a node have given nothing to a workspace with due runs.
    pub(super) missed: BTreeMap<(NodeId, WorkspaceId), usize>,
    /// Events that were answered as published, by their numbers.
    pub(super) published: BTreeMap<u64, EventId>,
    /// Runs that events have started.
    pub(super) triggered: BTreeSet<RunId>,
    /// Runs that were created without a journal.
    pub(super) pending: BTreeSet<RunId>,
    /// Pauses and resumptions of runs that had not begun, and how often.
    pub(super) holds: BTreeMap<Asked, usize>,
    /// The order of waits, events and subscriptions.
    pub(super) order: EventOrder,
    /// Waits for an event that are about to be opened, with their topic and their `n`: an event is published at once.
    pub(super) opening_waits: Vec<(&'static str, Value)>,
    pub(super) wait_opening: Arc<Notify>,
    pub(super) lease: Duration,
    /// The lease of a worker.
    pub(super) worker_lease: Duration,
    /// The outputs of workers' steps.
    pub(super) tokens: BTreeSet<(RunId, StepKey, u64)>,
    /// The percentage of calls with each kind of fault.
    pub(super) fault_rate: usize,
    /// Runs by the key that they were started with.
    pub(super) started: BTreeMap<String, RunId>,
    /// Runs that runs have started.
    pub(super) children: BTreeSet<RunId>,
    /// Runs that a client follows at some server.
    pub(super) followed: BTreeSet<RunId>,
    pub(super) performed: BTreeSet<(RunId, StepKey, u32)>,
    /// Attempts that handlers failed.
    pub(super) failed: BTreeSet<(RunId, StepKey, u32)>,
    /// Results of handlers, to be delivered again.
    pub(super) results: Vec<(RunId, Input)>,
    /// Signals that people sent, by their payloads.
    pub(super) signals: BTreeMap<u64, Signal>,
    /// Requests of persons to machines, by their numbers.
    pub(super) requests: BTreeMap<u64, PersonRequest>,
    /// When each version of a machine was written.
    pub(super) versions: BTreeMap<(RunId, u32), Timestamp>,
    /// Periods in which a machine was suspended or did not reach the database, or time jumped: the machine, unless all of
    /// them, the begin and the end.
    pub(super) troubles: Vec<(Option<usize>, Timestamp, Timestamp)>,
    /// The request whose answer was that it led to a version of a run.
    pub(super) moves: BTreeMap<(RunId, u32), u64>,
    /// The requests to requeue each dead letter.
    pub(super) requeues: BTreeMap<DeadLetterId, Requeues>,
    /// The ids of the deliveries that targets have accepted, with the number of the attempt.
    pub(super) delivered: BTreeSet<(String, usize)>,
    /// The notices of each dead letter: how many operators have received, and how many were lost.
    pub(super) notices: BTreeMap<String, (usize, usize)>,
    /// The files that persons have uploaded.
    pub(super) uploads: Vec<(String, FileId)>,
    /// Requests to write records, by their numbers.
    pub(super) calls: BTreeMap<u64, StoreCall>,
    /// Forks, by their keys.
    pub(super) forks: BTreeMap<String, Forked>,
    /// Requests with a row of the audit, by the id of the row.
    pub(super) audited: BTreeMap<Uuid, AuditedRequest>,
    /// Signals that were sent through the inbox, by run and step.
    pub(super) inbox_signals: BTreeSet<(RunId, StepKey)>,
    /// The number of signals that were sent through the inbox to each run.
    pub(super) inbox_signals_sent: BTreeMap<RunId, usize>,
    /// The end of the period in which the disk is full.
    pub(super) full_until: Option<Timestamp>,
    /// Waits for an inbox signal that were just opened: it is sent at once.
    pub(super) new_inbox_waits: Vec<(RunId, StepKey, String)>,
    pub(super) inbox_wait_opened: Arc<Notify>,
    /// Runs that have just continued: a client sends inputs to them at once.
    pub(super) bothered: Vec<RunId>,
    pub(super) bother: Arc<Notify>,
    pub(super) machines: Vec<Machine>,
    /// Every node id that a process has had.
    pub(super) members: BTreeMap<NodeId, Member>,
    /// When each fenced node was fenced.
    pub(super) fenced: BTreeMap<NodeId, Timestamp>,
    /// Which node wrote each entry.
    pub(super) writers: BTreeMap<(RunId, u64), NodeId>,
    /// The end of the period in which no server reaches the database.
    pub(super) outage_until: Timestamp,
    /// Notifies that all connections to the database work again.
    pub(super) mended: Arc<Notify>,
    /// When time last jumped without a notification.
    pub(super) jumped_at: Timestamp,
    /// Until when a lease may last longer than it should, because the database's clock was set back.
    pub(super) set_back_until: Timestamp,
    /// The figures of runs over time.
    pub(super) figures: AddedFigures,
    /// The statuses that the follower of the workspace knows, if there is one.
    pub(super) feed: Option<Followed>,
    pub(super) violations: Vec<String>,
    pub(super) faults: u32,
    /// From then on there are no faults, and every run must end.
    pub(super) is_calm: bool,
}

/// A machine with its process, as an observer sees them.
pub(super) struct Machine {
    pub(super) process: Process,
    pub(super) is_up: bool,
    pub(super) is_paused: bool,
    pub(super) is_stopping: bool,
    pub(super) booted_at: Timestamp,
    pub(super) resumed_at: Timestamp,
    /// The end of the period in which it does not reach the database.
    pub(super) cut_until: Timestamp,
    /// When a call of its tick last failed.
    pub(super) unsteady_at: Timestamp,
    /// When it sent the last heartbeat that was answered.
    heartbeat: Option<Timestamp>,
    pub(super) max_active_runs: usize,
}

/// A process while it is a node.
pub(super) struct Member {
    pub(super) machine: usize,
    pub(super) process: Process,
    pub(super) joined_at: Timestamp,
    pub(super) died_at: Option<Timestamp>,
    /// Whether it was asked to stop: then it starts no task.
    pub(super) was_stopped: bool,
}

/// A signal that a person sent, perhaps more than once.
pub(super) struct Signal {
    pub(super) run: RunId,
    pub(super) fate: Fate,
}

/// The reply that the sender of a signal received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Accepted,
    /// Nothing was written.
    Nothing,
    Unknown,
}

impl Ledger {
    pub(super) fn new(machines: usize, is_shared: bool, lease: Duration, fault_rate: usize) -> Self {
        Self {
            is_shared,
            has_records: false,
            lease,
            worker_lease: lease * 2,
            tokens: BTreeSet::new(),
            fault_rate,
            has_events: false,
            neighbours: BTreeSet::new(),
            missed: BTreeMap::new(),
            published: BTreeMap::new(),
            triggered: BTreeSet::new(),
            pending: BTreeSet::new(),
            holds: BTreeMap::new(),
            order: EventOrder::default(),
            opening_waits: Vec::new(),
            wait_opening: Arc::default(),
            started: BTreeMap::new(),
            children: BTreeSet::new(),
            followed: BTreeSet::new(),
            performed: BTreeSet::new(),
            failed: BTreeSet::new(),
            results: Vec::new(),
            signals: BTreeMap::new(),
            requests: BTreeMap::new(),
            versions: BTreeMap::new(),
            troubles: Vec::new(),
            moves: BTreeMap::new(),
            requeues: BTreeMap::new(),
            delivered: BTreeSet::new(),
            notices: BTreeMap::new(),
            uploads: Vec::new(),
            calls: BTreeMap::new(),
            forks: BTreeMap::new(),
            audited: BTreeMap::new(),
            inbox_signals: BTreeSet::new(),
            inbox_signals_sent: BTreeMap::new(),
            full_until: None,
            new_inbox_waits: Vec::new(),
            inbox_wait_opened: Arc::default(),
            bothered: Vec::new(),
            bother: Arc::default(),
            machines: (0..machines).map(|_| Machine::new()).collect(),
            members: BTreeMap::new(),
            fenced: BTreeMap::new(),
            writers: BTreeMap::new(),
            outage_until: BEGIN,
            mended: Arc::default(),
            jumped_at: BEGIN,
            set_back_until: BEGIN,
            figures: AddedFigures::default(),
            feed: None,
            violations: Vec::new(),
            faults: 0,
            is_calm: false,
        }
    }

    /// All runs that are known to exist.
    pub(super) fn runs(&self) -> Vec<RunId> {
        let forks = self.forks.values().flatten().map(|(run, _)| run);
        self.started.values().chain(&self.children).chain(&self.triggered).chain(forks).copied().collect()
    }

    pub(super) fn violation(&mut self, text: String) {
        self.violations.push(text);
    }

    /// The end of the period in which a machine does not reach the database.
    pub(super) fn cut_until(&self, machine: usize) -> Timestamp {
        self.machines[machine].cut_until.max(self.outage_until)
    }

    /// Since when a machine has run and reached the database; `None` while it does not.
    pub(super) fn well_since(&self, machine: usize, now: Timestamp) -> Option<Timestamp> {
        let cut_until = self.cut_until(machine);
        let machine = &self.machines[machine];
        let since = cut_until.max(machine.booted_at).max(machine.resumed_at).max(self.jumped_at);
        (machine.is_up && !machine.is_paused && !machine.is_stopping && since <= now).then_some(since)
    }

    /// Since when a machine has been well and none of its ticks has failed.
    pub(super) fn steady_since(&self, machine: usize, now: Timestamp) -> Option<Timestamp> {
        self.well_since(machine, now).map(|since| since.max(self.machines[machine].unsteady_at))
    }

    /// Whether a machine was suspended or did not reach the database in a period.
    pub(super) fn had_trouble(&self, machine: usize, from: Timestamp, until: Timestamp) -> bool {
        let is_of = |trouble: Option<usize>| trouble.is_none_or(|other| other == machine);
        self.troubles.iter().any(|(other, begin, end)| is_of(*other) && *begin <= until && from <= *end)
    }

    /// A heartbeat was answered. The reply to an earlier one may arrive after it.
    pub(super) fn answered(&mut self, machine: usize, sent: Timestamp) {
        let last = &mut self.machines[machine].heartbeat;
        *last = (*last).max(Some(sent));
    }

    /// The time since a machine's last heartbeat, and whether its process must know that its lease has nearly expired.
    ///
    /// This includes the moment at which a suspended process continues or time has jumped. No check of a lease covers a
    /// suspension between the check and the work, but here a process is suspended, and time passes, only between polls:
    /// work that begins in the poll in which its lease was checked is never late.
    pub(super) fn silence(&self, machine: usize, now: Timestamp) -> (Duration, bool) {
        let machine = &self.machines[machine];
        let silence = machine.heartbeat.map_or(Duration::MAX, |heartbeat| now.since(heartbeat));
        (silence, self.is_shared && silence > self.lease * 7 / 10)
    }

    /// The process on a machine has ended, and with it its nodes.
    pub(super) fn buried(&mut self, machine: usize, now: Timestamp) {
        let dead = &mut self.machines[machine];
        (dead.is_up, dead.is_paused, dead.is_stopping, dead.heartbeat) = (false, false, false, None);
        let process = dead.process;
        for member in self.members.values_mut().filter(|member| member.process == process) {
            member.died_at.get_or_insert(now);
        }
    }

    /// The process on a machine is asked to stop.
    pub(super) fn stopped(&mut self, machine: usize) {
        self.machines[machine].is_stopping = true;
        let process = self.machines[machine].process;
        for member in self.members.values_mut().filter(|member| member.process == process) {
            member.was_stopped = true;
        }
    }

    /// Since when a node no longer exists; `None` while it does.
    pub(super) fn gone_since(&self, node: NodeId) -> Option<Timestamp> {
        let died_at = self.members.get(&node).and_then(|member| member.died_at);
        let fenced_at = self.fenced.get(&node).copied();
        died_at.into_iter().chain(fenced_at).min()
    }
}

impl Machine {
    fn new() -> Self {
        Self {
            process: 0,
            is_up: false,
            is_paused: false,
            is_stopping: false,
            booted_at: BEGIN,
            resumed_at: BEGIN,
            cut_until: BEGIN,
            unsteady_at: BEGIN,
            heartbeat: None,
            max_active_runs: 0,
        }
    }
}
