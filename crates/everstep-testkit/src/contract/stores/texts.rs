//! Texts with a NUL character: no database stores them, and a search for one finds nothing.

use std::fmt::Debug;

use everstep_core::actor::Actor;
use everstep_core::journal::Kind;
use everstep_core::payload::Payload;
use everstep_core::records::{Op, OpAction, OpKey, RecordQuery, SetRequest, UnlinkRequest};
use everstep_core::status::Status;
use everstep_store::{
    AuditFilter, AuditRow, Counts, Deletion, Error, Gate, Item, KeyRow, NamespaceQuery, NewRun, NewWorkflow,
    ResourceKind, ResourceRow, Result, RunFilter, Stores, TickRequest, WaitChange, WorkspaceRow,
};
use serde_json::json;

use crate::contract::fixtures::*;

const NUL: &str = "a\0b";

pub(crate) fn is_refused<T: Debug>(written: &Result<T>) {
    assert!(matches!(written, Err(Error::Refused(_))), "{written:?}");
}

pub async fn texts_with_a_nul_are_not_stored(stores: Stores) {
    let nul = || NUL.to_owned();
    is_refused(&stores.runs.join(new_node(), LEASE, Some(nul())).await);
    is_refused(&stores.access.setting(NUL, b"value").await);
    let key = KeyRow {
        id: new_run().uuid(),
        workspace: HERE,
        name: "key".to_owned(),
        hash: [1; 32],
        permissions: vec![],
        role: None,
        rate_limit: None,
        created_at: at(0),
        expires_at: None,
        revoked_at: None,
        maker: None,
    };
    for key in [KeyRow { name: nul(), ..key.clone() }, KeyRow { role: Some(nul()), ..key.clone() }] {
        is_refused(&stores.access.add_key(&key).await);
        is_refused(&stores.access.add_first_key(&key).await);
    }
    is_refused(&stores.access.add_key(&KeyRow { permissions: vec![nul()], ..key }).await);
    let workspace = WorkspaceRow { id: new_workspace(), name: nul(), options: Payload::null(), created_at: at(0) };
    is_refused(&stores.access.add_workspace(&workspace).await);
    let audit = AuditRow {
        id: new_run().uuid(),
        workspace: HERE,
        at: at(0),
        actor: Actor::system(""),
        action: String::new(),
        target: nul(),
        details: Payload::null(),
    };
    is_refused(&stores.access.add_audit(&[AuditRow { target: String::new(), ..audit.clone() }, audit]).await);
    let resource = ResourceRow {
        workspace: HERE,
        kind: ResourceKind::Secret,
        name: nul(),
        body: vec![0],
        created_at: at(0),
        updated_at: at(0),
    };
    is_refused(&stores.resources.put_resource(&resource).await);
    let unnamed = NewWorkflow { name: nul(), ..workflow("orders", "one") };
    is_refused(&put_workflow(&*stores.workflows, unnamed, true).await);
    is_refused(
        &stores.runs.add_counts(HERE, vec![Counts { workflow: nul(), status: Status::Failed, n: 1 }], vec![]).await,
    );
    let unlink = UnlinkRequest { relation: Some(nul()), from: Some(task("1")), ..UnlinkRequest::default() };
    for op in [
        Op { namespace: nul(), ..set("k", 1) },
        Op { key: OpKey::from_stored(NUL), ..set("k", 1) },
        Op { action: OpAction::Set(SetRequest::new(NUL, json!(1))), ..set("k", 1) },
        Op { action: OpAction::Unlink(unlink), ..set("k", 1) },
        of_step(set("k", 1), new_run(), NUL),
    ] {
        is_refused(&stores.records.apply(&[set("k", 1), op], at(0), at(1)).await);
    }

    assert_eq!(stores.access.find_key(&[1; 32]).await.unwrap(), None);
    assert_eq!(stores.access.list_audit(HERE, AuditFilter::default(), None, 10).await.unwrap(), []);
    assert_eq!(stores.access.workspaces().await.unwrap().len(), 1);
    assert_eq!(stores.workflows.list_workflows(HERE, None, 10).await.unwrap(), []);
    assert_eq!(value(&*stores.records, "k").await, None);
}

pub async fn items_with_a_nul_are_not_stored(stores: Stores) {
    let node = member(&*stores.runs).await;
    let run = owned_run(&*stores.runs, node).await;
    let nul = || NUL.to_owned();
    let mut items: Vec<_> = [
        NewRun { workflow: nul(), ..new() },
        NewRun { lane: nul(), ..new() },
        NewRun { key: Some((nul(), "7".to_owned())), ..new() },
        NewRun { key: Some(("orders".to_owned(), nul())), ..new() },
    ]
    .into_iter()
    .map(|new| start_with(new_run(), Some(node), new))
    .collect();
    let entry = |step| vec![entry(2, Kind::StepSkipped, Some(step))];
    items.push(Item { entries: entry(NUL), ..item(run, Gate::Owned) });
    for change in [WaitChange::Open(wait(NUL, "paid")), WaitChange::Open(wait("s", NUL)), WaitChange::Close(NUL.into())]
    {
        items.push(Item { entries: entry("s"), waits: vec![change], ..item(run, Gate::Owned) });
    }
    for item in items {
        is_refused(&stores.runs.commit(node, &[start(new_run(), Some(node)), item]).await);
    }
    assert_eq!(seqs(&*stores.runs, run).await, [1]);
    assert_eq!(stores.runs.list_runs(HERE, RunFilter::default(), None, 10).await.unwrap().runs.len(), 1);
}

