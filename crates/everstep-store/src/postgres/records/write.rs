//! Writes what a batch of ops has changed, in one statement.

use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::records::{Link, NamespacePicture, Picture, Record};
use everstep_core::time::Timestamp;
use uuid::Uuid;

use crate::numbers;
use crate::postgres::arrays::arrays;
use crate::postgres::queries::{Param, Query, param, query};
use crate::records::{ChangeColumns, pack_value};

/// The rows of a batch, with packed values.
pub(super) struct Prepared<'a> {
    namespaces: Vec<PreparedNamespace<'a>>,
}

struct PreparedNamespace<'a> {
    workspace: WorkspaceId,
    name: &'a str,
    picture: &'a NamespacePicture,
    /// Records that are written, with the codec and the bytes of their values.
    records: Vec<(&'a Record, i16, Vec<u8>)>,
    deleted_keys: Vec<&'a str>,
    changes: Vec<ChangeColumns<'a>>,
}

impl<'a> Prepared<'a> {
    pub(super) fn from_picture(picture: &'a Picture) -> Self {
        let changed = picture.namespaces().filter(|(.., namespace)| !namespace.changes().is_empty());
        let namespaces = changed.map(|(workspace, name, picture)| {
            let mut namespace = PreparedNamespace {
                workspace,
                name,
                picture,
                records: Vec::new(),
                deleted_keys: Vec::new(),
                changes: picture.changes().iter().map(ChangeColumns::from_change).collect(),
            };
            for (key, record) in picture.changed_records() {
                match record {
                    Some(record) => {
                        let (codec, value) = pack_value(record.value.as_ref());
                        namespace.records.push((record, codec.number().into(), value));
                    }
                    None => namespace.deleted_keys.push(key),
                }
            }
            namespace
        });
        Self { namespaces: namespaces.collect() }
    }
}

arrays! {
    /// The namespaces, which are gates.
    Gates {
        workspaces: "gate_workspaces", Uuid;
        names: "gate_names", &'a str;
        seen: "gate_seen", i64;
        changes: "gate_changes", i64;
        keys: "gate_keys", i64;
        links: "gate_links", i64;
        bytes: "gate_bytes", i64;
    }
}

arrays! {
    /// Records that are written.
    Puts {
        workspaces: "put_workspaces", Uuid;
        namespaces: "put_namespaces", &'a str;
        keys: "put_keys", &'a str;
        ids: "put_ids", Uuid;
        revisions: "put_revisions", i64;
        changes: "put_changes", i64;
        bytes: "put_bytes", i64;
        value_types: "put_value_types", &'a str;
        expires_at: "put_expires_at", Option<i64>;
        created_at: "put_created_at", i64;
        updated_at: "put_updated_at", i64;
        runs: "put_runs", Option<Uuid>;
        steps: "put_steps", Option<&'a str>;
        codecs: "put_codecs", i16;
        values: "put_values", &'a [u8];
    }
}

arrays! {
    /// The rows of the history.
    Changes {
        workspaces: "change_workspaces", Uuid;
        namespaces: "change_namespaces", &'a str;
        numbers: "change_numbers", i64;
        at: "change_at", i64;
        actions: "change_actions", &'a str;
        subjects: "change_subjects", &'a str;
        actors: "change_actors", &'a str;
        runs: "change_runs", Option<Uuid>;
        steps: "change_steps", Option<&'a str>;
        op_keys: "change_op_keys", Option<&'a str>;
        digests: "change_digests", Option<&'a [u8]>;
        revisions: "change_revisions", Option<i64>;
        value_types: "change_value_types", Option<&'a str>;
        value_expires_at: "change_value_expires_at", Option<i64>;
        outputs: "change_outputs", Option<&'a [u8]>;
        codecs: "change_codecs", Option<i16>;
        values: "change_values", Option<&'a [u8]>;
    }
}

arrays! {
    /// Records that are deleted.
    Deleted {
        workspaces: "deleted_workspaces", Uuid;
        namespaces: "deleted_namespaces", &'a str;
        keys: "deleted_keys", &'a str;
    }
}

arrays! {
    /// Links that are deleted.
    Unlinked {
        workspaces: "unlinked_workspaces", Uuid;
        namespaces: "unlinked_namespaces", &'a str;
        ids: "unlinked_ids", Uuid;
    }
}

arrays! {
    /// Links that are written.
    Linked {
        workspaces: "link_workspaces", Uuid;
        ids: "link_ids", Uuid;
        namespaces: "link_namespaces", &'a str;
        left_types: "link_left_types", &'a str;
        left_ids: "link_left_ids", &'a str;
        right_types: "link_right_types", &'a str;
        right_ids: "link_right_ids", &'a str;
        relations: "link_relations", &'a str;
        changes: "link_changes", i64;
        created_at: "link_created_at", i64;
        updated_at: "link_updated_at", i64;
        runs: "link_runs", Option<Uuid>;
        steps: "link_steps", Option<&'a str>;
        attributes: "link_attributes", &'a [u8];
    }
}

/// The parameters of `2_write.sql`, and of `3_rest.sql` if the batch needs it.
#[derive(Debug, Default)]
pub(super) struct Difference<'a> {
    now: i64,
    kept_until: i64,
    gates: Gates<'a>,
    puts: Puts<'a>,
    changes: Changes<'a>,
    deleted: Deleted<'a>,
    unlinked: Unlinked<'a>,
    linked: Linked<'a>,
    has_rest: bool,
}

