//! Steps that read and write links between the things of users. One file per kind; `store::handler` performs them.

mod delete;
mod list;
mod list_namespaces;
mod lookup;
mod upsert;

use crate::store::RecordKind;

pub(crate) fn kinds() -> Vec<RecordKind> {
    vec![upsert::kind(), lookup::kind(), delete::kind(), list::kind(), list_namespaces::kind()]
}
