//! Pages of lists.

use std::str::FromStr;

use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;

/// Rows of a page, unless the request says otherwise.
const PAGE_SIZE_DEFAULT: u64 = 50;
const PAGE_SIZE_MAX: u64 = 500;

/// The query parameters of a list.
pub(crate) const CURSOR_PARAMETER: Parameter = Parameter::text("cursor", "`nextCursor` of the page before, as it is.");
pub(crate) const LIMIT_PARAMETER: Parameter =
    Parameter::whole("limit", 1, PAGE_SIZE_MAX, "How many at most. 50 when none is named.");
pub(crate) const PAGE_PARAMETERS: &[Parameter] = &[CURSOR_PARAMETER, LIMIT_PARAMETER];

/// Which part of a list is asked for.
pub(crate) struct Page<'a> {
    cursor: Option<&'a str>,
    pub(crate) limit: usize,
}

impl<'a> Page<'a> {
    pub(crate) fn read(query: &'a Query) -> Result<Self, Problem> {
        let limit = query.number("limit", 1..=PAGE_SIZE_MAX)?.unwrap_or(PAGE_SIZE_DEFAULT);
        Ok(Self { cursor: query.text("cursor"), limit: usize::try_from(limit).expect("a page is small") })
    }

    /// Where the page before has ended.
    pub(crate) fn cursor<T: FromStr>(&self) -> Result<Option<T>, Problem> {
        let hint = "send nextCursor of the page before as it is";
        let wrong = |_| Problem::invalid("the query parameter \"cursor\" cannot be read").hint(hint);
        self.cursor.map(str::parse).transpose().map_err(wrong)
    }

    /// Cuts a page from what is left. It needs one more than the limit to know that there is another page.
    pub(crate) fn cut<T>(
        &self,
        rest: impl IntoIterator<Item = T>,
        cursor: impl Fn(&T) -> String,
    ) -> (Vec<T>, Option<String>) {
        let mut rows: Vec<_> = rest.into_iter().take(self.limit + 1).collect();
        let has_more = rows.len() > self.limit;
        rows.truncate(self.limit);
        let next = rows.last().filter(|_| has_more).map(cursor);
        (rows, next)
    }
}
