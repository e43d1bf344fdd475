//! A scan: the rows that are read for one page, within the bounds of a page.

use super::limits::{PAGE_BYTES_MAX, SCANNED_BYTES_MAX, SCANNED_ROWS_MAX};

/// Rows in their order, each offered with its position. A page ends at a number of items, at a number of bytes, after a
/// number of rows that were read, or when its caller ends it; so a short page may have a next one.
#[derive(Clone, Debug)]
pub struct Scan<T, P> {
    limit: usize,
    items: Vec<T>,
    /// Bytes of the items.
    bytes: usize,
    /// Rows that were read, and their bytes.
    rows: usize,
    read_bytes: usize,
    /// The position of the last row that belongs to this page.
    last: Option<P>,
    is_full: bool,
    /// Whether no further row belongs to this page.
    is_ended: bool,
}

impl<T, P: Clone> Scan<T, P> {
    pub fn new(limit: usize) -> Self {
        Self { limit, items: Vec::new(), bytes: 0, rows: 0, read_bytes: 0, last: None, is_full: false, is_ended: false }
    }

    /// Adds the next row, with the bytes that were read for it, and with its item and the size of that, if the row
    /// contributes one. Returns false if the page was full before: then the row belongs to the next page.
    pub fn offer(&mut self, position: P, read_bytes: usize, item: Option<(T, usize)>) -> bool {
        let bytes = item.as_ref().map_or(0, |(_, bytes)| *bytes);
        let is_too_much = item.is_some() && !self.items.is_empty() && self.bytes + bytes > PAGE_BYTES_MAX;
        self.is_full = self.is_full
            || self.is_ended
            || self.items.len() >= self.limit
            || self.rows >= SCANNED_ROWS_MAX
            || self.read_bytes >= SCANNED_BYTES_MAX
            || is_too_much;
        if self.is_full {
            return false;
        }
        self.rows += 1;
        self.read_bytes += read_bytes;
        self.bytes += bytes;
        self.last = Some(position);
        if let Some((item, _)) = item {
            self.items.push(item);
        }
        true
    }

    /// Ends the page after the rows that it has.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    /// Whether a row was offered that belongs to the next page.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The position of the last row.
    pub fn last(&self) -> Option<&P> {
        self.last.as_ref()
    }

    /// The items, and the position after which the next page begins, if there is one.
    pub fn finish(self) -> (Vec<T>, Option<P>) {
        let next = if self.is_full { self.last } else { None };
        (self.items, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_at_its_items_and_knows_whether_rows_follow() {
        let mut scan = Scan::new(2);
        assert!(scan.offer(1, 10, Some(("a", 10))) && scan.offer(2, 10, None) && scan.offer(3, 10, Some(("b", 10))));
        assert_eq!(scan.clone().finish(), (vec!["a", "b"], None));
        assert!(!scan.offer(4, 10, None));
        assert_eq!(scan.finish(), (vec!["a", "b"], Some(3)));
    }

    #[test]
    fn a_page_ends_at_its_bytes_and_holds_at_least_one_item() {
        let mut scan = Scan::new(200);
        assert!(scan.offer(1, 0, Some(("large", PAGE_BYTES_MAX * 2))));
        assert!(!scan.offer(2, 0, Some(("small", 1))));
        assert_eq!(scan.finish(), (vec!["large"], Some(1)));
    }

    #[test]
    fn a_page_ends_after_ten_thousand_rows() {
        let mut scan: Scan<(), usize> = Scan::new(200);
        let read = (1..).take_while(|row| scan.offer(*row, 1, None)).count();
        assert_eq!(read, SCANNED_ROWS_MAX);
        assert_eq!(scan.finish(), (vec![], Some(SCANNED_ROWS_MAX)));

        let mut scan: Scan<(), usize> = Scan::new(200);
        let read = (1..).take_while(|row| scan.offer(*row, SCANNED_BYTES_MAX / 2, None)).count();
        assert_eq!(read, 2);
    }
}
