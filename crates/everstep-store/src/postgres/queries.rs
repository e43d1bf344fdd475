//! The statements, one per file in `queries/postgres`.

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

/// A statement of a query file, by its path without the extension.
macro_rules! query {
    ($name:literal) => { $crate::postgres::queries::query!(@parse $crate::postgres::queries::query!(@text $name)) };
    // A statement with the part of another file before its final `select`.
    ($name:literal with $part:literal) => {
        $crate::postgres::queries::query!(@parse &$crate::postgres::queries::add_part(
            $crate::postgres::queries::query!(@text $name),
            $crate::postgres::queries::query!(@text $part),
        ))
    };
    // A statement with its lines for machines.
    ($name:literal for machines) => {
        $crate::postgres::queries::query!(@parse &$crate::postgres::queries::add_machines(
            $crate::postgres::queries::query!(@text $name),
        ))
    };
    ($name:literal for machines with $part:literal) => {
        $crate::postgres::queries::query!(@parse &$crate::postgres::queries::add_machines(
            &$crate::postgres::queries::add_part(
                $crate::postgres::queries::query!(@text $name),
                $crate::postgres::queries::query!(@text $part),
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

/// A statement with one more part (a subquery of `with`) before its final `select`.
pub(super) fn add_part(statement: &str, part: &str) -> String {
    let (parts, select) = statement.rsplit_once("\n)\nselect\n").expect("a select follows the parts");
    format!("{parts}\n),\n{}\nselect\n{select}", part.trim_end())
}

/// The mark of the lines that only the items of machines need.
const MACHINES: &str = "-- machines: ";

/// A statement with its lines for machines.
pub(super) fn add_machines(statement: &str) -> String {
    statement.replace(MACHINES, "")
}

/// A parameter's name, value and type.
pub(super) type Param<'a> = (&'static str, &'a (dyn ToSql + Sync), Type);

pub(super) fn param<'a, T: Bind>(name: &'static str, value: &'a T) -> Param<'a> {
    (name, value, T::TYPE)
}

impl Query {
    /// Whether it has a parameter with that name.
    pub(super) fn takes(&self, name: &str) -> bool {
        self.names.iter().any(|taken| taken == name)
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
            let mentions = [format!("query!(\"{}\")", name.display()), format!("with \"{}\")", name.display())];
            let is_used = mentions.iter().any(|mention| source.contains(mention));
            assert!(is_used, "no code runs {}", name.display());
        }
    }

    #[test]
    fn queries_have_the_names_that_they_have_on_sqlite() {
        // A verb of several statements is a folder. These verbs belong to one of the databases.
        let alone = ["release_all", "maintain", "refusals", "server"];
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
