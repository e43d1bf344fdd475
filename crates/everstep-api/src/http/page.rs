//! Pages of lists.

use std::str::FromStr;

use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;

/// The default number of rows in a page.
const PAGE_SIZE_DEFAULT: u64 = 50;
const PAGE_SIZE_MAX: u64 = 500;

/// The query parameters of a list.
pub(crate) const CURSOR_PARAMETER: Parameter =
    Parameter::text("cursor", "`nextCursor` of the previous page, unchanged.");
pub(crate) const LIMIT_PARAMETER: Parameter =
    Parameter::whole("limit", 1, PAGE_SIZE_MAX, "The maximum number of results; 50 by default.");
pub(crate) const PAGE_PARAMETERS: &[Parameter] = &[CURSOR_PARAMETER, LIMIT_PARAMETER];

/// The requested part of a list.
pub(crate) struct Page<'a> {
    cursor: Option<&'a str>,
    pub(crate) limit: usize,
}

impl<'a> Page<'a> {
    pub(crate) fn read(query: &'a Query) -> Self {
        let limit = query.number("limit").unwrap_or(PAGE_SIZE_DEFAULT);
        Self { cursor: query.text("cursor"), limit: usize::try_from(limit).expect("a page is small") }
    }

    /// The end of the previous page.
    pub(crate) fn cursor<T: FromStr>(&self) -> Result<Option<T>, Problem> {
        let hint = "send nextCursor of the previous page unchanged";
        let wrong = |_| Problem::invalid("the query parameter \"cursor\" is not valid").hint(hint);
        self.cursor.map(str::parse).transpose().map_err(wrong)
    }

    /// Cuts a page from the remaining rows. One row more than the limit shows that there is another page.
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
