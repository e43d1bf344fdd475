//! Requests to machines, on their way to the node that decides them.
//!
//! 1. A request without a version expects the version that the run has when the request arrives: by the memory of this
//!    node, else by the run's row. Without this rule a double click on "approve" would approve two levels, if the next
//!    state has the same action: the second request would be decided after the first one. The request keeps this
//!    version when it is sent again, since the first one may have been decided by then.
//! 2. A request whose version is not that of the row is stale, because versions only grow. The node that receives it
//!    folds the journal and decides on that copy of the state, without the owner and without a lock. The reply names the
//!    actor that was faster; a repeated idempotency key gets its first answer again. If the copy would change (a timer
//!    is due), the owner decides.
//! 3. A row without a version decides nothing: a fork has none before its first claim. Its journal has the version.
//! 4. A run whose journal has no version yet will have the first one next: a request that arrives before it expects the
//!    first version. Several such requests would otherwise be decided one after the other, each on the version that the
//!    one before it has written.
//! 5. If the owner cannot be reached, or is busy, nothing was written: the request is sent again after a moment.

use std::time::Duration;

use everstep_core::meter::Meter;
use everstep_core::run::{Cx, Input, Reply, decide};
use everstep_store::RunGlance;

use crate::engine::Engine;
use crate::error::Error;
use crate::inputs::RunLocation;
use crate::node::peers::RunInput;

/// The number of times that a request is sent again.
const RETRIES_MAX: usize = 3;
/// The pause before a request is sent again.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// The version that the start of a machine writes.
pub(crate) const FIRST_VERSION_NO: u32 = 1;

/// The reply to a request, with the facts that this node has learnt on the way to it.
#[derive(Debug)]
pub struct RoutedReply {
    pub reply: Result<Reply, Error>,
    /// The name and the version of the run's workflow, if this node needed the run's row or has the run in memory.
    pub workflow: Option<(String, u32)>,
}

impl Engine {
    /// Sends a request to the node that owns the run of the machine, and replies after the commit.
    pub async fn request(&self, mut input: RunInput) -> RoutedReply {
        let mut workflow = None;
        for _ in 0..RETRIES_MAX {
            match self.request_once(&mut input, &mut workflow).await {
                Err(Error::Unreachable(_) | Error::Elsewhere(_) | Error::Busy(_)) => {}
                reply => return RoutedReply { reply, workflow },
            }
            // An attempt may have ended before it has seen a version.
            if let Err(error) = self.see_version(&mut input).await {
                return RoutedReply { reply: Err(error), workflow };
            }
            self.world().sleep(RETRY_DELAY).await;
        }
        let reply = self.request_once(&mut input, &mut workflow).await;
        RoutedReply { reply, workflow }
    }

    async fn request_once(&self, input: &mut RunInput, workflow: &mut Option<(String, u32)>) -> Result<Reply, Error> {
        let glance = match self.locate(input).await? {
            RunLocation::Here(Some(known)) => {
                *workflow = Some((known.name.clone(), known.version));
                return self.route_to(None, input).await;
            }
            // The run is being loaded. When that ends, the row may have a later version than now.
            RunLocation::Here(None) if self.world().runs.is_shared() => {
                self.runs().glance(input.workspace, input.run).await?
            }
            RunLocation::Here(None) => return self.route_to(None, input).await,
            RunLocation::Stored(glance) => glance,
        };
        *workflow = Some((glance.workflow.clone(), glance.version));
        if is_stale(input, &glance)
            && let Some(reply) = self.answer_stale(input).await?
        {
            return Ok(reply);
        }
        self.route_to(glance.owner, input).await
    }

    /// Gives a request without a version the version that the run has now, by its journal.
    pub(crate) async fn see_version(&self, input: &mut RunInput) -> Result<(), Error> {
        if lacks_version(&input.input) {
            let run = self.runs().load_shared(input.run).await?;
            let place = run.loaded.state.as_ref().and_then(|state| state.place_of_machine());
            let version_no = place.map_or(FIRST_VERSION_NO, |(_, version_no)| version_no);
            fill_version(&mut input.input, Some(version_no));
        }
        Ok(())
    }

    /// The reply to a stale request, by a copy of the state; none if the owner must decide.
    async fn answer_stale(&self, input: &RunInput) -> Result<Option<Reply>, Error> {
        let run = self.runs().load_shared(input.run).await?;
        let (Some(workflow), Some(state)) = (&run.loaded.workflow, &run.loaded.state) else { return Ok(None) };
        let cx = Cx { now: self.world().clock.now(), evaluate: &*self.world().evaluate, meter: &Meter::new() };
        let decision = decide::decide(workflow, &mut state.clone(), input.input.clone(), input.key.as_deref(), cx);
        Ok(decision.entries.is_empty().then_some(decision.reply))
    }
}

/// Whether an input is a request to a machine.
pub(crate) fn is_request(input: &Input) -> bool {
    match input {
        Input::Transition(_) | Input::Assign(_) => true,
        Input::Start { .. }
        | Input::Result { .. }
        | Input::TaskLost { .. }
        | Input::Timer { .. }
        | Input::ChildEnded { .. }
        | Input::ChildStarted { .. }
        | Input::Signal { .. }
        | Input::BufferedSignal { .. }
        | Input::Event { .. }
        | Input::BeginTurn { .. }
        | Input::LoseTurn { .. }
        | Input::Report { .. }
        | Input::SetContext { .. }
        | Input::Pause { .. }
        | Input::Resume
        | Input::Cancel { .. }
        | Input::Retry
        | Input::Fail { .. }
        | Input::Settle => false,
    }
}

/// Whether an input is a request to a machine that expects no version.
pub(crate) fn lacks_version(input: &Input) -> bool {
    matches!(input, Input::Transition(act) if act.version.is_none())
}

/// Gives a request the version of the run, if the request has none.
pub(crate) fn fill_version(input: &mut Input, version_no: Option<u32>) {
    if let Input::Transition(act) = input
        && act.version.is_none()
    {
        act.version = version_no;
    }
}

/// Whether a request expects another version than the row has. A request without a version gets that of the row.
fn is_stale(input: &mut RunInput, glance: &RunGlance) -> bool {
    let version_no = glance.machine.as_ref().map(|place| place.version_no);
    fill_version(&mut input.input, version_no);
    let Input::Transition(act) = &input.input else { return false };
    version_no.is_some() && act.version != version_no
}
