-- Writes the changing columns of a run that has the expected owner (null: none).
-- Served by the primary key of runs.
-- Bound by position.
update runs
set
    status = :status,
    owner = :owner,
    wake_at = :wake_at,
    format = max(format, :format),
    output = :output,
    error = :error,
    ended_at = :ended_at
where id = :run
    and owner is :expected
