//! `/v1/runs/{id}/journal`: the entries of a run, in order.

use axum::Json;
use axum::extract::{Path, State};

use super::show;
use super::wire::{Entries, Entry, Head, Heads, JournalView};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

const PAGE_SIZE_DEFAULT: u64 = 100;
const PAGE_SIZE_MAX: u64 = 1_000;
const HEADS_PAGE_SIZE_DEFAULT: u64 = 1_000;
const HEADS_PAGE_SIZE_MAX: u64 = 10_000;
/// A page ends when it has this many bytes, whatever its limit: an entry may have a mebibyte.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

pub(crate) const PAGE: &[Parameter] = &[
    Parameter::whole("after", 0, i64::MAX as u64, "Entries after this one: `nextAfter` of the previous page."),
    Parameter::whole(
        "limit",
        1,
        HEADS_PAGE_SIZE_MAX,
        "The maximum number of results: 100 by default and at most 1,000; with `view=heads`, 1,000 by default and at most 10,000.",
    ),
    VIEW,
];

const VIEWS: &[&str] = &["full", "heads"];

/// The form of entries.
pub(crate) const VIEW: Parameter = Parameter::choice(
    "view",
    VIEWS,
    "`heads`: entries without input, output, values and log lines, each with the updates that follow from it. `full` \
     by default.",
);

/// The form in which entries are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryForm {
    Whole,
    Head,
}

impl EntryForm {
    /// Reads the word of a request.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        match word {
            "full" => Some(Self::Whole),
            "heads" => Some(Self::Head),
            _ => None,
        }
    }
}

/// Reads the parameter `view`.
pub(crate) fn read_view(query: &Query) -> Result<EntryForm, Problem> {
    Ok(query.word("view", VIEWS)?.and_then(EntryForm::from_word).unwrap_or(EntryForm::Whole))
}

pub(crate) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<JournalView>, Problem> {
    let id = show::read_id(&id)?;
    let after = query.number("after").unwrap_or(0);
    let form = read_view(&query)?;
    let (default, most) = match form {
        EntryForm::Whole => (PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX),
        EntryForm::Head => (HEADS_PAGE_SIZE_DEFAULT, HEADS_PAGE_SIZE_MAX),
    };
    let limit = query.number_within("limit", &(1..=most))?.unwrap_or(default);
    let limit = usize::try_from(limit).expect("a page is small");
    let row = show::row(&app, caller.workspace, id).await?;
    if form == EntryForm::Head {
        let page = app.engine.runs().heads(&row, after, limit, Head::from_journal).await?;
        return Ok(Json(JournalView::Heads(Heads { entries: page.heads, next_after: page.next_after })));
    }
    let page = app.engine.runs().journal(id, after, limit, PAGE_BYTES_MAX).await?;
    let entries = page.entries.into_iter().map(Entry::from_journal).collect();
    Ok(Json(JournalView::Whole(Entries { entries, next_after: page.next_after })))
}
