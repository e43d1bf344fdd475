//! SQL as it is saved, with arguments as `:name`, and as it is sent to a database, with numbered parameters.
//!
//! An argument's value is never part of the text: it is always bound.

/// The dialect of the SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Postgres,
    Sqlite,
}

/// One statement, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    /// With `$1` or `?1` in place of `:name`.
    pub(super) text: String,
    /// The names, in the order of their numbers.
    pub(super) names: Vec<String>,
    /// Its first word, in lower case.
    pub(super) verb: String,
    /// The differences between the text and the saved SQL.
    replacements: Vec<Replacement>,
}

/// A name that was replaced by a number; all counted in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Replacement {
    /// Its position in the saved SQL, and its length.
    source: (usize, usize),
    /// Its position in the text, and its length.
    text: (usize, usize),
}

impl Statement {
    /// Parses one statement. An error contains the reason and the position: `line 2, column 5: …`.
    pub(super) fn read(sql: &str, dialect: Dialect) -> Result<Self, String> {
        Reader { dialect, letters: sql.chars().collect(), at: 0, text: String::with_capacity(sql.len()), length: 0 }
            .read()
    }

    /// The line and column in the saved SQL of a character of the text, counted from one.
    pub(super) fn position_in_source(&self, sql: &str, position: usize) -> (usize, usize) {
        let mut offset = position.saturating_sub(1);
        if let Some(replacement) = self.replacements.iter().rev().find(|replacement| replacement.text.0 <= offset) {
            let behind = offset - replacement.text.0;
            let further = behind.checked_sub(replacement.text.1).map_or(0, |further| replacement.source.1 + further);
            offset = replacement.source.0 + further;
        }
        line_and_column(sql.chars().take(offset))
    }
}

fn line_and_column(before: impl Iterator<Item = char>) -> (usize, usize) {
    before.fold((1, 1), |(line, column), letter| if letter == '\n' { (line + 1, 1) } else { (line, column + 1) })
}

struct Reader {
    dialect: Dialect,
    letters: Vec<char>,
    at: usize,
    text: String,
    /// The text's length in characters.
    length: usize,
}

