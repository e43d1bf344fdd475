//! Which runs a list shows.

use everstep_core::ids::RunId;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::topics::{Trigger, TriggerKind};
use serde_json::{Number, Value};
use uuid::Uuid;

use crate::rows::{RunPage, RunSummary};

/// The maximum number of runs that one call examines.
pub(crate) const EXAMINED_RUNS_MAX: usize = 10_000;

/// Characters of the code of an error that the index has.
const PLAIN_CODE_CHARS_MAX: usize = 200;

/// How the runs of a list are found: the index whose entries are examined one by one, newest run first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Walk<'a> {
    /// The id of the trigger.
    Trigger(&'a str),
    Key(&'a str),
    Ids(Uuid, Uuid),
    Parent(RunId),
    Origin(RunId),
    /// A workflow and the state of its open runs.
    State(&'a str, &'a str),
    ErrorCode(&'a str),
    /// A workflow, and the statuses of the filter, none of which is `completed`.
    WorkflowStatuses(&'a str),
    /// The statuses of the filter, none of which is `completed`.
    Statuses,
    Workflow(&'a str),
    All,
}

/// The statuses that `runs_by_status` and `runs_running` have. A run that starts and completes in one item is never in
/// these indexes.
pub(crate) const STATUSES_WITH_INDEX: [Status; 6] =
    [Status::Pending, Status::Running, Status::Waiting, Status::Paused, Status::Failed, Status::Cancelled];

/// The statuses of runs that have not ended.
const OPEN_STATUSES: &[Status] = &[Status::Pending, Status::Running, Status::Waiting, Status::Paused];

/// The conditions that all listed runs meet. Test runs are never listed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFilter {
    pub workflow: Option<String>,
    /// One of these; any status if the list is empty.
    pub statuses: Vec<Status>,
    pub version: Option<u32>,
    /// Runs of machines in this state. Unless `statuses` names other ones, only runs that have not ended.
    pub state: Option<String>,
    pub parent: Option<RunId>,
    /// Forks of this run.
    pub origin: Option<RunId>,
    /// The run with this idempotency key; several if workflows use the same key.
    pub key: Option<String>,
    /// Runs that failed, or are paused, with this code.
    pub error_code: Option<String>,
    /// Runs that the trigger of this kind with this id has started.
    pub trigger: Option<(TriggerKind, String)>,
    /// Runs with ids from the first to the second.
    pub ids: Option<(Uuid, Uuid)>,
    /// Created at this time or later.
    pub since: Option<Timestamp>,
    /// Created before this time.
    pub until: Option<Timestamp>,
    /// Paths into the input with the expected values, as a person would type them: `42` is that number or that text,
    /// `null` is null or that text. A number in a path is also an index of an array.
    pub input: Vec<(Vec<String>, String)>,
    /// Tags with their values, typed as for `input`.
    pub tags: Vec<(String, String)>,
}

impl RunFilter {
    /// The position before which a page starts: after the previous page, and before the filter's end.
    pub(crate) fn begin(&self, after: Option<(Timestamp, RunId)>) -> (i64, Uuid) {
        let after = after.map(|(created_at, run)| (created_at.micros(), run.uuid()));
        // No id is smaller than nil, so runs created exactly at this time are left out.
        let until = self.until.map(|until| (until.micros(), Uuid::nil()));
        [after, until].into_iter().flatten().min().unwrap_or((i64::MAX, Uuid::max()))
    }

    /// The creation time of the oldest run that may be listed.
    pub(crate) fn end(&self) -> i64 {
        self.since.unwrap_or(Timestamp::from_micros(i64::MIN)).micros()
    }

    /// The workflow and the state of the open runs that are listed, if an index finds all of them.
    fn open_state(&self) -> Option<(&str, &str)> {
        let may_have_ended = self.statuses.iter().any(|status| status.has_ended());
        let (workflow, state) = (self.workflow.as_deref()?, self.state.as_deref()?);
        (!may_have_ended).then_some((workflow, state))
    }

    /// The index that finds the runs, unless a term is known. The first ones find few runs.
    pub(crate) fn walk(&self) -> Walk<'_> {
        if let Some((_, trigger)) = &self.trigger {
            return Walk::Trigger(trigger);
        }
        if let Some(key) = &self.key {
            return Walk::Key(key);
        }
        if let Some((first, last)) = self.ids {
            return Walk::Ids(first, last);
        }
        if let Some(parent) = self.parent {
            return Walk::Parent(parent);
        }
        if let Some(origin) = self.origin {
            return Walk::Origin(origin);
        }
        if let Some((workflow, state)) = self.open_state() {
            return Walk::State(workflow, state);
        }
        if let Some(code) = self.error_code.as_deref().filter(|code| is_plain_code(code)) {
            return Walk::ErrorCode(code);
        }
        let statuses = self.listed_statuses();
        let is_by_status = !statuses.is_empty() && statuses.iter().all(|status| STATUSES_WITH_INDEX.contains(status));
        match self.workflow.as_deref() {
            Some(workflow) if is_by_status => Walk::WorkflowStatuses(workflow),
            None if is_by_status => Walk::Statuses,
            Some(workflow) => Walk::Workflow(workflow),
            None => Walk::All,
        }
    }

    /// Whether terms may find the runs: no other index finds few of them. Runs that wait may be many.
    pub(crate) fn may_use_terms(&self) -> bool {
        let finds_many = match self.walk() {
            Walk::Workflow(_) | Walk::All => true,
            Walk::Statuses | Walk::WorkflowStatuses(_) => {
                self.listed_statuses().iter().any(|status| matches!(status, Status::Pending | Status::Waiting))
            }
            Walk::Trigger(_)
            | Walk::Key(_)
            | Walk::Ids(..)
            | Walk::Parent(_)
            | Walk::Origin(_)
            | Walk::State(..)
            | Walk::ErrorCode(_) => false,
        };
        finds_many && self.examines_documents()
    }

    /// The range of ids of the listed runs.
    pub(crate) fn id_range(&self) -> (Uuid, Uuid) {
        self.ids.unwrap_or((Uuid::nil(), Uuid::max()))
    }

    /// Whether a run has the expected trigger.
    pub(crate) fn has_trigger(&self, trigger: Option<&Trigger>) -> bool {
        self.trigger.as_ref().is_none_or(|(kind, id)| trigger.is_some_and(|it| it.kind == *kind && it.id == *id))
    }

    /// Whether a failure has the expected code.
    pub(crate) fn has_error(&self, error: Option<&str>) -> bool {
        self.error_code.as_deref().is_none_or(|code| {
            error.and_then(parse).is_some_and(|error| error.get("code").and_then(Value::as_str) == Some(code))
        })
    }

    /// The statuses of the listed runs; any status if the list is empty.
    pub(crate) fn listed_statuses(&self) -> &[Status] {
        if self.state.is_some() && self.statuses.is_empty() { OPEN_STATUSES } else { &self.statuses }
    }

    /// Whether it examines documents: inputs or tags.
    pub(crate) fn examines_documents(&self) -> bool {
        !self.input.is_empty() || !self.tags.is_empty()
    }

    /// Whether tags have the expected values.
    pub(crate) fn has_tags(&self, tags: &str) -> bool {
        self.tags.is_empty()
            || parse(tags).is_some_and(|tags| {
                self.tags
                    .iter()
                    .all(|(key, text)| tags.as_object().and_then(|tags| tags.get(key)).is_some_and(is_typed(text)))
            })
    }

    /// Whether an input has the expected values.
    pub(crate) fn has_input(&self, input: &str) -> bool {
        self.input.is_empty()
            || parse(input).is_some_and(|input| {
                self.input.iter().all(|(path, text)| find(&input, path).is_some_and(is_typed(text)))
            })
    }

    /// Whether the values at the paths into an input, which the database has read, are the expected ones.
    pub(crate) fn has_found(&self, found: &[Option<&str>]) -> bool {
        let is_wanted = |((_, text), found): (&(_, String), &Option<&str>)| {
            found.and_then(parse).is_some_and(|value| is_typed(text)(&value))
        };
        self.input.iter().zip(found).all(is_wanted)
    }
}

/// Whether the index has errors with this code.
fn is_plain_code(code: &str) -> bool {
    code.chars().count() <= PLAIN_CODE_CHARS_MAX && !code.contains(['"', '\\']) && !code.contains(char::is_control)
}

/// Parses a document. A document that cannot be parsed matches no filter.
fn parse(json: &str) -> Option<Value> {
    serde_json::from_str(json).ok()
}

/// The value at a path.
pub(crate) fn find<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| match value {
        Value::Object(fields) => fields.get(name),
        Value::Array(items) => array_index(name).and_then(|index| items.get(index)),
        _ => None,
    })
}

