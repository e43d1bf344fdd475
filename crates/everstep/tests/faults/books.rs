//! The content of the database after a fault: every run with its journal, and whether they obey the laws.

use std::collections::{BTreeMap, btree_map};
use std::path::Path;
use std::time::Duration;

use everstep_core::graph;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::journal::codec;
use everstep_core::journal::law;
use everstep_core::journal::{Entry, Event};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::workflow::{Style, Workflow};
use everstep_expressions::Expressions;
use everstep_handlers::{Ports, Registry};
use everstep_store::{AccessStore, AuditFilter, AuditRow, RunFilter, RunRow, Stores, WorkflowStore, postgres, sqlite};
use everstep_testkit::postgres::TestDatabase;

pub(crate) struct Books {
    workflows: BTreeMap<(String, u32), Workflow>,
    pub(crate) accounts: Vec<Account>,
    /// All rows of the audit, newest first.
    pub(crate) audit: Vec<AuditRow>,
}

/// One run.
pub(crate) struct Account {
    pub(crate) row: RunRow,
    /// Its journal, each entry with the node that wrote it.
    pub(crate) journal: Vec<(NodeId, Entry)>,
}

impl Books {
    pub(crate) fn from_database(database: &TestDatabase<'_>) -> Self {
        block_on(async { Self::read(&postgres::open(&database.url(), &Default::default()).await.unwrap()).await })
    }

    /// The books of an SQLite database without users.
    pub(crate) fn from_folder(data: &Path) -> Self {
        block_on(async { Self::read(&sqlite::open(data, &Default::default()).unwrap()).await })
    }

    async fn read(stores: &Stores) -> Self {
        let store = &stores.runs;
        let mut books =
            Self { workflows: BTreeMap::new(), accounts: Vec::new(), audit: read_audit(&*stores.access).await };
        let mut after = None;
        loop {
            let page = store.list_runs(WorkspaceId::DEFAULT, RunFilter::default(), after, 500).await.unwrap();
            for run in page.runs {
                let row = store.get_run(WorkspaceId::DEFAULT, run.id).await.unwrap().unwrap();
                let stored = store.journal(run.id, 0, 100_000).await.unwrap().into_iter();
                let entry = |stored: everstep_store::StoredEntry| {
                    (stored.writer, codec::decode(stored.seq, stored.at, stored.row).unwrap())
                };
                let journal = stored.map(entry).collect();
                let key = (row.workflow.clone(), row.version);
                if let btree_map::Entry::Vacant(place) = books.workflows.entry(key) {
                    let workflow = read_workflow(&*stores.workflows, place.key()).await;
                    place.insert(workflow);
                }
                books.accounts.push(Account { row, journal });
            }
            after = page.next;
            if after.is_none() {
                return books;
            }
        }
    }

    /// Nothing is lost and nothing is duplicated:
    ///
    /// 1. There is a run for every start that was answered, and no others except the children that runs have called.
    /// 2. Every run has completed, and has no owner.
    /// 3. Every journal obeys the laws: no gap, no attempt dispatched or settled twice, no step completed twice, and
    ///    nothing more to do.
    /// 4. Every dispatched step has completed.
    #[track_caller]
    pub(crate) fn check<'a>(&self, acknowledged: impl IntoIterator<Item = &'a String>) {
        let mut acknowledged: Vec<_> = acknowledged.into_iter().cloned().collect();
        acknowledged.sort();
        let roots = self.accounts.iter().filter(|account| account.row.parent.is_none());
        let mut roots: Vec<_> = roots.map(|account| format!("/v1/runs/{}", account.row.id)).collect();
        roots.sort();
        assert_eq!(roots, acknowledged, "the runs that are there are those that were answered");
        let mut called: Vec<RunId> = Vec::new();
        for account in &self.accounts {
            called.extend(account.check(&self.workflows[&(account.row.workflow.clone(), account.row.version)]));
        }
        called.sort();
        let children = self.accounts.iter().filter(|account| account.row.parent.is_some());
        let mut children: Vec<_> = children.map(|account| account.row.id).collect();
        children.sort();
        assert_eq!(children, called, "the children that are there are those that were called");
    }

    /// The number of attempts of steps with this number or a higher one.
    pub(crate) fn attempts_from(&self, least: u32) -> usize {
        let events = self.accounts.iter().flat_map(|account| &account.journal).map(|(_, entry)| &entry.event);
        events.filter(|event| matches!(event, Event::StepDispatched { attempt, .. } if *attempt >= least)).count()
    }

    pub(crate) fn entries(&self) -> usize {
        self.accounts.iter().map(|account| account.journal.len()).sum()
    }

    /// The longest time between two entries of one run of these workflows.
    pub(crate) fn longest_pause(&self, workflows: &[&str]) -> Duration {
        let runs = self.accounts.iter().filter(|account| workflows.contains(&&*account.row.workflow));
        let pauses = runs.flat_map(|run| run.journal.windows(2)).map(|pair| pair[1].1.at.since(pair[0].1.at));
        pauses.max().unwrap_or_default()
    }
}

impl Account {
    /// Returns the children that it has called.
    #[track_caller]
    fn check(&self, workflow: &Workflow) -> Vec<RunId> {
        let (run, journal) = (self.row.id, self.entries());
        let state = law::check(run, workflow, &journal, &Expressions::default(), false)
            .unwrap_or_else(|broken| panic!("run {run} of {}: {broken}", workflow.name));
        assert_eq!(state.status(), Status::Completed, "run {run} of {}: {:?}", workflow.name, journal.last());
        assert_eq!((self.row.status, self.row.owner), (Status::Completed, None), "run {run}");
        let (mut dispatched, mut completed, mut called) = (Vec::new(), Vec::new(), Vec::new());
        for entry in &journal {
            match &entry.event {
                Event::StepDispatched { step, dispatch, .. } => {
                    dispatched.push(step.clone());
                    if let everstep_core::journal::Dispatch::Child(child) = dispatch {
                        called.push(child.run);
                    }
                }
                Event::StepCompleted { step, .. } => completed.push(step.clone()),
                _ => {}
            }
        }
        dispatched.sort();
        dispatched.dedup();
        completed.sort();
        assert_eq!(completed, dispatched, "run {run}: each step that was dispatched has completed once");
        called
    }

    fn entries(&self) -> Vec<Entry> {
        self.journal.iter().map(|(_, entry)| entry.clone()).collect()
    }

    /// The first entry that was written at a time or later.
    pub(crate) fn first_since(&self, at: Timestamp) -> Option<&Entry> {
        self.journal.iter().map(|(_, entry)| entry).find(|entry| entry.at >= at)
    }
}

async fn read_audit(store: &dyn AccessStore) -> Vec<AuditRow> {
    let mut rows: Vec<AuditRow> = Vec::new();
    loop {
        let before = rows.last().map(|row| row.id);
        let page = store.list_audit(WorkspaceId::DEFAULT, AuditFilter::default(), before, 1_000).await.unwrap();
        if page.is_empty() {
            return rows;
        }
        rows.extend(page);
    }
}

async fn read_workflow(store: &dyn WorkflowStore, (name, version): &(String, u32)) -> Workflow {
    let row = store.workflow(WorkspaceId::DEFAULT, name, Some(*version)).await.unwrap().unwrap();
    let registry = Registry::standard(Ports::none());
    let graph = graph::compile(row.definition.value(), &registry, &Expressions::default()).unwrap();
    Workflow {
        name: name.clone(),
        version: *version,
        style: Style::Graph(graph),
        is_unsaved: false,
        publisher: Default::default(),
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
