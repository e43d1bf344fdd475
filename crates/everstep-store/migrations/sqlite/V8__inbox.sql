-- What a wait is for: people answer approvals. The previous release writes every wait as a signal.

alter table waits add column kind text not null default 'signal'
    constraint waits_have_a_kind check (kind in ('signal', 'approval'));

create index waits_by_kind on waits (workspace, kind, run_id, step)
where kind <> 'signal';
