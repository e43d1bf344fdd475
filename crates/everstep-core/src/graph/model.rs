//! A graph, checked and compiled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::definition::{Problem, secrets};
use crate::failure::code;
use crate::kinds::{Kinds, TaskPart};
use crate::publisher::Publisher;
use crate::retry::RetryPolicy;
use crate::schema::Schema;

/// A valid graph. Nodes are identified by their index.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// The first body is the graph itself; each loop and scope has one more.
    pub(crate) bodies: Vec<Body>,
    pub(crate) index: BTreeMap<String, u32>,
    pub(crate) definition: Value,
    pub(crate) retention_days: Option<u32>,
    pub(crate) input_schema: Option<Arc<Schema>>,
}

impl Graph {
    /// The definition in canonical form, as it is stored.
    pub fn definition(&self) -> &Value {
        &self.definition
    }

    pub fn retention_days(&self) -> Option<u32> {
        self.retention_days
    }

    /// The schema that the input of every new run fits.
    pub fn input_schema(&self) -> Option<&Arc<Schema>> {
        self.input_schema.as_ref()
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The secrets that its nodes name.
    pub fn named_secrets(&self) -> Vec<NamedSecret> {
        let mut named = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let NodeKind::Task { config, secrets, .. } = &node.kind else { continue };
            for pointer in secrets {
                let name = config.pointer(pointer).and_then(|value| value.get(secrets::MARK)?.as_str());
                named.extend(name.map(|name| NamedSecret {
                    name: name.to_owned(),
                    node: node.id.clone(),
                    path: format!("/nodes/{index}/config{pointer}"),
                }));
            }
        }
        named
    }

    /// The nodes that handlers perform.
    pub fn task_parts(&self) -> Vec<TaskPart> {
        let nodes = self.nodes.iter().enumerate();
        let parts = nodes.filter_map(|(index, node)| match &node.kind {
            NodeKind::Task { kind, .. } => {
                Some(TaskPart { kind: kind.clone(), node: node.id.clone(), path: format!("/nodes/{index}") })
            }
            _ => None,
        });
        parts.collect()
    }

    /// A problem for each node whose kind needs a permission that the publisher does not have.
    pub fn denied_nodes(&self, kinds: &dyn Kinds, publisher: &Publisher) -> Vec<Problem> {
        let mut denied = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let NodeKind::Task { kind, .. } = &node.kind else { continue };
            let Some(permission) = kinds.find(kind).and_then(|info| info.permission) else { continue };
            if !publisher.may(permission) {
                let message = format!("the publisher may not use {kind}, which needs the permission {permission}");
                let hint = format!("save the workflow with a key that has {permission}, or remove the node");
                let problem = Problem::at(format!("/nodes/{index}"), message).code(code::PERMISSION_DENIED);
                denied.push(problem.of_node(&node.id).hint(hint));
            }
        }
        denied
    }

    pub(crate) fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    /// An entry node of a body that depends on no other node of the body. One exists, because a body has no cycle.
    pub(crate) fn first_entry(&self, body: u32) -> u32 {
        let entries = &self.bodies[body as usize].entries;
        let is_free = |node: &&u32| self.node(**node).incoming == 1 || self.node(**node).join == Join::Any;
        *entries.iter().find(is_free).expect("a body without a cycle has an entry node")
    }

    pub fn find_node(&self, id: &str) -> Option<&Node> {
        self.find(id).map(|index| self.node(index))
    }

    pub(crate) fn find(&self, id: &str) -> Option<u32> {
        self.index.get(id).copied()
    }
}

/// A secret that a node names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSecret {
    pub name: String,
    pub node: String,
    /// Where in the definition, as a JSON pointer.
    pub path: String,
}

impl NamedSecret {
    /// The warning about a secret that does not exist when the definition is saved.
    pub fn unknown(&self) -> Problem {
        let hint = "create it before a run reaches this node: everstep secrets set, or PUT /v1/secrets/{name}";
        Problem::at(&self.path, format!("the workspace has no secret {:?}", self.name))
            .code("UNKNOWN_SECRET")
            .of_node(&self.node)
            .hint(hint)
    }
}

#[derive(Clone, Debug)]
pub struct Node {
    pub id: String,
    pub name: Option<String>,
    pub kind: NodeKind,
    pub(crate) join: Join,
    pub(crate) retry: RetryPolicy,
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_error: OnError,
    pub(crate) output_variable: Option<String>,
    /// The handles of its outgoing edges.
    pub(crate) handles: Vec<String>,
    /// Edges within the node's own body.
    pub(crate) out: Vec<Out>,
    /// Whether its `error` edge leads back to the loop or scope around it.
    pub(crate) errs_back: bool,
    pub(crate) incoming: u32,
    /// The body that contains the node, and its position there.
    pub(crate) home: u32,
    pub(crate) slot: u32,
    /// The body that a loop or a scope executes.
    pub(crate) body: Option<u32>,
}

