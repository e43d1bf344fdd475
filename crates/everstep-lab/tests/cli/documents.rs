//! The reference page of this binary.

use crate::lab;
use crate::support::reference;

/// `BLESS=1 cargo test -p everstep-lab documents` writes the page.
#[test]
fn the_reference_of_the_lab_equals_the_help_of_the_binary() {
    let last = "The figures are explained in [benchmarks](../benchmarks.md).";
    reference::check("docs/reference/lab.md", "Lab", "everstep-lab", lab, last);
}
