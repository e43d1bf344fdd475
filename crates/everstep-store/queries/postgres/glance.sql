-- The owner, the status and the place of a run of one workspace: small columns only.
-- Served by the primary key of runs.
select owner, status, state, version_no
from runs
where id = :run
    and workspace = :workspace
