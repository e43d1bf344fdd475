//! Reads what a batch of ops touches, in one statement.

use everstep_core::ids::WorkspaceId;
use everstep_core::records::{
    DELETED_LINKS_MAX, Identifier, KnownOp, Link, LinkId, LinkKey, NamespaceCounts, Picture, PictureRequest, Record,
    RecordId, UnlinkRequest,
};
use everstep_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::postgres::arrays::arrays;
use crate::postgres::columns::{self, list};
use crate::postgres::queries::{Param, Query, param, query};
use crate::records::{digest, payload, value_type};
use crate::{numbers, pack};

arrays! {
    Namespaces {
        workspaces: "workspaces", Uuid;
        names: "namespaces", &'a str;
    }
}

arrays! {
    Ops {
        workspaces: "op_workspaces", Uuid;
        keys: "op_keys", &'a str;
    }
}

arrays! {
    Records {
        workspaces: "record_workspaces", Uuid;
        namespaces: "record_namespaces", &'a str;
        keys: "record_keys", &'a str;
        value_bytes: "record_value_bytes", i64;
    }
}

arrays! {
    /// Links that are written.
    Edges {
        workspaces: "edge_workspaces", Uuid;
        namespaces: "edge_namespaces", &'a str;
        left_types: "edge_left_types", &'a str;
        left_ids: "edge_left_ids", &'a str;
        right_types: "edge_right_types", &'a str;
        right_ids: "edge_right_ids", &'a str;
        relations: "edge_relations", &'a str;
    }
}

arrays! {
    /// Links that are deleted, by their left side.
    FromSide {
        workspaces: "from_workspaces", Uuid;
        namespaces: "from_namespaces", &'a str;
        types: "from_types", &'a str;
        ids: "from_ids", &'a str;
        relations: "from_relations", Option<&'a str>;
    }
}

arrays! {
    /// Links that are deleted, by their right side.
    ToSide {
        workspaces: "to_workspaces", Uuid;
        namespaces: "to_namespaces", &'a str;
        types: "to_types", &'a str;
        ids: "to_ids", &'a str;
        relations: "to_relations", Option<&'a str>;
    }
}

arrays! {
    /// Links that are deleted, by both sides.
    Between {
        workspaces: "between_workspaces", Uuid;
        namespaces: "between_namespaces", &'a str;
        left_types: "between_left_types", &'a str;
        left_ids: "between_left_ids", &'a str;
        right_types: "between_right_types", &'a str;
        right_ids: "between_right_ids", &'a str;
        relations: "between_relations", Option<&'a str>;
    }
}

arrays! {
    /// Links that are deleted, by their ids.
    ById {
        workspaces: "id_workspaces", Uuid;
        namespaces: "id_namespaces", &'a str;
        ids: "ids", Uuid;
    }
}

