//! Known bugs that the simulator must catch. They exist only with the feature `planted-bugs`,
//! and only on the thread that plants them.

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

bugs! {
    /// A task is dispatched to its handler before its entry is durable.
    DispatchBeforeCommit = "dispatch-before-commit",
    /// The rest of an item is written although its first entry was rejected.
    ItemWithoutHeadGate = "item-without-head-gate",
    /// A task that was lost in a crash is dispatched again under its old attempt.
    AttemptReused = "attempt-reused",
    /// A run parks although inputs wait for it.
    ParkIgnoresInbox = "park-ignores-inbox",
    /// Timers of a loaded run are not set again.
    TimerLostOnReload = "timer-lost-on-reload",
    /// A result that arrives after the cancellation is journaled.
    LateResultAfterCancel = "late-result-after-cancel",
    /// The commit of a fenced node is accepted.
    FenceNotChecked = "fence-not-checked",
    /// Only some of a fenced node's runs are released.
    ReleaseStopsHalfWay = "release-stops-half-way",
    /// A restarted node joins under its previous id, as if it still held its runs.
    RestartKeepsId = "restart-keeps-id",
    /// A lease expires by the clock of the node that holds it.
    LeaseOnNodeClock = "lease-on-node-clock",
    /// Only owners read the inbox: an input for a run that is being parked is overlooked.
    ParkRacesSignal = "park-races-signal",
    /// A report of an older turn is accepted.
    TurnNotFenced = "turn-not-fenced",
    /// The turns of a lost worker are not assigned to other workers.
    LostTurnForgotten = "lost-turn-forgotten",
    /// A worker receives its turn before the turn is durable.
    TurnBeforeCommit = "turn-before-commit",
    /// The side rows of an item are written although the item was refused.
    SideWritesWithoutItem = "side-writes-without-item",
    /// A request to a machine is accepted although the machine has moved on since the caller saw it.
    StaleVersionTaken = "stale-version-taken",
    /// A repeated request to a machine is rejected for its version, instead of answered as before.
    VersionCheckedBeforeKey = "version-checked-before-key",
    /// A loaded run does not know the keys of accepted requests.
    KeyForgottenOnReload = "key-forgotten-on-reload",
    /// A person who votes twice for the same action has two votes.
    VoteCountedTwice = "vote-counted-twice",
    /// The voters of a state are resolved for each vote, and not only when the state is entered.
    VotersResolvedAgain = "voters-resolved-again",
    /// The timers of a state stay open when the state is left.
    TimerOutlivesItsState = "timer-outlives-its-state",
    /// The row of a run that stays in memory does not follow the transitions of its machine.
    RowLagsBehind = "row-lags-behind",
    /// The ops of all iterations of a step have the same key.
    OpKeyWithoutIteration = "op-key-without-iteration",
    /// Each attempt of a step has an op of its own.
    OpKeyWithAttempt = "op-key-with-attempt",
    /// The first change of an op does not contain the output of the op.
    OutputNotSaved = "output-not-saved",
    /// The sweep of an expired record removes its expiry, and not the record.
    ExpiredRecordRevived = "expired-record-revived",
    /// The writes of a transaction before the one that failed are kept.
    TransactionHalfApplied = "transaction-half-applied",
    /// The record writer gives up the ops of a batch whose outcome is unknown, instead of sending them again.
    UnknownOpGivenUp = "unknown-op-given-up",
    /// An item that was sent again is counted twice in the figures of runs.
    StatsCountAResentItem = "stats-count-a-resent-item",
    /// The feed of a workspace does not report that updates are missing.
    FeedForgetsAGap = "feed-forgets-a-gap",
    /// A slice of a fan-out is written although another node has moved the position of its event.
    FanOutWithoutCursorGate = "fan-out-without-cursor-gate",
    /// The position of an event moves in a transaction of its own, before the rows of the slice are written.
    CursorBeforeSlice = "cursor-before-slice",
    /// A wait looks back before the item that opens it is written.
    WaitMissedWhileOpening = "wait-missed-while-opening",
    /// The event of a run is published before the item of the run is written.
    EventPublishedBeforeCommit = "event-published-before-commit",
    /// The triggers of a workflow stay the same when another version becomes active.
    TriggersOfAnOldVersion = "triggers-of-an-old-version",
    /// A run that has not begun is put into memory a second time, although an input has already loaded it.
    PendingStartLoadedTwice = "pending-start-loaded-twice",
    /// A run parks before its waits have looked back.
    ParkedBeforeLookBack = "parked-before-look-back",
    /// A claim takes the oldest due runs, whatever their workspaces are.
    ClaimByTimeAlone = "claim-by-time-alone",
    /// A workspace that waits for its first place is taken for an idle one, and forgotten with its requests.
    ShareForgetsAWorkspace = "share-forgets-a-workspace",
    /// The open deliveries of a run that ends are forgotten, instead of written as dead letters.
    DeliveryDiesWithCancel = "delivery-dies-with-cancel",
    /// A fork performs the deliveries that its original has decided.
    ForkDeliversAgain = "fork-delivers-again",
    /// The config of a delivery is evaluated when the delivery is performed, not when it is decided.
    ConfigResolvedLate = "config-resolved-late",
    /// The dead letters of a batch are written before its items, in a transaction of their own.
    LetterBesideItsItem = "letter-beside-its-item",
    /// A requeue of a node that was fenced is not performed by another one.
    RequeueForgotten = "requeue-forgotten",
    /// A file is bound to an entry although another run has it.
    FileBoundTwice = "file-bound-twice",
    /// A machine in a terminal state notifies its parent after its last delivery.
    ParentWaitsForWebhooks = "parent-waits-for-webhooks",
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug on this thread, or removes it.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether a bug is planted on this thread. Always false in a build without the feature.
#[inline]
pub fn is_planted(bug: Bug) -> bool {
    #[cfg(feature = "planted-bugs")]
    return PLANTED.get() == Some(bug);
    #[cfg(not(feature = "planted-bugs"))]
    {
        let _ = bug;
        false
    }
}
