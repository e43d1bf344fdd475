//! The syntax of scripts.

use serde_json::json;

use super::{assert_problems, problems, with_config};
use crate::support::load;

#[test]
fn a_script_that_does_not_compile_is_refused_when_it_is_saved() {
    let broken = with_config("javascript", json!({"code": "return !!"}));
    assert_problems(
        &broken,
        &[("it", "/nodes/1/config/code", "SyntaxError: unexpected !! at line 2, column 3", "line and column")],
    );
    assert_eq!(problems(&broken)[0].code, Some("SYNTAX_ERROR"));
    // A definition that was saved before is loaded, so that its runs continue.
    assert!(load(&broken).is_ok());
}