impl Reader {
    fn read(mut self) -> Result<Statement, String> {
        let (mut names, mut replacements, mut verb) = (Vec::<String>::new(), Vec::new(), String::new());
        let mut end = None;
        while let Some(letter) = self.peek(0) {
            if let (Some(end), false) = (end, self.is_blank()) {
                return Err(self.wrong(end, "only one statement is allowed; another one follows the semicolon"));
            }
            match letter {
                '\0' => return Err(self.wrong(self.at, "the SQL contains a NUL character")),
                ';' => {
                    end = Some(self.at);
                    self.at += 1;
                }
                '\'' => self.quoted('\'', false)?,
                '"' => self.quoted('"', false)?,
                '`' if self.dialect == Dialect::Sqlite => self.quoted('`', false)?,
                '[' if self.dialect == Dialect::Sqlite => self.quoted(']', false)?,
                '-' if self.peek(1) == Some('-') => self.line_comment(),
                '/' if self.peek(1) == Some('*') => self.block_comment()?,
                '$' => self.dollar()?,
                '?' | '@' | '#' if self.dialect == Dialect::Sqlite => {
                    return Err(self.wrong(self.at, "write an argument as :name"));
                }
                ':' if matches!(self.peek(1), Some(':' | '=')) => self.copy(2),
                ':' if self.peek(1).is_some_and(is_start_of_name) => {
                    let begin = self.at;
                    self.at += 1;
                    let name = self.take_while(|letter| letter.is_ascii_alphanumeric() || letter == '_');
                    let number = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                        names.push(name.clone());
                        names.len() - 1
                    });
                    let sign = if self.dialect == Dialect::Postgres { '$' } else { '?' };
                    let before = self.length;
                    self.push(&format!("{sign}{}", number + 1));
                    let replacement =
                        Replacement { source: (begin, self.at - begin), text: (before, self.length - before) };
                    replacements.push(replacement);
                }
                letter if is_start_of_word(letter) => {
                    let word = self.take_while(is_part_of_word);
                    self.push(&word);
                    if verb.is_empty() {
                        verb = word.to_lowercase();
                    }
                    let escapes = self.dialect == Dialect::Postgres && word.eq_ignore_ascii_case("e");
                    if escapes && self.peek(0) == Some('\'') {
                        self.quoted('\'', true)?;
                    }
                }
                letter if letter.is_ascii_digit() => {
                    let number = self.take_while(|letter| is_part_of_word(letter) || letter == '.');
                    self.push(&number);
                }
                _ => self.copy(1),
            }
        }
        if verb.is_empty() {
            return Err("there is no statement".to_owned());
        }
        Ok(Statement { text: self.text, names, verb, replacements })
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).copied()
    }

    /// Whether the next characters are white space or a comment.
    fn is_blank(&self) -> bool {
        match self.peek(0) {
            Some('-') => self.peek(1) == Some('-'),
            Some('/') => self.peek(1) == Some('*'),
            Some(letter) => letter.is_whitespace() || letter == ';',
            None => true,
        }
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.length += text.chars().count();
    }

    fn copy(&mut self, count: usize) {
        for _ in 0..count {
            let Some(letter) = self.peek(0) else { return };
            self.text.push(letter);
            self.length += 1;
            self.at += 1;
        }
    }

    fn take_while(&mut self, mut wants: impl FnMut(char) -> bool) -> String {
        let begin = self.at;
        while self.peek(0).is_some_and(&mut wants) {
            self.at += 1;
        }
        self.letters[begin..self.at].iter().collect()
    }

    /// Copies a quoted text; a doubled quote is part of it.
    fn quoted(&mut self, end: char, escapes: bool) -> Result<(), String> {
        let begin = self.at;
        self.copy(1);
        loop {
            match self.peek(0) {
                None => return Err(self.wrong(begin, "the quoted text that begins here does not end")),
                Some('\0') => return Err(self.wrong(self.at, "the SQL contains a NUL character")),
                Some('\\') if escapes => self.copy(2),
                Some(letter) if letter == end && end != ']' && self.peek(1) == Some(end) => self.copy(2),
                Some(letter) => {
                    self.copy(1);
                    if letter == end {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|letter| letter != '\n') {
            self.copy(1);
        }
    }

    /// Copies a comment. PostgreSQL's comments may be nested.
    fn block_comment(&mut self) -> Result<(), String> {
        let begin = self.at;
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) if depth == 0 || self.dialect == Dialect::Postgres => {
                    depth += 1;
                    self.copy(2);
                }
                (Some('*'), Some('/')) => {
                    depth -= 1;
                    self.copy(2);
                    if depth == 0 {
                        return Ok(());
                    }
                }
                (Some(_), _) => self.copy(1),
                (None, _) => return Err(self.wrong(begin, "the comment that begins here does not end")),
            }
        }
    }

    /// `$1` is rejected, `$tag$…$tag$` is copied.
    fn dollar(&mut self) -> Result<(), String> {
        let begin = self.at;
        let is_numbered = self.peek(1).is_some_and(|letter| letter.is_ascii_digit());
        if self.dialect == Dialect::Sqlite || is_numbered {
            return Err(self.wrong(begin, "write an argument as :name"));
        }
        let tag =
            (1..).map_while(|ahead| self.peek(ahead)).take_while(|letter| is_part_of_word(*letter) && *letter != '$');
        let tag: Vec<char> = tag.collect();
        if self.peek(1 + tag.len()) != Some('$') {
            self.copy(1);
            return Ok(());
        }
        let mark: Vec<char> = self.letters[begin..begin + tag.len() + 2].to_vec();
        self.copy(mark.len());
        while self.at < self.letters.len() {
            if self.letters[self.at..].starts_with(&mark) {
                self.copy(mark.len());
                return Ok(());
            }
            self.copy(1);
        }
        Err(self.wrong(begin, "the dollar-quoted text that begins here does not end"))
    }

    fn wrong(&self, at: usize, what: &str) -> String {
        let (line, column) = line_and_column(self.letters[..at].iter().copied());
        format!("line {line}, column {column}: {what}")
    }
}

fn is_start_of_name(letter: char) -> bool {
    letter.is_ascii_alphabetic() || letter == '_'
}