pub async fn nothing_is_found_by_a_text_with_a_nul(stores: Stores) {
    let node = member(&*stores.runs).await;
    unowned_run(&*stores.runs, node).await;
    assert_eq!(claim(&*stores.runs, node, NUL, at(0), 10).await, []);
    let request = TickRequest { lanes: vec![(NUL.to_owned(), 10)], ..TickRequest::default() };
    assert_eq!(stores.runs.tick(node, LEASE, at(0), &request).await.unwrap().claimed, []);
    assert_eq!(stores.runs.next_wake(NUL).await.unwrap(), None);
    assert_eq!(stores.workflows.workflow(HERE, NUL, None).await.unwrap(), None);
    assert_eq!(stores.workflows.list_versions(HERE, NUL, None, 10).await.unwrap(), []);
    assert!(!activate_workflow(&*stores.workflows, HERE, NUL, 1).await.unwrap());
    assert_eq!(stores.workflows.delete_workflow(HERE, NUL).await.unwrap(), Deletion::NotFound);
    assert_eq!(stores.resources.resource(HERE, ResourceKind::Query, NUL).await.unwrap(), None);
    assert!(!stores.resources.delete_resource(HERE, ResourceKind::Query, NUL).await.unwrap());
    applied_op(&*stores.records, &set("a", 1)).await;
    assert_eq!(listed(&*stores.records, &RecordQuery::new(NUL)).await, (vec![], None));
    let prefixed = RecordQuery { prefix: Some(NUL.to_owned()), ..RecordQuery::new("n") };
    assert_eq!(listed(&*stores.records, &prefixed).await, (vec![], None));
    let query = NamespaceQuery::by_name(NUL);
    assert_eq!(stores.records.namespaces(HERE, &query).await.unwrap().namespaces, []);
    assert_eq!(all_changes(&*stores.records, HERE, NUL).await, []);
    for filter in [
        AuditFilter { actor: Some(Actor::person(NUL)), ..AuditFilter::default() },
        AuditFilter { action: Some(NUL.to_owned()), ..AuditFilter::default() },
    ] {
        assert_eq!(stores.access.list_audit(HERE, filter, None, 10).await.unwrap(), []);
    }
    for filter in [
        RunFilter { workflow: Some(NUL.to_owned()), ..RunFilter::default() },
        RunFilter { parent: Some(new_run()), workflow: Some(NUL.to_owned()), ..RunFilter::default() },
        RunFilter { state: Some(NUL.to_owned()), ..RunFilter::default() },
        RunFilter { workflow: Some("orders".to_owned()), state: Some(NUL.to_owned()), ..RunFilter::default() },
        RunFilter { input: vec![(vec![NUL.to_owned()], NUL.to_owned())], ..RunFilter::default() },
        RunFilter { tags: vec![(NUL.to_owned(), NUL.to_owned())], ..RunFilter::default() },
    ] {
        assert_eq!(stores.runs.list_runs(HERE, filter, None, 10).await.unwrap().runs, []);
    }
}

pub async fn a_document_may_hold_a_nul_and_is_found_by_it(stores: Stores) {
    let node = member(&*stores.runs).await;
    let run = new_run();
    let input = Payload::from(json!({ NUL: NUL }));
    apply(&*stores.runs, node, &start_with(run, Some(node), NewRun { input, ..new() })).await;
    let filter = RunFilter { input: vec![(vec![NUL.to_owned()], NUL.to_owned())], ..RunFilter::default() };
    let page = stores.runs.list_runs(HERE, filter, None, 10).await.unwrap();
    assert_eq!(page.runs.iter().map(|run| run.id).collect::<Vec<_>>(), [run]);
}

pub async fn a_page_after_a_name_with_a_nul_starts_after_the_part_before_it(stores: Stores) {
    for name in ["a", "aa", "b"] {
        put_workflow(&*stores.workflows, workflow(name, "one"), true).await.unwrap();
        let resource = ResourceRow {
            workspace: HERE,
            kind: ResourceKind::Query,
            name: name.to_owned(),
            body: vec![],
            created_at: at(0),
            updated_at: at(0),
        };
        stores.resources.put_resource(&resource).await.unwrap();
    }
    let workflows = stores.workflows.list_workflows(HERE, Some(NUL), 10).await.unwrap();
    assert_eq!(workflows.iter().map(|workflow| workflow.name.as_str()).collect::<Vec<_>>(), ["aa", "b"]);
    let resources = stores.resources.resources(HERE, ResourceKind::Query, Some(NUL), 10).await.unwrap();
    assert_eq!(resources.iter().map(|resource| resource.name.as_str()).collect::<Vec<_>>(), ["aa", "b"]);
}