impl<'a> Difference<'a> {
    /// `None` if nothing was changed. The namespaces are in the order of their keys, in which they are locked.
    pub(super) fn from_prepared(prepared: &'a Prepared<'_>, now: Timestamp, kept_until: Timestamp) -> Option<Self> {
        if prepared.namespaces.is_empty() {
            return None;
        }
        let mut difference = Self { now: now.micros(), kept_until: kept_until.micros(), ..Self::default() };
        for namespace in &prepared.namespaces {
            difference.push(namespace);
        }
        Some(difference)
    }

    fn push(&mut self, namespace: &'a PreparedNamespace<'_>) {
        let (workspace, name, counts) = (namespace.workspace.uuid(), namespace.name, namespace.picture.counts());
        self.gates.workspaces.push(workspace);
        self.gates.names.push(name);
        self.gates.seen.push(numbers::clamp_seq(namespace.picture.changes_before()));
        self.gates.changes.push(numbers::clamp_seq(counts.changes));
        self.gates.keys.push(numbers::clamp_seq(counts.keys));
        self.gates.links.push(numbers::clamp_seq(counts.links));
        self.gates.bytes.push(numbers::clamp_seq(counts.bytes));
        for (record, codec, value) in &namespace.records {
            self.push_record(workspace, name, record, *codec, value);
        }
        for columns in &namespace.changes {
            self.push_change(workspace, name, columns);
        }
        for key in &namespace.deleted_keys {
            self.has_rest = true;
            self.deleted.workspaces.push(workspace);
            self.deleted.namespaces.push(name);
            self.deleted.keys.push(key);
        }
        for link in namespace.picture.deleted_links() {
            self.has_rest = true;
            self.unlinked.workspaces.push(workspace);
            self.unlinked.namespaces.push(name);
            self.unlinked.ids.push(link.id.0);
        }
        for link in namespace.picture.written_links() {
            self.has_rest = true;
            self.push_link(workspace, name, link);
        }
    }

    fn push_record(&mut self, workspace: Uuid, name: &'a str, record: &'a Record, codec: i16, value: &'a [u8]) {
        let puts = &mut self.puts;
        puts.workspaces.push(workspace);
        puts.namespaces.push(name);
        puts.keys.push(&record.key);
        puts.ids.push(record.id.0);
        puts.revisions.push(numbers::clamp_seq(record.revision));
        puts.changes.push(numbers::clamp_seq(record.change));
        puts.bytes.push(numbers::clamp_limit(record.bytes));
        puts.value_types.push(record.value_type.as_str());
        puts.expires_at.push(record.expires_at.map(Timestamp::micros));
        puts.created_at.push(record.created_at.micros());
        puts.updated_at.push(record.updated_at.micros());
        puts.runs.push(record.run.map(RunId::uuid));
        puts.steps.push(record.step.as_ref().map(StepKey::as_str));
        puts.codecs.push(codec);
        puts.values.push(value);
    }

    fn push_change(&mut self, workspace: Uuid, name: &'a str, columns: &'a ChangeColumns<'_>) {
        let (changes, author) = (&mut self.changes, columns.author);
        changes.workspaces.push(workspace);
        changes.namespaces.push(name);
        changes.numbers.push(numbers::clamp_seq(columns.number));
        changes.at.push(columns.at.micros());
        changes.actions.push(columns.action);
        changes.subjects.push(&columns.subject);
        changes.actors.push(&author.actor);
        changes.runs.push(author.run.map(RunId::uuid));
        changes.steps.push(author.step.as_ref().map(StepKey::as_str));
        changes.op_keys.push(columns.op.map(|op| op.key.as_str()));
        changes.digests.push(columns.op.and_then(|op| op.digest.as_ref()).map(<[u8; 32]>::as_slice));
        changes.revisions.push(columns.revision.map(numbers::clamp_seq));
        changes.value_types.push(columns.value_type);
        changes.value_expires_at.push(columns.value_expires_at.map(Timestamp::micros));
        changes.outputs.push(columns.op.map(|op| op.output.json().as_bytes()));
        changes.codecs.push(columns.codec.map(i16::from));
        changes.values.push(columns.value.as_deref());
    }

    fn push_link(&mut self, workspace: Uuid, name: &'a str, link: &'a Link) {
        let linked = &mut self.linked;
        linked.workspaces.push(workspace);
        linked.ids.push(link.id.0);
        linked.namespaces.push(name);
        linked.left_types.push(&link.key.from.kind);
        linked.left_ids.push(&link.key.from.id);
        linked.right_types.push(&link.key.to.kind);
        linked.right_ids.push(&link.key.to.id);
        linked.relations.push(&link.key.relation);
        linked.changes.push(numbers::clamp_seq(link.change));
        linked.created_at.push(link.created_at.micros());
        linked.updated_at.push(link.updated_at.micros());
        linked.runs.push(link.run.map(RunId::uuid));
        linked.steps.push(link.step.as_ref().map(StepKey::as_str));
        linked.attributes.push(link.attributes.as_ref().map_or("{}", |attributes| attributes.json()).as_bytes());
    }

    /// The statement that writes it, and its parameters.
    pub(super) fn statement(&self) -> (&'static Query, Vec<Param<'_>>) {
        let mut params = vec![param("now", &self.now)];
        params.extend(self.gates.params());
        params.extend(self.puts.params());
        params.push(param("kept_until", &self.kept_until));
        params.extend(self.changes.params());
        if !self.has_rest {
            return (query!("records/apply/2_write"), params);
        }
        params.extend(self.deleted.params());
        params.extend(self.unlinked.params());
        params.extend(self.linked.params());
        (query!("records/apply/2_write" with "records/apply/3_rest"), params)
    }
}