/// The parameters of `1_read.sql` or `1_read_links.sql`.
#[derive(Debug, Default)]
pub(super) struct PictureArrays<'a> {
    namespaces: Namespaces<'a>,
    ops: Ops<'a>,
    records: Records<'a>,
    edges: Edges<'a>,
    from: FromSide<'a>,
    to: ToSide<'a>,
    between: Between<'a>,
    by_id: ById<'a>,
    limit: i64,
    /// The namespaces of the elements of the five lists of links, in their order.
    places: [Vec<(WorkspaceId, &'a str)>; 5],
}

impl<'a> PictureArrays<'a> {
    pub(super) fn from_request(request: &'a PictureRequest<'_>) -> Self {
        let mut arrays = Self { limit: numbers::clamp_limit(DELETED_LINKS_MAX + 1), ..Self::default() };
        for (workspace, name) in &request.namespaces {
            arrays.namespaces.workspaces.push(workspace.uuid());
            arrays.namespaces.names.push(name);
        }
        for (workspace, key) in &request.ops {
            arrays.ops.workspaces.push(workspace.uuid());
            arrays.ops.keys.push(key.as_str());
        }
        for ((workspace, namespace, key), value_bytes) in &request.records {
            arrays.records.workspaces.push(workspace.uuid());
            arrays.records.namespaces.push(namespace);
            arrays.records.keys.push(key);
            arrays.records.value_bytes.push(numbers::clamp_limit(*value_bytes));
        }
        for (workspace, namespace, key) in &request.links {
            arrays.places[0].push((*workspace, namespace));
            arrays.edges.workspaces.push(workspace.uuid());
            arrays.edges.namespaces.push(namespace);
            arrays.edges.left_types.push(&key.from.kind);
            arrays.edges.left_ids.push(&key.from.id);
            arrays.edges.right_types.push(&key.to.kind);
            arrays.edges.right_ids.push(&key.to.id);
            arrays.edges.relations.push(&key.relation);
        }
        for (workspace, namespace, unlink) in &request.deleted_links {
            arrays.push_unlink(*workspace, namespace, unlink);
        }
        arrays
    }

    fn push_unlink(&mut self, workspace: WorkspaceId, namespace: &'a str, unlink: &'a UnlinkRequest) {
        let (place, id) = ((workspace, namespace), workspace.uuid());
        let relation = unlink.relation.as_deref();
        match (unlink.id, &unlink.from, &unlink.to) {
            (Some(link), ..) => {
                self.places[4].push(place);
                self.by_id.workspaces.push(id);
                self.by_id.namespaces.push(namespace);
                self.by_id.ids.push(link.0);
            }
            (None, Some(from), Some(to)) => {
                self.places[3].push(place);
                self.between.workspaces.push(id);
                self.between.namespaces.push(namespace);
                self.between.left_types.push(&from.kind);
                self.between.left_ids.push(&from.id);
                self.between.right_types.push(&to.kind);
                self.between.right_ids.push(&to.id);
                self.between.relations.push(relation);
            }
            (None, Some(from), None) => {
                self.places[1].push(place);
                self.from.workspaces.push(id);
                self.from.namespaces.push(namespace);
                self.from.types.push(&from.kind);
                self.from.ids.push(&from.id);
                self.from.relations.push(relation);
            }
            (None, None, Some(to)) => {
                self.places[2].push(place);
                self.to.workspaces.push(id);
                self.to.namespaces.push(namespace);
                self.to.types.push(&to.kind);
                self.to.ids.push(&to.id);
                self.to.relations.push(relation);
            }
            // The check of the input refuses it.
            (None, None, None) => {}
        }
    }

    fn has_links(&self) -> bool {
        self.places.iter().any(|places| !places.is_empty())
    }

    /// The statement that reads the picture, and its parameters.
    pub(super) fn statement(&self) -> (&'static Query, Vec<Param<'_>>) {
        let mut params: Vec<_> = self.namespaces.params().collect();
        params.extend(self.ops.params());
        params.extend(self.records.params());
        if !self.has_links() {
            return (query!("records/apply/1_read"), params);
        }
        params.extend(self.edges.params());
        params.extend(self.from.params());
        params.push(param("limit", &self.limit));
        params.extend(self.to.params());
        params.extend(self.between.params());
        params.extend(self.by_id.params());
        (query!("records/apply/1_read_links"), params)
    }
}

/// The picture in a row of the statement. Elements that are not in the row are absent.
pub(super) fn from_row(request: &PictureRequest<'_>, arrays: &PictureArrays<'_>, row: &Row) -> Result<Picture> {
    let mut picture = Picture::default();
    let namespaces: Vec<_> = request.namespaces.iter().collect();
    let (changes, keys, links, bytes): (Vec<i64>, Vec<i64>, Vec<i64>, Vec<i64>) =
        (list(row, 1)?, list(row, 2)?, list(row, 3)?, list(row, 4)?);
    for (index, place) in list::<i64>(row, 0)?.into_iter().enumerate() {
        let (workspace, name) = element(&namespaces, place)?;
        let counts = NamespaceCounts {
            changes: number(changes[index])?,
            keys: number(keys[index])?,
            links: number(links[index])?,
            bytes: number(bytes[index])?,
        };
        picture.add_namespace(*workspace, name, counts);
    }
    let ops: Vec<_> = request.ops.iter().collect();
    let digests: Vec<Option<&[u8]>> = list(row, 6)?;
    let outputs: Vec<Option<&[u8]>> = list(row, 7)?;
    for (index, place) in list::<i64>(row, 5)?.into_iter().enumerate() {
        let (workspace, key) = element(&ops, place)?;
        let known = KnownOp {
            digest: digests[index].map(digest).transpose()?,
            output: payload(outputs[index].unwrap_or(b"null").to_vec())?,
            pending_in: None,
        };
        picture.add_known(*workspace, (*key).clone(), known);
    }
    add_records(request, row, &mut picture)?;
    if arrays.has_links() {
        add_links(arrays, row, &mut picture)?;
    }
    Ok(picture)
}

fn add_records(request: &PictureRequest<'_>, row: &Row, picture: &mut Picture) -> Result<()> {
    let keys: Vec<_> = request.records.keys().collect();
    let (ids, revisions, changes, bytes): (Vec<Uuid>, Vec<i64>, Vec<i64>, Vec<i64>) =
        (list(row, 9)?, list(row, 10)?, list(row, 11)?, list(row, 12)?);
    let (types, expires_at, created_at): (Vec<&str>, Vec<Option<i64>>, Vec<i64>) =
        (list(row, 13)?, list(row, 14)?, list(row, 15)?);
    let (codecs, values): (Vec<i16>, Vec<Option<&[u8]>>) = (list(row, 16)?, list(row, 17)?);
    for (index, place) in list::<i64>(row, 8)?.into_iter().enumerate() {
        let (workspace, namespace, key) = element(&keys, place)?;
        let codec = u8::try_from(codecs[index]).map_err(columns::unreadable)?;
        let unpacked = values[index].map(|value| pack::unpack(codec, value)).transpose()?;
        let created_at = Timestamp::from_micros(created_at[index]);
        let record = Record {
            key: (*key).to_owned(),
            id: RecordId(ids[index]),
            value: unpacked.map(payload).transpose()?,
            bytes: numbers::size(bytes[index]),
            value_type: value_type(types[index])?,
            revision: number(revisions[index])?,
            change: number(changes[index])?,
            expires_at: expires_at[index].map(Timestamp::from_micros),
            // The fold replaces these.
            run: None,
            step: None,
            created_at,
            updated_at: created_at,
        };
        picture.add_record(*workspace, namespace, record);
    }
    Ok(())
}

fn add_links(arrays: &PictureArrays<'_>, row: &Row, picture: &mut Picture) -> Result<()> {
    let (lists, places, ids): (Vec<i32>, Vec<i64>, Vec<Uuid>) = (list(row, 18)?, list(row, 19)?, list(row, 20)?);
    let (left_types, left_ids): (Vec<&str>, Vec<&str>) = (list(row, 21)?, list(row, 22)?);
    let (right_types, right_ids): (Vec<&str>, Vec<&str>) = (list(row, 23)?, list(row, 24)?);
    let (relations, created_at, bytes): (Vec<&str>, Vec<i64>, Vec<i64>) =
        (list(row, 25)?, list(row, 26)?, list(row, 27)?);
    let mut found = 0;
    for (index, id) in ids.iter().enumerate() {
        let group = usize::try_from(lists[index] - 1).ok().and_then(|list| arrays.places.get(list));
        let group = group.ok_or_else(|| Error::Corrupt("a link without a list".to_owned()))?;
        let (workspace, namespace) = element(group, places[index])?;
        let is_next = index > 0 && (lists[index], places[index]) == (lists[index - 1], places[index - 1]);
        found = if is_next { found + 1 } else { 1 };
        if found > DELETED_LINKS_MAX {
            picture.set_crowded(*workspace, namespace);
        }
        let created_at = Timestamp::from_micros(created_at[index]);
        let link = Link {
            id: LinkId(*id),
            key: LinkKey {
                from: Identifier::new(left_types[index], left_ids[index]),
                to: Identifier::new(right_types[index], right_ids[index]),
                relation: relations[index].to_owned(),
            },
            attributes: None,
            bytes: numbers::size(bytes[index]),
            // The fold replaces these.
            change: 0,
            run: None,
            step: None,
            created_at,
            updated_at: created_at,
        };
        picture.add_link(*workspace, namespace, link);
    }
    Ok(())
}

/// The element of the arrays that were sent, by its place, counted from 1.
fn element<T>(sent: &[T], place: i64) -> Result<&T> {
    let index = numbers::size(place).checked_sub(1);
    index.and_then(|index| sent.get(index)).ok_or_else(|| Error::Corrupt("a row without a place".to_owned()))
}

fn number(stored: i64) -> Result<u64> {
    u64::try_from(stored).map_err(columns::unreadable)
}

#[cfg(test)]
mod tests {
    const READ: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/postgres/records/apply/1_read.sql"));
    const READ_LINKS: &str =
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/postgres/records/apply/1_read_links.sql"));

    /// The lines of a statement without its comments.
    fn code(statement: &str) -> Vec<&str> {
        statement.lines().filter(|line| !line.starts_with("--")).collect()
    }

    #[test]
    fn a_batch_with_links_is_read_as_one_without_them_and_its_links() {
        let (parts, columns) = READ.split_once("\n)\nselect\n").unwrap();
        let (longer_parts, longer_columns) = READ_LINKS.split_once("\n)\nselect\n").unwrap();
        let (parts, longer_parts) = (code(parts), code(longer_parts));
        assert_eq!(parts, longer_parts[..parts.len()]);
        assert_eq!(longer_parts[parts.len()], "),");
        let (columns, longer_columns) = (columns.trim_end(), longer_columns.trim_end());
        assert!(longer_columns.starts_with(&format!("{columns},\n")), "{longer_columns}");
    }
}
