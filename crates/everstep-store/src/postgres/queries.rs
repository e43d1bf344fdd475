//! The statements, one per file in `queries/postgres`.

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

/// A statement of a query file, by its path without the extension.
macro_rules! query {
    ($name:literal) => { $crate::postgres::queries::query!(@parse $crate::postgres::queries::query!(@text $name)) };
    // A statement with the parts of other files before its final `select`.
    ($name:literal with $($part:literal),+) => {
        $crate::postgres::queries::query!(@parse &$crate::postgres::queries::add_parts(
            $crate::postgres::queries::query!(@text $name),
            &[$($crate::postgres::queries::query!(@text $part)),+],
        ))
    };
    // A statement with its lines for rare columns.
    ($name:literal for rare) => {
        $crate::postgres::queries::query!(@parse &$crate::postgres::queries::add_rare(
            $crate::postgres::queries::query!(@text $name),
        ))
    };
    ($name:literal for rare with $($part:literal),+) => {
        $crate::postgres::queries::query!(@parse &$crate::postgres::queries::add_rare(
            &$crate::postgres::queries::add_parts(
                $crate::postgres::queries::query!(@text $name),
                &[$($crate::postgres::queries::query!(@text $part)),+],
            ),
        ))
    };
    (@text $name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/postgres/", $name, ".sql"))
    };
    (@parse $text:expr) => {{
        static QUERY: std::sync::LazyLock<$crate::postgres::queries::Query> =
            std::sync::LazyLock::new(|| $crate::postgres::queries::Query::parse($text));
        &*QUERY
    }};
}

/// The values of a statement's parameters, by their names.
macro_rules! params {
    ($($name:literal: $value:expr),* $(,)?) => {
        &[$($crate::postgres::queries::param($name, &$value)),*]
    };
}

pub(super) use {params, query};

/// A statement whose parameters have names.
#[derive(Debug)]
pub(super) struct Query {
    /// With numbers in place of the names.
    pub(super) sql: String,
    /// The names, in the order of their numbers.
    names: Vec<String>,
}

/// A statement with more parts (subqueries of `with`) before its final `select`.
pub(super) fn add_parts(statement: &str, added: &[&str]) -> String {
    let (parts, select) = statement.rsplit_once("\n)\nselect\n").expect("a select follows the parts");
    let added: Vec<_> = added.iter().map(|part| part.trim_end()).collect();
    format!("{parts}\n),\n{}\nselect\n{select}", added.join(",\n"))
}

/// The mark of the lines for columns that few runs have: the place of a machine, the trigger, and a later start.
const RARE: &str = "-- rare: ";

/// A statement with its lines for rare columns.
pub(super) fn add_rare(statement: &str) -> String {
    statement.replace(RARE, "")
}

/// A parameter's name, value and type.
pub(super) type Param<'a> = (&'static str, &'a (dyn ToSql + Sync), Type);

pub(super) fn param<'a, T: Bind>(name: &'static str, value: &'a T) -> Param<'a> {
    (name, value, T::TYPE)
}

impl Query {
    /// Removes the parameters that the statement does not take. The others are in the order of their numbers.
    pub(super) fn select(&self, params: &mut Vec<Param<'_>>) {
        let mut names = self.names.iter().peekable();
        params.retain(|(name, ..)| names.next_if(|next| next == name).is_some());
    }

    /// Those of some parameters that the statement takes, in any order.
    pub(super) fn pick<'a>(&self, params: &[Param<'a>]) -> Vec<Param<'a>> {
        params.iter().filter(|(name, ..)| self.names.iter().any(|taken| taken == name)).cloned().collect()
    }

    /// Parses a statement: removes its comments and numbers its parameters.
    pub(super) fn parse(text: &str) -> Self {
        let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
        let code = code.join("\n");
        let mut query = Self { sql: String::with_capacity(code.len()), names: Vec::new() };
        let mut rest = code.as_str();
        while let Some(at) = rest.find([':', '\'']) {
            let (before, mark) = rest.split_at(at);
            query.sql.push_str(before);
            let end = match mark.as_bytes() {
                [b'\'', ..] => mark[1..].find('\'').expect("a quoted text is closed") + 2,
                [b':', b':', ..] => 2,
                _ => mark[1..].find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(mark.len() - 1) + 1,
            };
            let (token, after) = mark.split_at(end);
            match token.strip_prefix(':').filter(|name| !name.starts_with(':')) {
                Some(name) => {
                    let number = query.number(name);
                    query.sql.push_str(&format!("${number}"));
                }
                None => query.sql.push_str(token),
            }
            rest = after;
        }
        query.sql.push_str(rest);
        query
    }

    fn number(&mut self, name: &str) -> usize {
        let known = self.names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        }) + 1
    }

    /// The values in the order of the statement's numbers.
    pub(super) fn bind<'a>(&self, params: &[Param<'a>]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
        assert_eq!(params.len(), self.names.len(), "every parameter has a value: {:?}", self.names);
        let by_name = |(index, name): (usize, &String)| {
            // They are nearly always already in order.
            let here = params.get(index).filter(|param| param.0 == name);
            let (_, value, kind) = here.or_else(|| params.iter().find(|param| param.0 == name)).expect(name);
            (*value, kind.clone())
        };
        self.names.iter().enumerate().map(by_name).collect()
    }
}

