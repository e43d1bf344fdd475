//! The record writer: applies the ops of a node in batches, one batch at a time.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use everstep_core::records::{Op, OpFailure, RecordLimits, Verb};
use everstep_handlers::Place;
use everstep_store::{OpOutcome, RecordStore, Result};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::batch::{BatchPort, Rejection};
use crate::error::Error;
use crate::node::clock::NodeClock;
use crate::observe::{AnsweredOp, Observe};

/// An op on its way to the database.
pub(super) struct OpRequest {
    /// Absent only while the store has it.
    pub(super) op: Option<Op>,
    pub(super) verb: Verb,
    pub(super) workspace: WorkspaceId,
    /// Its place among the ops that wait, until it is sent.
    pub(super) place: Option<Place>,
    /// When the caller sent it, on the monotonic clock.
    pub(super) since: Duration,
    pub(super) reply: oneshot::Sender<Result<OpOutcome, Error>>,
}

pub(super) struct RecordWriter {
    pub(super) store: Arc<dyn RecordStore>,
    pub(super) clock: Arc<NodeClock>,
    pub(super) observe: Arc<dyn Observe>,
    pub(super) limits: RecordLimits,
    /// The time for which changes are kept.
    pub(super) kept: Duration,
    /// Whether this node's lease is fresh. Otherwise other nodes may own the runs whose ops wait here.
    pub(super) may_send: Box<dyn Fn() -> bool + Send + Sync>,
}

impl BatchPort for RecordWriter {
    type Request = OpRequest;
    type Answer = OpOutcome;

    fn send<'a>(&'a self, batch: &'a mut [OpRequest]) -> BoxFuture<'a, everstep_store::Result<Vec<Option<OpOutcome>>>> {
        Box::pin(async move {
            batch.iter_mut().for_each(|request| request.place = None);
            let ops: Vec<Op> = batch.iter_mut().map(|request| request.op.take().expect("not yet sent")).collect();
            let now = self.clock.now();
            let tried = self.store.try_apply(&ops, now, now.plus(self.kept)).await;
            for (request, op) in batch.iter_mut().zip(ops) {
                request.op = Some(op);
            }
            let tried = tried?;
            self.observe.ops_applied(tried.outcomes.iter().flatten().count(), tried.redone);
            Ok(tried.outcomes)
        })
    }

    fn answer(&self, request: OpRequest, answer: std::result::Result<OpOutcome, Rejection>) {
        let answer = match answer {
            Ok(outcome) => Ok(outcome),
            Err(Rejection::Refused(reason)) => {
                Ok(Err(OpFailure::invalid(format!("the database rejects the data: {reason}"))))
            }
            Err(Rejection::Full(message)) => Err(Error::Full(message)),
            Err(Rejection::Unreadable(message)) => Err(Error::Unavailable(message)),
        };
        let elapsed = self.clock.monotonic().saturating_sub(request.since);
        let outcome = match &answer {
            Ok(Ok(_)) => "ok",
            Ok(Err(failure)) => failure.code,
            Err(error) => error.code(),
        };
        self.observe.op_answered(&AnsweredOp { verb: request.verb, outcome, elapsed });
        // The caller may have stopped waiting.
        let _ = request.reply.send(answer);
    }

    fn workspace(&self, request: &OpRequest) -> WorkspaceId {
        request.workspace
    }

    fn size(&self, request: &OpRequest) -> usize {
        request.op.as_ref().map_or(0, |op| op.size(&self.limits))
    }

    fn is_wanted(&self, request: &OpRequest) -> bool {
        !request.reply.is_closed()
    }

    fn waits_for_space(&self, request: &OpRequest) -> bool {
        request.op.as_ref().is_some_and(|op| op.author.run.is_some())
    }

    fn may_send(&self) -> bool {
        (self.may_send)()
    }
}