fn is_start_of_word(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_'
}

fn is_part_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn postgres(sql: &str) -> Statement {
        Statement::read(sql, Dialect::Postgres).unwrap()
    }

    fn refused(sql: &str, dialect: Dialect) -> String {
        Statement::read(sql, dialect).unwrap_err()
    }

    #[test]
    fn names_become_numbers_and_a_name_has_one() {
        let statement = postgres("select * from a where x = :x and y in (:y, :x) limit :most_9");
        assert_eq!(statement.text, "select * from a where x = $1 and y in ($2, $1) limit $3");
        assert_eq!(statement.names, ["x", "y", "most_9"]);
        assert_eq!(statement.verb, "select");
        let statement = Statement::read("SELECT :a, :b, :a", Dialect::Sqlite).unwrap();
        assert_eq!((statement.text.as_str(), statement.verb.as_str()), ("SELECT ?1, ?2, ?1", "select"));
    }

    #[test]
    fn what_only_looks_like_a_name_is_left_alone() {
        for sql in [
            "select ':a', ''':a', '\\'",
            "select \":a\" from \"t\"\":a\"",
            "select E'\\':a', e'\\\\', 1",
            "select $$:a$$, $q$ :a $$ :b $ q$ $q$",
            "select 1 -- :a\n, 2",
            "select /* :a /* :b */ :c */ 1",
            "select a::int, b :: text, f(x := 1), '1'::int",
            "select arr[1:2], 12:34",
            "select U&'d\\0061t:a', x'00', b'1'",
            "select name$1 from t",
            "select a ? 'b', a @> '{}', a #> '{x}'",
        ] {
            let statement = postgres(sql);
            assert_eq!((statement.text.as_str(), statement.names.len()), (sql, 0), "{sql}");
        }
        for sql in ["select [a:b], `:c`, \":d\" from t", "select 'it''s :a' /* /* :x */"] {
            let statement = Statement::read(sql, Dialect::Sqlite).unwrap();
            assert_eq!((statement.text.as_str(), statement.names.len()), (sql, 0), "{sql}");
        }
    }

    #[test]
    fn a_cast_behind_an_argument_stays_a_cast() {
        assert_eq!(postgres("select :a::int,:b::text[]").text, "select $1::int,$2::text[]");
    }

    #[test]
    fn there_is_one_statement() {
        assert_eq!(postgres("select 1; -- done\n /* really */ ; ").text.trim_end(), "select 1 -- done\n /* really */");
        for sql in ["select 1; drop table a", "select 1;select 2", "; select 1; select 2"] {
            assert!(refused(sql, Dialect::Postgres).contains("only one statement"), "{sql}");
        }
        for sql in ["", "  ", "-- nothing", ";", "()"] {
            assert_eq!(refused(sql, Dialect::Sqlite), "there is no statement", "{sql}");
        }
    }

    #[test]
    fn an_unclosed_text_is_reported_with_its_position() {
        assert!(refused("select\n  'abc", Dialect::Postgres).starts_with("line 2, column 3: the quoted text"));
        assert!(refused("select /* /* */", Dialect::Postgres).starts_with("line 1, column 8: the comment"));
        assert!(refused("select $a$ $b$", Dialect::Postgres).contains("dollar-quoted"));
        assert!(refused("select $1", Dialect::Postgres).contains(":name"));
        for sql in ["select ?", "select ?1", "select @a", "select $a"] {
            assert!(refused(sql, Dialect::Sqlite).contains(":name"), "{sql}");
        }
        assert!(refused("select 'a\0b'", Dialect::Postgres).contains("NUL"));
    }

    #[test]
    fn a_place_in_the_text_is_a_place_in_what_was_saved() {
        let sql = "select :customer,\n       nope from t where a = :customer";
        let statement = postgres(sql);
        let at = |word: &str| statement.text.find(word).unwrap() + 1;
        assert_eq!(statement.position_in_source(sql, at("$1")), (1, 8));
        assert_eq!(statement.position_in_source(sql, at("nope")), (2, 8));
        assert_eq!(statement.position_in_source(sql, at("a =")), (2, 26));
    }
}
