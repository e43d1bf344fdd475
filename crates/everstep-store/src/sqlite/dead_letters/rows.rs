//! Rows of dead letters.

use everstep_core::dead_letter::DeadLetterSource;
use everstep_core::ids::{DeadLetterId, NodeId, RunId, WorkspaceId};
use rusqlite::{Row, Rows, ToSql};
use uuid::Uuid;

use crate::dead_letters::{DeadLetterColumns, DeadLetterFilter, DeadLetterRow};
use crate::error::Result;
use crate::numbers;
use crate::sqlite::columns;

/// In the order of `dead_letters/letter.sql`. None if a later release has written the row's source.
pub(super) fn letter_from_row(row: &Row<'_>) -> Result<Option<DeadLetterRow>> {
    let columns = DeadLetterColumns {
        workspace: columns::uuid(row, 0)?,
        id: columns::uuid(row, 1)?,
        created_at: columns::time(row, 2)?,
        changed_at: columns::time(row, 3)?,
        notified_at: columns::optional_time(row, 4)?,
        run: columns::optional_uuid(row, 5)?,
        history: columns::optional_uuid(row, 6)?,
        event: columns::optional_uuid(row, 7)?,
        subscription: columns::optional_uuid(row, 8)?,
        taken_by: columns::optional_uuid(row, 9)?,
        status: row.get(10)?,
        source: row.get(11)?,
        kind: row.get(12)?,
        workflow: row.get(13)?,
        step: row.get(14)?,
        delivery: row.get(15)?,
        target: row.get(16)?,
        reason: row.get(17)?,
        secrets: row.get(18)?,
        attempts: row.get(19)?,
        written: row.get(20)?,
        config: row.get(21)?,
    };
    columns.into_row()
}

/// The values of a filter, in the types of the database.
pub(super) struct FilterColumns<'a> {
    workspace: [u8; 16],
    run: Option<[u8; 16]>,
    from: [u8; 16],
    to: [u8; 16],
    source: Option<&'a str>,
    kind: Option<&'a str>,
    workflow: Option<&'a str>,
    error: Option<&'a str>,
    limit: i64,
}

impl<'a> FilterColumns<'a> {
    pub(super) fn new(
        workspace: WorkspaceId,
        filter: &'a DeadLetterFilter,
        (from, to): (Uuid, Uuid),
        limit: usize,
    ) -> Self {
        Self {
            workspace: workspace.uuid().into_bytes(),
            run: filter.run.map(RunId::uuid).map(Uuid::into_bytes),
            from: from.into_bytes(),
            to: to.into_bytes(),
            source: filter.source.map(DeadLetterSource::as_str),
            kind: filter.kind.as_deref(),
            workflow: filter.workflow.as_deref(),
            error: filter.error.as_deref(),
            limit: numbers::clamp_limit(limit),
        }
    }

    /// The parameters of a statement, with others. The run is one of them if the filter names it.
    pub(super) fn params<'b>(&'b self, others: &[(&'b str, &'b dyn ToSql)]) -> Vec<(&'b str, &'b dyn ToSql)> {
        let mut params: Vec<(&str, &dyn ToSql)> = vec![
            (":workspace", &self.workspace),
            (":from", &self.from),
            (":to", &self.to),
            (":source", &self.source),
            (":kind", &self.kind),
            (":workflow", &self.workflow),
            (":error", &self.error),
            (":limit", &self.limit),
        ];
        if let Some(run) = &self.run {
            params.push((":run", run));
        }
        params.extend(others);
        params
    }
}

/// The columns by which rows are selected.
pub(super) struct LetterKey<'a> {
    pub(super) workspace: WorkspaceId,
    pub(super) id: DeadLetterId,
    pub(super) taken_by: Option<NodeId>,
    pub(super) kind: &'a str,
    pub(super) target: &'a str,
}

/// Reads rows up to a limit. Those that are not wanted are not decoded.
pub(super) fn collect(
    mut rows: Rows<'_>,
    limit: usize,
    is_wanted: impl Fn(&LetterKey<'_>) -> bool,
) -> Result<Vec<DeadLetterRow>> {
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        let key = LetterKey {
            workspace: WorkspaceId::from_uuid(columns::uuid(row, 0)?),
            id: DeadLetterId::from_uuid(columns::uuid(row, 1)?),
            taken_by: columns::optional_uuid(row, 9)?.map(NodeId::from_uuid),
            kind: columns::text(row, 12)?,
            target: columns::text(row, 16)?,
        };
        if is_wanted(&key) {
            found.extend(letter_from_row(row)?);
        }
    }
    Ok(found)
}
