//! The role maps of workspaces.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use everstep_core::machine::Rights;
use everstep_core::time::Timestamp;
use everstep_store::AccessStore;

use crate::auth::identity::RoleMap;
use crate::auth::{Caller, Permission, Principal};

/// The map of a workspace is read again after this time, as verified tokens are.
const MAP_TTL: Duration = Duration::from_secs(30);

/// The role map of the server, and those of its workspaces.
pub struct RoleMaps {
    server: RoleMap,
    store: Arc<dyn AccessStore>,
    /// All workspaces, with the time at which they were read.
    cache: Mutex<Option<CachedMaps>>,
}

#[derive(Clone)]
struct CachedMaps {
    read_at: Timestamp,
    maps: Arc<HashMap<WorkspaceId, RoleMap>>,
}

impl RoleMaps {
    /// `server` is the map that applies unless a workspace has entries of its own.
    pub fn new(server: RoleMap, store: Arc<dyn AccessStore>) -> Self {
        Self { server, store, cache: Mutex::default() }
    }

    /// The rights of a caller in runs of state machines.
    pub(crate) async fn rights(&self, caller: &Caller, now: Timestamp) -> everstep_store::Result<Rights> {
        let maps = self.maps(now).await?;
        let map = maps.get(&caller.workspace).unwrap_or(&self.server);
        let none = BTreeSet::new();
        let (name, roles, words) = match &caller.principal {
            Principal::Key(holder) => (Some(holder.name.to_string()), Vec::new(), &none),
            Principal::Person(person) => (person.name.clone(), person.roles.clone(), &person.words),
        };
        let (granted, known) = map.required_roles(words, |permission| caller.may(permission));
        Ok(Rights { name, roles, granted, known, can_manage: caller.may(Permission::Manage) })
    }

    /// The rights that a person with these roles, and nothing else, has in a workspace.
    pub(crate) async fn rights_of_roles(
        &self,
        workspace: WorkspaceId,
        roles: Vec<String>,
        now: Timestamp,
    ) -> everstep_store::Result<Rights> {
        let maps = self.maps(now).await?;
        let map = maps.get(&workspace).unwrap_or(&self.server);
        let words = map.words(&roles, Vec::new());
        let permissions = map.permissions(&words);
        let may = |permission| permissions.iter().any(|held| held.implies(permission));
        let (granted, known) = map.required_roles(&words, may);
        Ok(Rights { name: None, roles, granted, known, can_manage: may(Permission::Manage) })
    }

    /// Drops the maps that were read, because a workspace has changed its roles.
    pub(crate) fn forget(&self) {
        *self.cache.lock().expect("no holder of the lock panics") = None;
    }

    async fn maps(&self, now: Timestamp) -> everstep_store::Result<Arc<HashMap<WorkspaceId, RoleMap>>> {
        let cached = self.cache.lock().expect("no holder of the lock panics").clone();
        if let Some(cached) = cached.filter(|cached| now.since(cached.read_at) < MAP_TTL) {
            return Ok(cached.maps);
        }
        let rows = self.store.workspaces().await?;
        // A workspace without roles of its own has the map of the server.
        let own = rows.iter().filter(|row| row.options.value().get("roles").is_some());
        let maps = Arc::new(own.map(|row| (row.id, self.server.for_workspace(row.options.value()))).collect());
        let cached = CachedMaps { read_at: now, maps: Arc::clone(&maps) };
        *self.cache.lock().expect("no holder of the lock panics") = Some(cached);
        Ok(maps)
    }
}