impl Node {
    /// Whether an edge follows a failure, instead of the end of the run.
    pub(crate) fn handles_failure(&self) -> bool {
        self.on_error == OnError::Continue && (self.errs_back || self.out.iter().any(|out| out.handle == "error"))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Out {
    pub(crate) handle: String,
    pub(crate) to: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Body {
    pub(crate) nodes: Vec<u32>,
    /// The nodes at which an iteration begins.
    pub(crate) entries: Vec<u32>,
    /// The nodes whose outputs are the result of an iteration.
    pub(crate) lasts: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    All,
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Follow the `error` edge; if there is none, the run fails.
    Continue,
    /// The run fails, even if there is an `error` edge.
    FailWorkflow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnItemError {
    Fail,
    Continue,
}

/// The behaviour of a node. The core performs every kind except `Task` itself.
#[derive(Clone, Debug)]
pub enum NodeKind {
    Start,
    End {
        parameters: Vec<(String, Value)>,
        is_error: bool,
        terminate: bool,
    },
    Condition {
        branches: Vec<Branch>,
        default: String,
    },
    Transform {
        value: Value,
    },
    Delay(Delay),
    /// The signal of an approval contains `approved`.
    Wait {
        event: Value,
        pattern: Value,
        timeout: Option<Duration>,
        is_approval: bool,
        since: Option<WaitSince>,
    },
    /// Publishes an event.
    Publish(Publish),
    Workflow(Call),
    Loop(Loop),
    Scope,
    Task {
        kind: String,
        config: Value,
        secrets: Vec<String>,
        raw_fields: Vec<String>,
        needs_context: bool,
    },
}

impl NodeKind {
    /// The handle of an edge that names none, and of a completion that names none.
    pub(crate) fn default_handle(&self) -> &'static str {
        match self {
            Self::Start | Self::Delay(_) => "output",
            Self::Loop(_) => "done",
            Self::End { .. } | Self::Condition { .. } => "",
            Self::Transform { .. }
            | Self::Wait { .. }
            | Self::Publish(_)
            | Self::Workflow(_)
            | Self::Scope
            | Self::Task { .. } => "success",
        }
    }

    /// The handle that leads into the body of a loop or scope.
    pub(crate) fn body_handle(&self) -> Option<&'static str> {
        match self {
            Self::Loop(_) => Some("loop"),
            Self::Scope => Some("body"),
            _ => None,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Start => "start",
            Self::End { .. } => "end",
            Self::Condition { .. } => "condition",
            Self::Transform { .. } => "transform",
            Self::Delay(_) => "delay",
            Self::Wait { .. } => "wait",
            Self::Publish(_) => "publish",
            Self::Workflow(_) => "workflow",
            Self::Loop(_) => "loop",
            Self::Scope => "scope",
            Self::Task { kind, .. } => kind,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Branch {
    pub(crate) id: String,
    pub(crate) test: Test,
}

#[derive(Clone, Debug)]
pub(crate) enum Test {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Expression(String),
}

/// One comparison in a branch.
#[derive(Clone, Debug)]
pub struct Condition {
    pub(crate) left: Value,
    pub(crate) operator: Operator,
    pub(crate) right: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Equals,
    NotEquals,
    Contains,
    NotContains,
    StartsWith,
    EndsWith,
    GreaterThan,
    LessThan,
    GreaterOrEqual,
    LessOrEqual,
    IsEmpty,
    IsNotEmpty,
    MatchesRegex,
    Expression,
}

#[derive(Clone, Debug)]
pub enum Delay {
    Fixed(Duration),
    /// An expression for a number of milliseconds.
    Dynamic(Value),
    /// An expression for a time.
    Until(Value),
}

/// From when on a wait accepts events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitSince {
    /// From the start of the run.
    Start,
    /// From this long before the wait opens.
    Ago(Duration),
}

/// An event that a step publishes, as templates.
#[derive(Clone, Debug)]
pub struct Publish {
    pub(crate) topic: Value,
    pub(crate) data: Value,
    pub(crate) id: Option<Value>,
    pub(crate) subject: Option<Value>,
}

/// A call of another workflow as a step.
#[derive(Clone, Debug)]
pub struct Call {
    pub(crate) workflow: String,
    pub(crate) version: Option<u32>,
    pub(crate) input: Value,
    /// Whether the step waits for the end of the child.
    pub(crate) waits: bool,
    pub(crate) timeout: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct Loop {
    pub(crate) source: Value,
    pub(crate) item: String,
    pub(crate) index: String,
    pub(crate) max_iterations: u32,
    pub(crate) concurrency: u32,
    pub(crate) pace: Duration,
    pub(crate) on_item_error: OnItemError,
}
