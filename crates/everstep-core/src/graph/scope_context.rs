//! The variables that expressions can read at a position in a run.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::model::{Graph, NodeKind};
use super::path::ScopePath;
use super::progress::Stage;
use super::run::GraphRun;
use crate::evaluate::{Fields, Lookup};
use crate::payload::Payload;

/// The context as visible in one scope: first its own variables, then those of the scopes around it.
pub struct ScopeContext<'a> {
    run: GraphRun<'a>,
    path: &'a ScopePath,
}

impl<'a> ScopeContext<'a> {
    pub fn new(run: GraphRun<'a>, path: &'a ScopePath) -> Self {
        Self { run, path }
    }

    fn graph(&self) -> &'a Graph {
        self.run.graph
    }

    /// The scopes from the innermost to the graph itself.
    fn paths(&self) -> impl Iterator<Item = ScopePath> {
        std::iter::successors(Some(self.path.clone()), |path| path.owner().map(|(owner, _)| owner.path))
    }

    /// The whole context as one JSON object, assembled from the JSON texts of its parts.
    pub fn document(&self, with_nodes: bool) -> Payload {
        let mut names = self.names();
        if with_nodes {
            names.extend(self.graph().nodes.iter().map(|node| format!("__node_{}", node.id)));
        }
        let mut text = String::from("{");
        for name in names {
            let part = match self.payload_of(&name) {
                Some(payload) => payload.json().to_owned(),
                None => match self.variable(&name) {
                    Some(value) => value.to_string(),
                    None => continue,
                },
            };
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&Value::from(name).to_string());
            text.push(':');
            text.push_str(&part);
        }
        text.push('}');
        Payload::from_json(text).expect("an object of JSON parts is JSON")
    }

    /// The variables of this scope, without those of the scopes around it.
    pub fn own(&self) -> Payload {
        let mut fields = serde_json::Map::new();
        if let Some((owner, iteration)) = self.path.owner()
            && let NodeKind::Loop(config) = &self.graph().node(owner.node).kind
        {
            fields.insert(config.index.clone(), iteration.into());
            let item = self.run.progress.item(self.path);
            fields.insert(config.item.clone(), item.map_or(Value::Null, |item| item.value().clone()));
        }
        let vars = self.run.progress.scopes.get(self.path).into_iter().flat_map(|scope| &scope.vars);
        for (name, value) in vars.filter(|(name, _)| !name.starts_with("__")) {
            fields.insert(name.clone(), value.value().clone());
        }
        Payload::from(Value::Object(fields))
    }

    /// A variable that is stored as JSON text.
    fn payload_of(&self, name: &str) -> Option<&'a Payload> {
        if name == "input" {
            return Some(&self.run.state.input);
        }
        for path in self.paths() {
            if let Some(value) = self.run.progress.scopes.get(&path).and_then(|scope| scope.vars.get(name)) {
                return Some(value);
            }
            let owner = path.owner().map(|(owner, _)| &self.graph().node(owner.node).kind);
            if let Some(NodeKind::Loop(config)) = owner {
                if config.item == name {
                    return self.run.progress.item(&path);
                }
                if config.index == name {
                    return None;
                }
            }
        }
        None
    }

    fn index_of(&self, name: &str) -> Option<u32> {
        self.paths().find_map(|path| {
            let (owner, iteration) = path.owner()?;
            match &self.graph().node(owner.node).kind {
                NodeKind::Loop(config) if config.index == name => Some(iteration),
                _ => None,
            }
        })
    }

    /// The fields of `__node_x` for node `x`. Its output is not copied.
    fn node_fields(&self, id: &str) -> Option<Fields<'a>> {
        let node = self.graph().find(id).map(|index| self.graph().node(index))?;
        let path = self.paths().find(|path| {
            path.owner().map_or(0, |(owner, _)| self.graph().node(owner.node).body.unwrap_or(0)) == node.home
        })?;
        let cell = self.run.progress.scopes.get(&path)?.cells.get(node.slot as usize)?;
        let status = match cell.stage {
            Stage::Completed => "success",
            Stage::Failed => "error",
            Stage::Pending | Stage::Open | Stage::Skipped => return None,
        };
        let output = cell.output.as_ref().map_or(&Value::Null, Payload::value);
        let owned = |name: &'static str, value: Value| (Cow::Borrowed(name), Cow::Owned(value));
        let mut fields = vec![
            (Cow::Borrowed("output"), Cow::Borrowed(output)),
            owned("status", status.into()),
            owned("outputVariable", json!(node.output_variable)),
        ];
        fields.extend(cell.event.as_ref().map(|event| owned("event", event.to_json())));
        Some(fields)
    }
}

impl Lookup for ScopeContext<'_> {
    fn variable(&self, name: &str) -> Option<Cow<'_, Value>> {
        if let Some(payload) = self.payload_of(name) {
            return Some(Cow::Borrowed(payload.value()));
        }
        if let Some(id) = name.strip_prefix("__node_") {
            let fields = self.node_fields(id)?.into_iter();
            let fields = fields.map(|(name, value)| (name.into_owned(), value.into_owned()));
            return Some(Cow::Owned(Value::Object(fields.collect())));
        }
        self.index_of(name).map(|index| Cow::Owned(index.into()))
    }

    fn variable_fields(&self, name: &str) -> Option<Fields<'_>> {
        let id = name.strip_prefix("__node_")?;
        if self.payload_of(name).is_some() { None } else { self.node_fields(id) }
    }

    fn names(&self) -> Vec<String> {
        let mut names = vec!["input".to_owned()];
        for path in self.paths() {
            if let Some(scope) = self.run.progress.scopes.get(&path) {
                names.extend(scope.vars.keys().filter(|name| !name.starts_with("__")).cloned());
            }
            if let Some((owner, _)) = path.owner()
                && let NodeKind::Loop(config) = &self.graph().node(owner.node).kind
            {
                names.extend([config.item.clone(), config.index.clone()]);
            }
        }
        names.sort();
        names.dedup();
        names
    }

    fn payload(&self) -> &Value {
        self.run.state.input.value()
    }

    fn local(&self, name: &str) -> Option<Cow<'_, Value>> {
        let mut own = None;
        for path in self.paths() {
            let (owner, iteration) = path.owner()?;
            own = own.or_else(|| self.run.progress.scopes.get(&path)?.vars.get(name));
            let NodeKind::Loop(config) = &self.graph().node(owner.node).kind else { continue };
            if config.index != name && config.item != name {
                continue;
            }
            // A variable with that name, which was set later, hides it.
            return match own {
                Some(value) => Some(Cow::Borrowed(value.value())),
                None if config.index == name => Some(Cow::Owned(iteration.into())),
                None => self.run.progress.item(&path).map(|item| Cow::Borrowed(item.value())),
            };
        }
        None
    }

    fn meta(&self) -> Value {
        let mut meta = json!({
            "runId": self.run.state.run.to_string(),
            "workflow": self.run.workflow.name,
            "version": self.run.workflow.version,
            "startedAt": self.run.state.started_at.to_string(),
        });
        if let Some(trigger) = self.run.state.trigger() {
            meta["trigger"] = serde_json::to_value(trigger).expect("a trigger is plain data");
        }
        meta
    }
}
