-- The state of a run of a state machine and its number, for lists and for requests that expect a version.
-- Runs of other styles have neither. The previous release leaves both columns null, and does not claim such runs.

alter table runs add column state text;
alter table runs add column version_no integer
    constraint states_have_a_version check ((state is null) = (version_no is null));

create index runs_in_state on runs (workspace, workflow, state, created_at, id)
where state is not null and ended_at is null;