/// An index of an array, in its usual notation: without sign or leading zeros.
pub(crate) fn array_index(name: &str) -> Option<usize> {
    name.parse().ok().filter(|index: &usize| index.to_string() == name)
}

/// Whether a text is the form in which a person would type a value.
fn is_typed(text: &str) -> impl Fn(&Value) -> bool {
    move |value| match value {
        Value::String(string) => string == text,
        Value::Number(number) => serde_json::from_str(text).is_ok_and(|typed| is_same(number, &typed)),
        Value::Bool(is_true) => text == if *is_true { "true" } else { "false" },
        Value::Null => text == "null",
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// Whether two numbers are equal, in any notation.
fn is_same(one: &Number, other: &Number) -> bool {
    let is_whole = |number: &Number| number.is_i64() || number.is_u64();
    if is_whole(one) && is_whole(other) { one == other } else { one.as_f64() == other.as_f64() }
}

/// A page under construction, newest run first.
pub(crate) struct PageBuilder {
    runs: Vec<RunSummary>,
    limit: usize,
    has_more: bool,
    /// Runs that were examined, also those that were left out.
    pub(crate) scanned: usize,
}

impl PageBuilder {
    pub(crate) fn new(limit: usize) -> Self {
        Self { runs: Vec::new(), limit, has_more: false, scanned: 0 }
    }

    /// Adds the next run that matches. Returns false if the page is full: then there is another page.
    pub(crate) fn push(&mut self, run: RunSummary) -> bool {
        if self.runs.len() == self.limit {
            self.has_more = true;
            return false;
        }
        self.runs.push(run);
        true
    }

    /// The greatest number of runs of the page.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// The runs that may still be examined.
    pub(crate) fn left(&self) -> usize {
        EXAMINED_RUNS_MAX.saturating_sub(self.scanned)
    }

    /// The position of the last run of the page.
    pub(crate) fn last(&self) -> Option<(Timestamp, RunId)> {
        self.runs.last().map(|run| (run.created_at, run.id))
    }

    /// The page. `end` is the position of the last run that was examined, or none if all runs were examined.
    pub(crate) fn finish(self, end: Option<(Timestamp, RunId)>) -> RunPage {
        let next = if self.has_more { self.last() } else { end };
        RunPage { next, runs: self.runs, scanned: self.scanned }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_typed_for_what_it_looks_like_and_for_itself() {
        for (text, values) in [
            ("42", vec![json!(42), json!(42.0), json!("42")]),
            ("4.2e1", vec![json!(42), json!(42.0), json!("4.2e1")]),
            ("true", vec![json!(true), json!("true")]),
            ("null", vec![json!(null), json!("null")]),
            ("", vec![json!("")]),
            ("a\"b%_ ✓", vec![json!("a\"b%_ ✓")]),
            ("18446744073709551615", vec![json!(u64::MAX), json!("18446744073709551615")]),
        ] {
            for value in &values {
                assert!(is_typed(text)(value), "{text} for {value}");
            }
            for other in [json!(43), json!(false), json!("other"), json!([42]), json!({ "a": 42 }), json!(u64::MAX - 1)]
            {
                assert!(!is_typed(text)(&other), "{text} for {other}");
            }
        }
    }

    #[test]
    fn the_open_statuses_are_those_of_runs_that_have_not_ended() {
        let open: Vec<_> = Status::ALL.iter().copied().filter(|status| !status.has_ended()).collect();
        assert_eq!(open, OPEN_STATUSES);
    }

    #[test]
    fn every_status_but_completed_has_an_index() {
        let others: Vec<_> = Status::ALL.iter().copied().filter(|status| *status != Status::Completed).collect();
        assert_eq!(others, STATUSES_WITH_INDEX);
    }

    #[test]
    fn statuses_without_completed_are_found_by_their_index() {
        let by = |statuses: &[Status]| RunFilter { statuses: statuses.to_vec(), ..RunFilter::default() };
        let of_orders = |filter| RunFilter { workflow: Some("orders".to_owned()), ..filter };
        for statuses in [&[Status::Running][..], &[Status::Failed, Status::Waiting]] {
            assert_eq!(by(statuses).walk(), Walk::Statuses);
            assert_eq!(of_orders(by(statuses)).walk(), Walk::WorkflowStatuses("orders"));
        }
        for statuses in [&[][..], &[Status::Completed], &[Status::Failed, Status::Completed]] {
            assert_eq!(by(statuses).walk(), Walk::All);
            assert_eq!(of_orders(by(statuses)).walk(), Walk::Workflow("orders"));
        }
        // Without a workflow, the runs in a state are among those that have not ended.
        let in_state = RunFilter { state: Some("review".to_owned()), ..RunFilter::default() };
        assert_eq!(in_state.walk(), Walk::Statuses);
        assert_eq!(of_orders(in_state).walk(), Walk::State("orders", "review"));
    }

    #[test]
    fn terms_find_runs_unless_another_index_finds_few() {
        let tagged = |statuses: &[Status]| RunFilter {
            statuses: statuses.to_vec(),
            tags: vec![("team".to_owned(), "blue".to_owned())],
            ..RunFilter::default()
        };
        for (statuses, may_use_terms) in [
            (&[][..], true),
            (&[Status::Completed], true),
            (&[Status::Waiting, Status::Failed], true),
            (&[Status::Failed], false),
            (&[Status::Running, Status::Paused], false),
        ] {
            assert_eq!(tagged(statuses).may_use_terms(), may_use_terms, "{statuses:?}");
        }
        assert!(!RunFilter { key: Some("k".to_owned()), ..tagged(&[]) }.may_use_terms());
        assert!(!RunFilter::default().may_use_terms());
    }

    #[test]
    fn a_path_leads_through_fields_and_places() {
        let input = json!({ "items": [{ "id": 1 }, { "id": 2 }], "0": "zero", "a.b": 3, "": 4 });
        let at = |path: &[&str]| find(&input, &path.iter().map(ToString::to_string).collect::<Vec<_>>()).cloned();
        assert_eq!(at(&["items", "1", "id"]), Some(json!(2)));
        assert_eq!(at(&["0"]), Some(json!("zero")));
        assert_eq!(at(&["a.b"]), Some(json!(3)));
        assert_eq!(at(&[""]), Some(json!(4)));
        assert_eq!(at(&[]), Some(input.clone()));
        for none in [&["items", "2", "id"][..], &["items", "-1"], &["items", "01"], &["0", "zero"], &["nothing"]] {
            assert_eq!(at(none), None, "{none:?}");
        }
    }
}
