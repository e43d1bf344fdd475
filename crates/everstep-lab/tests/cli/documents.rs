//! The reference page of this binary.

use crate::lab;
use crate::support::reference;

/// `BLESS=1 cargo test -p everstep-lab documents` writes the page.
#[test]
fn the_reference_of_the_lab_is_what_the_binary_says() {
    let last = "What the figures mean is in [benchmarks](../benchmarks.md).";
    reference::check("docs/reference/lab.md", "Lab", "everstep-lab", lab, last);
}
