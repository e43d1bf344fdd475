//! Lists of links: those of one identifier, or those of a namespace.

use serde::{Deserialize, Serialize};

use super::cursor::invalid_cursor;
use super::failure::OpFailure;
use super::limits::PAGE_ITEMS_DEFAULT;
use super::link::{Identifier, Link, LinkId, LinkKey};
use super::scan::Scan;
use super::text::{check_limit, check_name, check_optional};

/// From which side a link is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    #[default]
    Forward,
    Reverse,
    /// Forward links first. A link from an identifier to itself is found in each direction.
    Either,
}

/// The input of `links.lookup`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookupRequest {
    pub namespace: String,
    pub from: Identifier,
    #[serde(default)]
    pub direction: Direction,
    #[serde(default)]
    pub relation: Option<String>,
    /// The type of the far side.
    #[serde(default, alias = "right_type")]
    pub to_type: Option<String>,
    #[serde(default = "default_limit", deserialize_with = "crate::whole::number")]
    pub limit: usize,
    #[serde(default)]
    pub cursor: Option<String>,
}

/// The input of `links.list`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinksRequest {
    pub namespace: String,
    #[serde(default)]
    pub left_type: Option<String>,
    #[serde(default)]
    pub right_type: Option<String>,
    #[serde(default)]
    pub relation: Option<String>,
    #[serde(default = "default_limit", deserialize_with = "crate::whole::number")]
    pub limit: usize,
    #[serde(default)]
    pub cursor: Option<String>,
}

impl LookupRequest {
    /// Checks the input and makes a query of it.
    pub fn into_query(mut self) -> Result<LinkQuery, OpFailure> {
        self.from.check("from")?;
        check_optional("to_type", &mut self.to_type)?;
        let directions = match self.direction {
            Direction::Forward | Direction::Reverse => vec![self.direction],
            Direction::Either => vec![Direction::Forward, Direction::Reverse],
        };
        LinkQuery { near: Some((self.from, directions)), far_type: self.to_type, ..LinkQuery::new(self.namespace) }
            .checked(self.relation, self.limit, self.cursor.as_deref())
    }
}

impl LinksRequest {
    /// Checks the input and makes a query of it.
    pub fn into_query(mut self) -> Result<LinkQuery, OpFailure> {
        check_optional("left_type", &mut self.left_type)?;
        check_optional("right_type", &mut self.right_type)?;
        LinkQuery { left_type: self.left_type, far_type: self.right_type, ..LinkQuery::new(self.namespace) }.checked(
            self.relation,
            self.limit,
            self.cursor.as_deref(),
        )
    }
}

/// Which links a page contains.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkQuery {
    pub namespace: String,
    /// One link.
    pub id: Option<LinkId>,
    /// The identifier whose links are looked up, and the directions, in their order; otherwise all links, forward.
    near: Option<(Identifier, Vec<Direction>)>,
    left_type: Option<String>,
    far_type: Option<String>,
    relation: Option<String>,
    limit: usize,
    after: Option<LinkPosition>,
}

/// The position of a link in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPosition {
    pub direction: Direction,
    pub key: LinkKey,
}

/// A part of an index that is read for a page, in its order.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkRange {
    /// The links from an identifier, by the type and id of the other side and by relation, after those of a position.
    Forward { from: Identifier, after: (String, String, String) },
    /// The links to an identifier, by relation and by the type and id of the other side, after those of a position.
    Reverse { to: Identifier, after: (String, String, String) },
    /// All links, by both sides and by relation, after a position.
    All { after: LinkKey },
}

impl LinkQuery {
    /// All links of a namespace.
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            id: None,
            near: None,
            left_type: None,
            far_type: None,
            relation: None,
            limit: PAGE_ITEMS_DEFAULT,
            after: None,
        }
    }

    /// One link, by its id.
    pub fn by_id(namespace: impl Into<String>, id: LinkId) -> Self {
        Self { id: Some(id), ..Self::new(namespace) }
    }

    fn checked(mut self, relation: Option<String>, limit: usize, cursor: Option<&str>) -> Result<Self, OpFailure> {
        self.namespace = check_name("namespace", &self.namespace)?;
        self.relation = relation;
        check_optional("relation", &mut self.relation)?;
        check_limit(limit)?;
        self.limit = limit;
        self.after = cursor.map(LinkPosition::from_cursor).transpose()?;
        Ok(self)
    }

    /// The parts of the indexes that are read, in their order.
    pub fn ranges(&self) -> Vec<LinkRange> {
        let after = self.after.as_ref();
        let Some((near, directions)) = &self.near else {
            let left_type = self.left_type.clone().unwrap_or_default();
            let first =
                LinkKey { from: Identifier::new(left_type, ""), to: Identifier::new("", ""), relation: String::new() };
            return vec![LinkRange::All { after: after.map_or(first, |position| position.key.clone()) }];
        };
        let begun = after.map_or(0, |position| directions.iter().position(|it| *it == position.direction).unwrap_or(0));
        directions
            .iter()
            .enumerate()
            .skip(begun)
            .map(|(index, direction)| {
                let after = after.filter(|_| index == begun).map(|position| &position.key);
                self.range(near, *direction, after)
            })
            .collect()
    }

    fn range(&self, near: &Identifier, direction: Direction, after: Option<&LinkKey>) -> LinkRange {
        if direction == Direction::Reverse {
            let first = || (self.relation.clone().unwrap_or_default(), String::new(), String::new());
            let of_key = |key: &LinkKey| (key.relation.clone(), key.from.kind.clone(), key.from.id.clone());
            return LinkRange::Reverse { to: near.clone(), after: after.map_or_else(first, of_key) };
        }
        let first = || (self.far_type.clone().unwrap_or_default(), String::new(), String::new());
        let of_key = |key: &LinkKey| (key.to.kind.clone(), key.to.id.clone(), key.relation.clone());
        LinkRange::Forward { from: near.clone(), after: after.map_or_else(first, of_key) }
    }

    /// Whether the links of a range that follow this one cannot match: the range is ordered by the field that differs.
    fn is_past(&self, range: &LinkRange, key: &LinkKey) -> bool {
        let differs = |wanted: &Option<String>, found: &str| wanted.as_deref().is_some_and(|wanted| wanted != found);
        match range {
            LinkRange::Forward { .. } => differs(&self.far_type, &key.to.kind),
            LinkRange::Reverse { .. } => differs(&self.relation, &key.relation),
            LinkRange::All { .. } => differs(&self.left_type, &key.from.kind),
        }
    }

    fn is_match(&self, range: &LinkRange, key: &LinkKey) -> bool {
        let far = if matches!(range, LinkRange::Reverse { .. }) { &key.from } else { &key.to };
        self.far_type.as_ref().is_none_or(|kind| *kind == far.kind)
            && self.relation.as_ref().is_none_or(|relation| *relation == key.relation)
    }
}

