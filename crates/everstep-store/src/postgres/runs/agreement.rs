//! The three statements of a commit agree: `runs.sql` and `steps.sql` are parts of `all.sql`. With side rows, a batch
//! is written by `runs.sql` or `all.sql` and the parts `audited.sql`, `published.sql`, `dead_letters.sql`, `bound.sql` and
//! `indexed.sql`, which are added to their texts. If it has the place of a machine, or a run with a trigger or a later
//! start, these two also have their lines for rare columns.
//!
//! A batch is written by the shortest statement that does everything its items need. So a change of one statement must
//! be made in the others, unless it is about something that they leave out. This test compares the parts (the
//! subqueries of `with`, and the final `select`) line by line; the differences are listed here.

use std::collections::BTreeMap;

use crate::postgres::queries::{add_parts, add_rare};

const ALL: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/postgres/commit/all.sql"));
const RUNS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/postgres/commit/runs.sql"));
const STEPS: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/postgres/commit/steps.sql"));

const AUDITED: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/postgres/commit/audited.sql"));
const PUBLISHED: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/postgres/commit/published.sql"));
const DEAD_LETTERS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/postgres/commit/dead_letters.sql"));
const BOUND: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/postgres/commit/bound.sql"));
const INDEXED: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/postgres/commit/indexed.sql"));

/// A difference: these lines of a part of the longer statement are replaced in the shorter one.
struct Difference {
    part: &'static str,
    longer: &'static str,
    shorter: &'static str,
}

/// The parts that `runs.sql` leaves out: unowned runs, answered inbox rows, items without rows, open waits and inbox
/// inputs.
const RUNS_DIFFERENCES: &[Difference] = &[
    Difference {
        part: "started",
        longer: "
    where exists (select from member)
        and (id in (select run from gone)) is not true",
        shorter: "
    where exists (select from member)",
    },
    Difference {
        part: "head",
        longer: "
        and case
            when is_unowned then run in (select id from unowned)
            else (select owner = :node from runs where id = run)
        end
        and (run in (select run from gone)) is not true",
        shorter: "
        and not is_unowned
        and (select owner = :node from runs where id = run)",
    },
    Difference {
        part: "projected",
        longer: "
        and runs.owner is not distinct from case when not is_unowned then :node end",
        shorter: "
        and not is_unowned
        and runs.owner is not distinct from :node",
    },
    Difference {
        part: "projected",
        longer: "
            else exists (select from member) and (run in (select run from gone)) is not true",
        shorter: "
            else exists (select from member)",
    },
    Difference {
        part: "opened",
        longer: "
    select id from projected
    union all
    select run from checked",
        shorter: "
    select id from projected",
    },
    Difference {
        part: "closed",
        longer: "
        and (closed.run in (select run from opened)) is true
    returning waits.run_id",
        shorter: "
        and (closed.run in (select run from opened)) is true",
    },
    Difference {
        part: "select",
        longer: "
    (select array_agg(place order by place) from inbox_input),
    (select array_agg(id order by place) from inbox_input),
    (select array_agg(owner order by place) from inbox_input)",
        shorter: "
    null::bigint[],
    null::bigint[],
    null::uuid[]",
    },
];

/// The parts that `steps.sql` leaves out in addition: the rows of runs. The only gate is the head.
const STEPS_DIFFERENCES: &[Difference] = &[
    Difference {
        part: "appended",
        longer: "
    where (run in (select run from opened)) is true",
        shorter: "
    where (run in (select run_id from head)) is true",
    },
    Difference {
        part: "select",
        longer: "
    (select array_agg(run) from opened),",
        shorter: "
    (select array_agg(run_id) from head),",
    },
];

/// Parts that the statement for runs does not need.
const RUNS_OMITTED: &[&str] = &["present", "gone", "unowned", "checked", "waiting", "answered", "inbox_input", "sent"];

/// Parts of the statement for runs that the one for steps does not need.
const STEPS_OMITTED: &[&str] = &["started", "projected", "opened", "closed"];

/// The parts of a statement by their names, without comments. The name of the last one is `select`.
fn parts(statement: &str) -> BTreeMap<&str, String> {
    let mut parts: BTreeMap<&str, String> = BTreeMap::new();
    let mut name = "";
    let code = statement.lines().filter(|line| !line.trim_start().starts_with("--") && *line != "with");
    for line in code {
        if !line.starts_with([' ', ')']) {
            // `head as (`, `member as materialized (`, or the final `select`.
            name = line.split(' ').next().unwrap_or_default();
        }
        // The last part before the final select has no comma.
        let line = if line == ")," { ")" } else { line };
        let part = parts.entry(name).or_default();
        part.push('\n');
        part.push_str(line);
    }
    parts
}

