//! Tables of contents of Markdown pages.

use std::fmt::Write as _;

/// The heading of a table of contents.
const TITLE: &str = "Contents";

/// The table of contents of a page, which lists its sections.
pub fn table(page: &str) -> String {
    let mut table = format!("## {TITLE}\n\n");
    for title in sections(page) {
        let _ = writeln!(table, "* [{title}](#{})", anchor(title));
    }
    table
}

/// The sections that the table of contents of a page does not list; `None` if the page has no table.
pub fn unlisted_sections(page: &str) -> Option<Vec<&str>> {
    let (_, after) = page.split_once(&format!("\n## {TITLE}\n"))?;
    let table = after.split("\n## ").next().unwrap_or_default();
    let is_listed = |title: &str| table.contains(&format!("](#{})", anchor(title)));
    Some(sections(page).into_iter().filter(|title| *title != TITLE && !is_listed(title)).collect())
}

/// The titles of the sections of a page: its headings of the second level, outside blocks of code.
fn sections(page: &str) -> Vec<&str> {
    let mut is_code = false;
    let mut titles = Vec::new();
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        titles.extend(line.strip_prefix("## ").filter(|_| !is_code));
    }
    titles
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n\n## Fan out, fan in\n\n```sh\n## a comment\n```\n\n## `a.b` in JSON\n";

    #[test]
    fn a_table_lists_the_sections_by_their_anchors() {
        let table = table(PAGE);
        assert_eq!(table, "## Contents\n\n* [Fan out, fan in](#fan-out-fan-in)\n* [`a.b` in JSON](#ab-in-json)\n");
        assert_eq!(unlisted_sections(&format!("# Page\n\n{table}\n{PAGE}")), Some(vec![]));
    }

    #[test]
    fn a_section_outside_the_table_is_found() {
        assert_eq!(unlisted_sections(PAGE), None);
        let listed = "# Page\n\n## Contents\n\n* [One](#one)\n\n## One\n\n## Two\n\n* [Two](#two)\n";
        assert_eq!(unlisted_sections(listed), Some(vec!["Two"]));
    }
}
