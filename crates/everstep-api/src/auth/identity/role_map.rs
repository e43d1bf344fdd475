//! Maps the roles and permissions of an identity provider to permissions of this server.
//!
//! 1. A role maps to one permission, by the map of the workspace, or else by that of the server. A role that is in
//!    neither map grants nothing.
//! 2. A permission in a token, or of a role, is one of this server or one of another system. The second map maps those
//!    of other systems to permissions of this server.
//! 3. The same map resolves the roles that an action of a state machine requires: a caller has a role if they have the
//!    permission that it maps to. So a role in the token and its permission in the token are equivalent.
//! 4. A role that maps to `__assigned__` means the persons to whom a state is assigned, as do roles that the map does
//!    not have.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::auth::Permission;

/// The roles of the reference system.
const DEFAULT_ROLES: &[(&str, &str)] = &[
    ("Superadmin", "system.manage_all"),
    ("OrgAdmin", "organization.manage_users"),
    ("ContractMember", "contract.view"),
    ("AssignedHandler", ASSIGNED),
];
/// The word of roles that mean the persons to whom a state is assigned.
const ASSIGNED: &str = "__assigned__";
const DEFAULT_PERMISSIONS: &[(&str, Permission)] = &[("system.manage_all", Permission::Admin)];

/// From roles to permissions, and from words of other systems to permissions of this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleMap {
    roles: BTreeMap<String, String>,
    permissions: BTreeMap<String, Permission>,
}

impl Default for RoleMap {
    fn default() -> Self {
        let roles = DEFAULT_ROLES.iter().map(|(role, word)| ((*role).to_owned(), (*word).to_owned()));
        let permissions = DEFAULT_PERMISSIONS.iter().map(|(word, permission)| ((*word).to_owned(), *permission));
        Self { roles: roles.collect(), permissions: permissions.collect() }
    }
}

impl RoleMap {
    /// The map of a server: these entries are added to the default ones, or replace them.
    pub fn with(mut self, roles: BTreeMap<String, String>, permissions: BTreeMap<String, Permission>) -> Self {
        self.roles.extend(roles);
        self.permissions.extend(permissions);
        self
    }

    /// The map of a workspace: the option `roles` of the workspace is added, or replaces entries.
    pub(crate) fn for_workspace(&self, options: &Value) -> Self {
        let own = options.get("roles").and_then(Value::as_object);
        let own = own.into_iter().flatten().filter_map(|(role, word)| Some((role.clone(), word.as_str()?.to_owned())));
        self.clone().with(own.collect(), BTreeMap::new())
    }

    /// All permissions of a person, in the words of this server or of other systems: those of the token, and those that
    /// its roles map to.
    pub(crate) fn words(&self, roles: &[String], claimed: Vec<String>) -> BTreeSet<String> {
        let granted = roles.iter().filter_map(|role| self.roles.get(role).cloned());
        claimed.into_iter().chain(granted).collect()
    }

    /// The permissions of this server among the words.
    pub(crate) fn permissions(&self, words: &BTreeSet<String>) -> Vec<Permission> {
        let found = words.iter().filter_map(|word| word.parse().ok().or_else(|| self.permissions.get(word).copied()));
        found.collect::<BTreeSet<Permission>>().into_iter().collect()
    }
}

impl RoleMap {
    /// The roles of the map that a caller with these words and permissions has, and all roles that mean a permission.
    pub(crate) fn required_roles(
        &self,
        words: &BTreeSet<String>,
        may: impl Fn(Permission) -> bool,
    ) -> (BTreeSet<String>, BTreeSet<String>) {
        let known = || self.roles.iter().filter(|(_, word)| *word != ASSIGNED);
        let has = |word: &String| {
            let permission = word.parse().ok().or_else(|| self.permissions.get(word).copied());
            words.contains(word) || permission.is_some_and(&may)
        };
        let granted = known().filter(|(_, word)| has(word)).map(|(role, _)| role.clone());
        (granted.collect(), known().map(|(role, _)| role.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_role_maps_to_its_permission_and_an_unknown_one_to_nothing() {
        let map = RoleMap::default();
        let words = map.words(&texts(&["Superadmin", "Stranger"]), texts(&["workflow:view", "contract.view"]));
        assert_eq!(
            words.iter().map(String::as_str).collect::<Vec<_>>(),
            ["contract.view", "system.manage_all", "workflow:view"]
        );
        assert_eq!(map.permissions(&words), [Permission::View, Permission::Admin]);
        let words = map.words(&texts(&["OrgAdmin", "ContractMember", "AssignedHandler"]), vec![]);
        assert_eq!((words.len(), map.permissions(&words)), (3, vec![]));
    }

    #[test]
    fn a_required_role_is_had_by_its_permission_whatever_brought_it() {
        let roles = [("Manager", "contracts.approve"), ("Clerk", "workflow:act"), ("Boss", "workflow:manage")];
        let roles = roles.map(|(role, word)| (role.to_owned(), word.to_owned())).into();
        let map = RoleMap::default().with(roles, BTreeMap::new());
        let granted = |roles: &[&str], claimed: &[&str]| {
            let words = map.words(&texts(roles), texts(claimed));
            let permissions = map.permissions(&words);
            let may = |permission| permissions.iter().any(|held| held.implies(permission));
            map.required_roles(&words, may).0.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(granted(&["Manager"], &[]), ["Manager"]);
        assert_eq!(granted(&[], &["contracts.approve"]), ["Manager"]);
        // The name of a role is no permission, and a role that the map does not have is none.
        assert!(granted(&["Stranger"], &["Manager", "Stranger"]).is_empty());
        assert_eq!(granted(&["Clerk"], &[]), ["Clerk"]);
        assert_eq!(granted(&[], &["workflow:manage"]), ["Boss", "Clerk"]);
        assert_eq!(granted(&[], &["system.manage_all"]), ["Boss", "Clerk", "Superadmin"]);
        // No token makes its holder the person to whom a state is assigned.
        assert!(granted(&["AssignedHandler"], &["__assigned__"]).is_empty());
        let known = map.required_roles(&BTreeSet::new(), |_| false).1.into_iter().collect::<Vec<_>>();
        assert_eq!(known, ["Boss", "Clerk", "ContractMember", "Manager", "OrgAdmin", "Superadmin"]);
    }

    #[test]
    fn maps_of_the_server_and_the_workspace_come_before_the_default() {
        let roles = BTreeMap::from([("Clerk".to_owned(), "workflow:act".to_owned())]);
        let map = RoleMap::default().with(roles, BTreeMap::from([("contract.view".to_owned(), Permission::View)]));
        let permissions = |map: &RoleMap, role: &str| map.permissions(&map.words(&texts(&[role]), vec![]));
        assert_eq!(permissions(&map, "Clerk"), [Permission::Act]);
        assert_eq!(permissions(&map, "ContractMember"), [Permission::View]);
        let own = map.for_workspace(&json!({"roles": {"Clerk": "workflow:read", "Superadmin": "nothing", "Odd": 5}}));
        assert_eq!(permissions(&own, "Clerk"), [Permission::Read]);
        assert_eq!(permissions(&own, "Superadmin"), []);
        assert_eq!(permissions(&own, "ContractMember"), [Permission::View]);
        assert_eq!(map.for_workspace(&json!({"fetch": true})), map);
    }
}
