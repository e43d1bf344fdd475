//! Describes a task node for its handler.

use serde_json::Value;

use super::model::{Graph, NodeKind};
use super::path::StepPath;
use super::run::GraphRun;
use super::scope_context::ScopeContext;
use crate::evaluate::Evaluate;
use crate::failure::Failure;
use crate::ids::StepKey;
use crate::meter::Meter;
use crate::payload::Payload;
use crate::run::task::{StepConfig, TaskSpec, WaitFacts};

/// What the graph says about the wait of a step.
pub(crate) fn wait_facts<'g>(graph: &'g Graph, step: &StepKey) -> Option<WaitFacts<'g>> {
    let node = graph.node(StepPath::find(graph, step)?.node);
    let NodeKind::Wait { is_approval, .. } = node.kind else { return None };
    Some(WaitFacts { is_approval, title: node.name.as_deref() })
}

/// The config of a step, as it is written and as it is evaluated in this state. None if the graph has no such step.
pub(crate) fn describe_config(
    run: GraphRun<'_>,
    step: &StepKey,
    evaluate: &dyn Evaluate,
    meter: &Meter,
) -> Option<StepConfig> {
    let step_path = StepPath::find(run.graph, step)?;
    let node = usize::try_from(step_path.node).ok()?;
    let written = run.graph.definition().get("nodes")?.get(node)?.get("config").cloned().unwrap_or_default();
    let evaluated = match &run.graph.node(step_path.node).kind {
        NodeKind::Task { .. } => describe_task(run, step, evaluate, meter).map(|task| task.config),
        NodeKind::Start
        | NodeKind::End { .. }
        | NodeKind::Condition { .. }
        | NodeKind::Transform { .. }
        | NodeKind::Delay(_)
        | NodeKind::Wait { .. }
        | NodeKind::Publish(_)
        | NodeKind::Workflow(_)
        | NodeKind::Loop(_)
        | NodeKind::Scope => evaluate.resolve_lenient(&written, &ScopeContext::new(run, &step_path.path), meter),
    };
    // An expression that fails is the failure of the step, which its entries contain.
    Some(StepConfig { written, evaluated: evaluated.ok() })
}

/// Resolves the config of an open task and collects its context. If an expression fails, that is the failure of the
/// task.
pub(crate) fn describe_task(
    run: GraphRun<'_>,
    step: &StepKey,
    evaluate: &dyn Evaluate,
    meter: &Meter,
) -> Result<TaskSpec, Failure> {
    meter.begin_part();
    let step_path = StepPath::find(run.graph, step).ok_or_else(|| TaskSpec::unknown(step))?;
    let node = run.graph.node(step_path.node);
    let NodeKind::Task { kind, config, secrets, raw_fields, needs_context } = &node.kind else {
        return Err(TaskSpec::unknown(step));
    };
    let written = if secrets.is_empty() { Value::Null } else { config.clone() };
    let scope_context = ScopeContext::new(run, &step_path.path);
    let config = match config {
        Value::Object(fields) => {
            let mut resolved = serde_json::Map::with_capacity(fields.len());
            for (field, value) in fields {
                let value = if raw_fields.contains(field) {
                    value.clone()
                } else {
                    evaluate.resolve(value, &scope_context, meter)?
                };
                resolved.insert(field.clone(), value);
            }
            Value::Object(resolved)
        }
        other => other.clone(),
    };
    let context = if *needs_context {
        let names_nodes = config.as_object().is_some_and(|fields| {
            raw_fields.iter().filter_map(|field| fields.get(field)?.as_str()).any(|code| code.contains("__node_"))
        });
        scope_context.document(names_nodes)
    } else {
        Payload::null()
    };
    Ok(TaskSpec { kind: kind.clone(), config, secrets: secrets.clone(), written, context, timeout: node.timeout })
}