impl LinkRange {
    fn direction(&self) -> Direction {
        match self {
            Self::Reverse { .. } => Direction::Reverse,
            Self::Forward { .. } | Self::All { .. } => Direction::Forward,
        }
    }

    /// The same range, after one of its links.
    #[must_use]
    pub fn after(&self, key: &LinkKey) -> Self {
        match self {
            Self::Forward { from, .. } => Self::Forward {
                from: from.clone(),
                after: (key.to.kind.clone(), key.to.id.clone(), key.relation.clone()),
            },
            Self::Reverse { to, .. } => Self::Reverse {
                to: to.clone(),
                after: (key.relation.clone(), key.from.kind.clone(), key.from.id.clone()),
            },
            Self::All { .. } => Self::All { after: key.clone() },
        }
    }
}

impl LinkPosition {
    /// The text that clients send back for the next page.
    pub fn to_cursor(&self) -> String {
        let LinkKey { from, to, relation } = &self.key;
        let direction = if self.direction == Direction::Reverse { "reverse" } else { "forward" };
        serde_json::to_string(&[direction, &from.kind, &from.id, &to.kind, &to.id, relation])
            .expect("texts can be written as JSON")
    }

    /// Reads what [`LinkPosition::to_cursor`] writes.
    pub fn from_cursor(text: &str) -> Result<Self, OpFailure> {
        let parts: [String; 6] = serde_json::from_str(text).map_err(|_| invalid_cursor())?;
        let [direction, from_type, from_id, to_type, to_id, relation] = parts;
        let direction = match direction.as_str() {
            "forward" => Direction::Forward,
            "reverse" => Direction::Reverse,
            _ => return Err(invalid_cursor()),
        };
        let (from, to) = (Identifier::new(from_type, from_id), Identifier::new(to_type, to_id));
        if [&from.kind, &from.id, &to.kind, &to.id, &relation].iter().any(|text| text.contains('\0')) {
            return Err(invalid_cursor());
        }
        Ok(Self { direction, key: LinkKey { from, to, relation } })
    }
}

/// A link that was found, and from which side.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkMatch {
    pub link: Link,
    pub direction: Direction,
}

impl LinkMatch {
    /// The other side of a link that was looked up.
    pub fn far_side(&self) -> &Identifier {
        if self.direction == Direction::Reverse { &self.link.key.from } else { &self.link.key.to }
    }
}

/// One page of a list of links.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkPage {
    pub matches: Vec<LinkMatch>,
    pub next: Option<LinkPosition>,
}

/// A page under construction.
pub struct LinkScan<'a> {
    query: &'a LinkQuery,
    scan: Scan<LinkMatch, LinkPosition>,
}

impl<'a> LinkScan<'a> {
    pub fn new(query: &'a LinkQuery) -> Self {
        Self { query, scan: Scan::new(query.limit) }
    }

    /// Adds the next link of a range. Returns false if no further link of the range belongs to this page.
    pub fn offer(&mut self, range: &LinkRange, link: Link) -> bool {
        if self.query.is_past(range, &link.key) {
            return false;
        }
        let direction = range.direction();
        let position = LinkPosition { direction, key: link.key.clone() };
        let (bytes, is_match) = (link.bytes, self.query.is_match(range, &link.key));
        self.scan.offer(position, bytes, is_match.then_some((LinkMatch { link, direction }, bytes)))
    }

    /// Whether the page is complete, so that no further range is read.
    pub fn is_full(&self) -> bool {
        self.scan.is_full()
    }

    pub fn finish(self) -> LinkPage {
        let (matches, next) = self.scan.finish();
        LinkPage { matches, next }
    }
}

fn default_limit() -> usize {
    PAGE_ITEMS_DEFAULT
}
