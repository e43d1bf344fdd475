-- The owner, the status, the workflow and the place of a run of one workspace: small columns only.
-- Served by the primary key of runs.
select owner, status, state, version_no, workflow, version
from runs
where id = :run
    and workspace = :workspace
