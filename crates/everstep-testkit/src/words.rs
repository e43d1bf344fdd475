//! Words that our texts avoid, because a precise word exists. CONTRIBUTING.md has the rules for texts.

use crate::tidy::File;

/// An avoided word or phrase in lower case, and the words to use in its place.
const AVOIDED: &[(&str, &str)] = &[
    ("whoever", "name the component or the user: \"the node that …\", \"a caller that …\""),
    ("nobody", "name what is missing: \"no node\", \"no worker\", \"no caller\""),
    ("somebody", "name the component or the user: \"another transaction\", \"a client\""),
    ("someone", "name the component or the user: \"a client\", \"an operator\""),
    ("anybody", "name the component or the user: \"any client\", \"any node\""),
    ("everybody", "name the components or the users: \"all nodes\", \"every client\""),
    ("anew", "\"again\", or the verb: \"recount\", \"rejoin\", \"reset\""),
    ("any more", "\"no longer\""),
    ("told", "\"notified\", \"reported\", \"sent\", \"received\", \"distinguished\""),
    ("stands", "\"is\", \"occurs\", \"is recorded\""),
    ("lies", "\"is\", \"belongs to\""),
    ("lies inside", "\"resolves to a private address\", \"is inside\""),
    ("meanwhile", "name the period: \"during the wait\", \"between the two statements\""),
    ("all the same", "\"nevertheless\", or name the exception"),
    ("in vain", "\"without a result\", \"timed out\""),
    ("thinks better of", "\"stops waiting\""),
    ("loses patience", "\"times out\""),
    ("mend", "\"repair\", \"correct\""),
    ("hungry", "\"has a backlog\""),
];

/// The files in which a word is allowed, with the reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("crates/everstep-testkit/src/words.rs", "*", "this is the list"),
    (
        "crates/everstep-store/migrations/postgres/V3__access_and_resources.sql",
        "somebody",
        "a database records the checksum of a migration, so its text never changes",
    ),
    (
        "crates/everstep-store/migrations/sqlite/V3__access_and_resources.sql",
        "somebody",
        "a database records the checksum of a migration, so its text never changes",
    ),
];

/// A line with an avoided word, as `path:line: word: use …`.
///
/// The search covers names as well: an underscore separates words, so that the names of tests are checked too. A phrase
/// is found across line breaks.
pub fn avoided_words(file: &File) -> Vec<String> {
    let words = words(&file.text);
    let mut found = Vec::new();
    for (phrase, replacement) in AVOIDED {
        let parts: Vec<_> = phrase.split(' ').collect();
        if is_exception(&file.path, phrase) {
            continue;
        }
        for place in words.windows(parts.len()) {
            if place.iter().map(|(_, word)| word).eq(parts.iter()) {
                found.push(format!("{}:{}: avoid {phrase:?}; use {replacement}", file.path, place[0].0));
            }
        }
    }
    found
}

/// Exceptions that no file needs.
pub fn needless_exceptions(files: &[File]) -> Vec<String> {
    let is_needed = |path: &str, word: &str| {
        let file = files.iter().find(|file| file.path == path);
        file.is_some_and(|file| word == "*" || words(&file.text).iter().any(|(_, found)| found == word))
    };
    EXCEPTIONS
        .iter()
        .filter(|(path, word, _)| !is_needed(path, word))
        .map(|(path, word, _)| format!("{path} does not contain {word:?}: remove the exception"))
        .collect()
}

fn is_exception(path: &str, phrase: &str) -> bool {
    EXCEPTIONS.iter().any(|(file, word, _)| *file == path && (*word == "*" || *word == phrase))
}

/// The words of a text in lower case, each with its line, counted from 1.
fn words(text: &str) -> Vec<(usize, String)> {
    let in_line = |(line, text): (usize, &str)| {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(|word| (line, word.to_lowercase())).collect::<Vec<_>>()
    };
    (1..).zip(text.lines()).flat_map(in_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        avoided_words(&File { path: "a.md".to_owned(), text: text.to_owned() })
    }

    #[test]
    fn a_word_is_found_with_its_line_and_its_replacement() {
        let lines = found("Fine.\n/// Nobody reads\n//! it any\n//! more.\nfn it_is_told() {}\n");
        let places: Vec<_> = lines.iter().map(|line| line.split("; use ").next().unwrap_or_default()).collect();
        let expected = ["a.md:2: avoid \"nobody\"", "a.md:3: avoid \"any more\"", "a.md:5: avoid \"told\""];
        assert_eq!(places, expected);
        assert!(lines[0].contains("no node"), "{}", lines[0]);
    }

    #[test]
    fn a_part_of_a_word_is_not_found() {
        assert!(found("The understanding of molten replies and of many more tolds.").is_empty());
    }
}