/// A value with the type that it has in the database.
pub(super) trait Bind: ToSql + Sync {
    const TYPE: Type;
}

/// A value of which there may be arrays.
pub(super) trait Scalar: ToSql + Sync {
    const TYPE: Type;
    const ARRAY: Type;
}

macro_rules! scalars {
    ($($rust:ty: $one:ident, $many:ident;)*) => {
        $(impl Scalar for $rust {
            const TYPE: Type = Type::$one;
            const ARRAY: Type = Type::$many;
        })*
    };
}

scalars! {
    bool: BOOL, BOOL_ARRAY;
    i16: INT2, INT2_ARRAY;
    i32: INT4, INT4_ARRAY;
    i64: INT8, INT8_ARRAY;
    Uuid: UUID, UUID_ARRAY;
    &str: TEXT, TEXT_ARRAY;
    String: TEXT, TEXT_ARRAY;
    &[u8]: BYTEA, BYTEA_ARRAY;
}

impl<T: Scalar> Scalar for Option<T> {
    const TYPE: Type = T::TYPE;
    const ARRAY: Type = T::ARRAY;
}

impl<T: Scalar> Bind for T {
    const TYPE: Type = <T as Scalar>::TYPE;
}

impl<T: Scalar> Bind for Vec<T> {
    const TYPE: Type = T::ARRAY;
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
    }

    fn files(folder: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
        }
        files.sort();
        files
    }

    #[test]
    fn parameters_are_numbered_by_their_first_use() {
        let query = Query::parse("-- Promises :nothing.\nselect ':no', :b::text[], x::int\nwhere a = :a and b = :b");
        assert_eq!(query.sql, "select ':no', $1::text[], x::int\nwhere a = $2 and b = $1");
        assert_eq!(query.names, ["b", "a"]);
    }

    #[test]
    fn values_are_found_by_name() {
        let query = Query::parse("select :a, :b");
        let bound = query.bind(params! { "b": 1_i64, "a": "text" });
        assert_eq!([&bound[0].1, &bound[1].1], [&Type::TEXT, &Type::INT8]);
    }

    #[test]
    fn every_query_states_its_promise_and_is_used() {
        let root = folder("queries/postgres");
        let source: String =
            files(&folder("src/postgres")).iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        let files = files(&root);
        assert!(files.len() > 25);
        for file in files {
            let name = file.strip_prefix(&root).unwrap().with_extension("");
            let sql = fs::read_to_string(&file).unwrap();
            assert!(sql.starts_with("-- "), "{} does not state its promise", name.display());
            assert_eq!(sql, sql.replace('\t', "    "), "{} has tabs", name.display());
            assert!(!Query::parse(&sql).sql.contains(';'), "{} is more than a statement", name.display());
            // A statement, the first part that is added to one, or a further part.
            let mentions = ["query!(", "with ", ", "].map(|before| format!("{before}\"{}\"", name.display()));
            let is_used = mentions.iter().any(|mention| source.contains(mention));
            assert!(is_used, "no code runs {}", name.display());
        }
    }

    #[test]
    fn queries_have_the_names_that_they_have_on_sqlite() {
        // A verb of several statements is a folder. These verbs belong to one of the databases.
        let alone = ["journal_origin", "release_all", "maintain", "refusals", "server"];
        let verbs = |name: &str| {
            let root = folder("queries").join(name);
            let verb = |file: PathBuf| {
                let first = file.strip_prefix(&root).unwrap().components().next().unwrap();
                Path::new(first.as_os_str()).with_extension("").display().to_string()
            };
            let mut verbs: Vec<_> = files(&root).into_iter().map(verb).collect();
            verbs.dedup();
            verbs.retain(|verb| !alone.contains(&verb.as_str()));
            verbs
        };
        assert_eq!(verbs("postgres"), verbs("sqlite"));
    }
}
