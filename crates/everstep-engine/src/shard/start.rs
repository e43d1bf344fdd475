//! Starts runs.
//!
//! The order of events:
//!
//! 1. The shard receives the request. If a run with that id is in memory, the start is rejected: the id of a child is
//!    known before the child starts, so an input may be loading it, or another call may be starting it.
//! 2. If the node has room (a permit, and a free seat if the run needs a worker), the run's first steps are decided in
//!    the same item as its start, so that a short run is one commit. Otherwise the item contains only the start, the
//!    row is `pending` and due at once, and a claim takes the run when there is room.
//!    A start for a later time writes only the row, without a journal: the node that claims the run when it is due
//!    decides its start then.
//! 3. The run enters memory with its item in flight. The reply waits for the verdict: if another run has the same
//!    idempotency key, that run is the reply and nothing is written.

use everstep_core::meter::Meter;
use everstep_core::run::Input;
use everstep_core::status::Status;
use everstep_store::SideWrites;

use super::Shard;
use crate::commit::propose;
use crate::error::Error;
use crate::run::{ActiveRun, Decided, Envelope, NoSeat, Rest, RunSlot};
use crate::start::{self, StartRequest};

impl Shard {
    pub(super) fn start(&mut self, request: StartRequest) {
        let StartRequest {
            run: id,
            workspace,
            workflow,
            new,
            input,
            begin_at,
            audit,
            cause,
            arrivals,
            wants_row,
            end,
            permit,
            reply,
        } = request;
        let services = &mut self.services;
        if services.shared.is_stopping() {
            let _ = reply.send(Err(Error::Stopping));
            return;
        }
        if self.runs.contains_key(&id) {
            let _ = reply.send(Err(Error::Busy(format!("run {id} is being loaded or started; try again"))));
            return;
        }
        let now = services.now();
        let mut run = ActiveRun::new(workspace, workflow, id, new.is_test, new.created_at);
        let input = Input::Start { input, cause };
        let seat = if permit.is_some() && begin_at.is_none() { run.first_seat(services) } else { Err(NoSeat) };
        let has_room = seat.is_ok();
        let (decided, rest) = match (begin_at, seat) {
            (Some(begin_at), _) => (Decided::default(), Rest::Parked(begin_at)),
            (None, Ok(seat)) => {
                run.push(Envelope::new(input));
                run.extend(arrivals.iter().filter_map(Envelope::from_row));
                let meter = Meter::new();
                let mut decided = run.decide_all(services.cx(now, &meter));
                run.watch_decision(now, &decided, &meter, services);
                if let Some(seat) = seat.filter(|_| !run.state().has_ended()) {
                    run.take_seat(seat, &mut decided, services.cx(now, &Meter::new()));
                }
                let rest = run.rest_after(now, services.options.park_after);
                (decided, rest)
            }
            (None, Err(NoSeat)) => {
                let entries = run.record(input, services.cx(now, &Meter::new()));
                (Decided { entries, ..Decided::default() }, Rest::Parked(now))
            }
        };
        let writer = services.writer(now);
        let (mut item, mut bytes, mut in_flight) = propose::propose(&mut run, decided, Some(new), rest, &writer);
        if let Some(row) = audit {
            let audit = SideWrites::with_audit(row);
            bytes += audit.size();
            item.side.get_or_insert_default().audit.extend(audit.audit);
        }
        if !has_room && let Some(projection) = &mut item.projection {
            projection.status = Status::Pending;
            in_flight.status = Status::Pending;
        }
        if begin_at.is_some() {
            item.format = item.format.max(start::PENDING_FORMAT);
            in_flight.format = item.format;
        }
        in_flight.start = Some(reply);
        let row = if wants_row || end.is_some() { start::row_from_item(&item) } else { None };
        match (end, row) {
            (Some(end), Some(row)) => run.report_end(end, row),
            (_, row) => in_flight.row = row,
        }
        // A start without room is written unowned: it needs no permit.
        run.begin(in_flight, permit.filter(|_| has_room));
        services.submit(item, bytes);
        self.runs.insert(id, RunSlot::Active(Box::new(run)));
    }
}
