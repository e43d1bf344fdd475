//! Keeps this process a member of the cluster: a node that was fenced joins again under a new id.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, Weak};
use std::time::Duration;

use crate::error::Error;
use crate::node::member::Member;
use crate::options::Options;
use crate::ports::World;
use crate::read::Library;
use crate::topics::EventQueue;
use crate::upkeep::counts::Tally;

/// The pause after a failed attempt to join again.
const REJOIN_DELAY: Duration = Duration::from_millis(500);

/// The node that this process is at present.
pub(crate) struct Membership {
    world: World,
    options: Options,
    library: Arc<Library>,
    tally: Arc<Tally>,
    events: Arc<EventQueue>,
    member: RwLock<Arc<Member>>,
    is_stopping: AtomicBool,
}

impl Membership {
    /// Joins, and joins again each time the node was fenced. On a full disk it joins as soon as there is space.
    pub(crate) async fn begin(
        world: &World,
        options: &Options,
        library: &Arc<Library>,
        tally: &Arc<Tally>,
        events: &Arc<EventQueue>,
    ) -> Result<Arc<Self>, Error> {
        let (member, has_joined) = match Member::join(world, options, library, tally, events).await {
            Ok(member) => (member, true),
            Err(Error::Full(reason)) => {
                tracing::error!(reason, "the disk is full: this node only reads, and joins when there is space");
                (Member::outside(world, options, library, tally, events), false)
            }
            Err(error) => return Err(error),
        };
        let membership = Arc::new(Self {
            world: world.clone(),
            options: options.clone(),
            library: Arc::clone(library),
            tally: Arc::clone(tally),
            events: Arc::clone(events),
            member: RwLock::new(Arc::new(member)),
            is_stopping: AtomicBool::new(false),
        });
        // If no other node can use the database, no node is fenced that has joined.
        if world.runs.is_shared() || !has_joined {
            world.spawn.spawn(Box::pin(rejoin_when_fenced(Arc::downgrade(&membership))));
        }
        Ok(membership)
    }

    pub(crate) fn member(&self) -> Arc<Member> {
        Arc::clone(&self.member.read().expect("no holder of the lock panics"))
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// Makes the node accept nothing new, and not join again.
    pub(crate) fn stop(&self) -> Arc<Member> {
        self.is_stopping.store(true, Ordering::SeqCst);
        let member = self.member();
        member.shared.is_stopping.store(true, Ordering::SeqCst);
        member
    }

    /// One attempt to join again.
    async fn rejoin(&self) -> Result<(), Error> {
        let Self { world, options, library, tally, events, .. } = self;
        let member = Member::join(world, options, library, tally, events).await?;
        let member = Arc::new(member);
        *self.member.write().expect("no holder of the lock panics") = Arc::clone(&member);
        // `stop` may have run between the join and the assignment, and has then stopped the member before this one.
        if self.is_stopping() {
            member.quit();
            // If this fails, another node fences the member after its lease.
            let _ = self.world.runs.leave(member.node, self.world.clock.now()).await;
        }
        Ok(())
    }
}

async fn rejoin_when_fenced(membership: Weak<Membership>) {
    while let Some((member, world)) = membership.upgrade().map(|this| (this.member(), this.world.clone())) {
        member.shared.fenced.notified().await;
        tracing::warn!(node = %member.node, "this node was fenced: other nodes continue its runs; it joins again");
        member.quit();
        if let Some(membership) = membership.upgrade() {
            membership.tally.forget();
        }
        loop {
            let Some(membership) = membership.upgrade().filter(|this| !this.is_stopping()) else { return };
            match membership.rejoin().await {
                Ok(()) if membership.is_stopping() => return,
                Ok(()) => break,
                Err(error) => tracing::warn!(%error, "joining again failed; trying again"),
            }
            drop(membership);
            world.sleep(REJOIN_DELAY).await;
        }
    }
}
