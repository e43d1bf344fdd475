//! Reads the active versions of workflows, once for all who ask at the same time.
//!
//! Nothing is cached: whoever asks is told what was read after it asked.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard};

use everstep_core::ids::WorkspaceId;
use everstep_store::{Error, WorkflowRow};
use tokio::sync::oneshot;

use crate::ports::World;

type Key = (WorkspaceId, String);
type Waiting = Vec<oneshot::Sender<Option<WorkflowRow>>>;

pub(crate) struct Active {
    world: World,
    /// **Invariant:** a workflow is here while a task reads for it, with those who have asked since its read began.
    waiting: Mutex<BTreeMap<Key, Waiting>>,
}

impl Active {
    pub(crate) fn new(world: World) -> Arc<Self> {
        Arc::new(Self { world, waiting: Mutex::default() })
    }

    pub(crate) async fn find(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        name: &str,
    ) -> Result<Option<WorkflowRow>, Error> {
        let (teller, told) = oneshot::channel();
        let key = (workspace, name.to_owned());
        let is_first = match self.waiting().entry(key.clone()) {
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push(teller);
                false
            }
            Entry::Vacant(place) => {
                place.insert(vec![teller]);
                true
            }
        };
        if is_first {
            // A task of its own: whoever asked first may go away while others wait.
            self.world.spawn.spawn(Box::pin(Arc::clone(self).read(key)));
        }
        match told.await {
            Ok(row) => Ok(row),
            // The read failed: everybody tries alone, and is told their own reason.
            Err(_) => self.world.workflows.workflow(workspace, name, None).await,
        }
    }

    /// Reads as long as somebody waits.
    async fn read(self: Arc<Self>, key: Key) {
        loop {
            let asking = match self.waiting().entry(key.clone()) {
                Entry::Occupied(waiting) if waiting.get().is_empty() => {
                    waiting.remove();
                    return;
                }
                Entry::Occupied(mut waiting) => std::mem::take(waiting.get_mut()),
                Entry::Vacant(_) => return,
            };
            if let Ok(row) = self.world.workflows.workflow(key.0, &key.1, None).await {
                for teller in asking {
                    // Whoever asked may have gone.
                    let _ = teller.send(row.clone());
                }
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Key, Waiting>> {
        self.waiting.lock().expect("no holder of the lock panics")
    }
}
