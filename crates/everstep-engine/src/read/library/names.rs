//! Names of workflows.

use everstep_core::workflow::is_name;

use crate::error::Error;

/// Words of the API's paths, which cannot be names of workflows.
const RESERVED: &[&str] = &["evaluate", "import", "rename", "validate"];
/// The beginning of the names of workflows that belong to the server.
const RESERVED_PREFIX: &str = "everstep-";

pub(super) fn check_name(name: &str) -> Result<(), Error> {
    if !is_name(name) {
        let hint = "1 to 128 lowercase letters, digits, `_` or `-`, beginning with a letter or digit";
        return Err(Error::Invalid(format!("{name:?} is not a valid name of a workflow: {hint}")));
    }
    if RESERVED.contains(&name) {
        return Err(Error::Invalid(format!(
            "{name:?} is not a valid name of a workflow: the API uses that word in its paths"
        )));
    }
    if name.starts_with(RESERVED_PREFIX) {
        return Err(Error::Invalid(format!(
            "{name:?} is not a valid name of a workflow: names that begin with {RESERVED_PREFIX:?} are reserved"
        )));
    }
    Ok(())
}