/// The names of parts in the order of a statement.
fn names(statement: &str) -> Vec<&str> {
    let is_begin = |line: &&str| line.ends_with(" (") && !line.starts_with([' ', ')']);
    statement.lines().filter(is_begin).filter_map(|line| line.split(' ').next()).collect()
}

#[track_caller]
fn assert_agree(longer: &str, shorter: &str, differences: &[Difference], omitted: &[&str]) {
    let (mut expected, found) = (parts(longer), parts(shorter));
    for difference in differences {
        let part = expected.get_mut(difference.part).expect("a difference names a part");
        let count = part.matches(difference.longer).count();
        assert_eq!(count, 1, "a difference of {} is found {count} times:{}", difference.part, difference.longer);
        *part = part.replace(difference.longer, difference.shorter);
    }
    for (name, part) in &found {
        let expected = expected.get(name).unwrap_or_else(|| panic!("only the shorter statement has {name}"));
        let (expected, part): (Vec<_>, Vec<_>) = (expected.lines().collect(), part.lines().collect());
        for (expected, line) in expected.iter().zip(&part) {
            assert_eq!(expected, line, "in {name}");
        }
        assert_eq!(expected.len(), part.len(), "{name} is longer in one statement");
    }
    let mut order = names(longer);
    order.retain(|name| !omitted.contains(name));
    assert_eq!(
        order,
        names(shorter),
        "the shorter statement has all parts except those it may omit, in the same order"
    );
}

#[test]
fn the_statement_for_runs_is_a_part_of_the_whole_one() {
    assert_agree(ALL, RUNS, RUNS_DIFFERENCES, RUNS_OMITTED);
    assert_agree(&add_rare(ALL), &add_rare(RUNS), RUNS_DIFFERENCES, RUNS_OMITTED);
}

#[test]
fn the_statement_for_steps_is_a_part_of_the_one_for_runs() {
    assert_agree(RUNS, STEPS, STEPS_DIFFERENCES, STEPS_OMITTED);
}

#[test]
fn side_rows_add_parts_and_change_no_other() {
    let sides: [(&[_], &[_]); 4] = [
        (&[AUDITED], &["audited"]),
        (&[AUDITED, INDEXED], &["audited", "indexed"]),
        (&[AUDITED, PUBLISHED], &["audited", "published"]),
        (
            &[AUDITED, PUBLISHED, DEAD_LETTERS, BOUND, INDEXED],
            &["audited", "published", "dead_lettered", "bound", "unbound", "indexed"],
        ),
    ];
    for (statement, (texts, side)) in [RUNS, ALL].into_iter().flat_map(|text| sides.map(|side| (text, side))) {
        let with_side = add_parts(statement, texts);
        assert_agree(&with_side, statement, &[], side);
        assert!(names(&with_side).ends_with(side));
        for part in side {
            assert!(parts(&with_side)[part].contains("in (select run from opened)) is true"), "{part}");
        }
    }
}

#[test]
fn rare_columns_add_lines_and_change_no_other() {
    for statement in [RUNS, ALL] {
        let is_code = |line: &&str| !line.trim_start().starts_with("--");
        let lines = |text: &str| text.lines().filter(is_code).map(str::to_owned).collect::<Vec<_>>();
        let (plain, with_rare) = (lines(statement), add_rare(statement));
        let is_added = |line: &String| line.contains("version_no");
        let (added, others): (Vec<_>, Vec<_>) = lines(&with_rare).into_iter().partition(is_added);
        assert_eq!(others, plain);
        // Two lists of columns, of arrays and of their names; in the update the columns are assigned.
        assert_eq!(added.len(), 7, "{added:?}");
    }
    assert_eq!(add_rare(STEPS), STEPS);
    for part in [AUDITED, PUBLISHED, DEAD_LETTERS, BOUND, INDEXED] {
        assert_eq!(add_rare(part), part);
    }
}

#[test]
fn items_without_a_machine_have_statements_without_its_columns() {
    for statement in [STEPS, RUNS, ALL] {
        assert!(!parts(statement).values().any(|part| part.contains("version_no")), "{statement}");
    }
}

#[test]
fn items_without_side_rows_have_statements_without_them() {
    for statement in [STEPS, RUNS, ALL] {
        assert!(!statement.contains("audit"), "{statement}");
    }
}

#[test]
fn a_line_that_is_changed_in_one_statement_is_reported() {
    let changed = STEPS.replace("and not fenced", "and true");
    let result = std::panic::catch_unwind(|| assert_agree(RUNS, &changed, STEPS_DIFFERENCES, STEPS_OMITTED));
    assert!(result.is_err());
}
