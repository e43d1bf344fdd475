//! Numbers and texts from other values, as JavaScript makes them.

use std::borrow::Cow;

use super::datum::{Datum, Items, View, finite};
use super::fuel::{Error, Fuel};

/// The text of an object in JavaScript.
const OBJECT_TEXT: &str = "[object Object]";

/// `Number(x)`, but NaN instead of an infinity.
pub(super) fn number(datum: &Datum<'_>, fuel: &mut Fuel) -> Result<f64, Error> {
    if let Datum::Number(number) = datum {
        return Ok(*number);
    }
    Ok(match datum.view() {
        View::Null => 0.0,
        View::Bool(flag) => f64::from(u8::from(flag)),
        View::Number(number) => number,
        View::Text(text) => {
            fuel.read(text.len())?;
            finite(parse_number(text))
        }
        View::List(_) => {
            let text = text(datum, fuel)?;
            fuel.read(text.len())?;
            finite(parse_number(&text))
        }
        View::Object => f64::NAN,
    })
}

/// `parseFloat(x)`, but NaN instead of an infinity: the number that the text of a value begins with.
pub(super) fn leading_number(datum: &Datum<'_>, fuel: &mut Fuel) -> Result<f64, Error> {
    if let Datum::Number(number) = datum {
        return Ok(*number);
    }
    if let View::Number(number) = datum.view() {
        return Ok(number);
    }
    let text = text(datum, fuel)?;
    fuel.read(text.len())?;
    let text = text.trim_start_matches(is_space);
    Ok(text[..decimal_length(text)].parse().map_or(f64::NAN, finite))
}

/// `String(x)`.
pub(super) fn text<'d>(datum: &'d Datum<'_>, fuel: &mut Fuel) -> Result<Cow<'d, str>, Error> {
    Ok(match datum.view() {
        View::Null => "null".into(),
        View::Bool(true) => "true".into(),
        View::Bool(false) => "false".into(),
        View::Number(number) => number_text(number).into(),
        View::Text(text) => text.into(),
        View::List(items) => {
            let mut text = String::new();
            join(items, &mut text, fuel)?;
            text.into()
        }
        View::Object => OBJECT_TEXT.into(),
    })
}

/// Adds the text that a value has inside a list or a `cat`: null has the empty text.
pub(super) fn append(datum: &Datum<'_>, out: &mut String, fuel: &mut Fuel) -> Result<(), Error> {
    match datum.view() {
        View::Null => Ok(()),
        View::List(items) => join(items, out, fuel),
        View::Bool(_) | View::Number(_) | View::Text(_) | View::Object => {
            let text = text(datum, fuel)?;
            fuel.write(text.len())?;
            out.push_str(&text);
            Ok(())
        }
    }
}

/// `list.join(",")`.
fn join(items: Items<'_, '_>, out: &mut String, fuel: &mut Fuel) -> Result<(), Error> {
    let mut index = 0;
    while let Some(item) = items.next(&mut index, fuel)? {
        if index > 1 {
            fuel.write(1)?;
            out.push(',');
        }
        append(&item, out, fuel)?;
    }
    Ok(())
}

/// Parses a whole text as a number: 0 if the text is empty, NaN if it is not a number.
fn parse_number(text: &str) -> f64 {
    let text = text.trim_matches(is_space);
    let radix = |digits: &str, radix: u32| {
        let is_plain = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
        let value = |value: f64, digit: char| value * f64::from(radix) + f64::from(digit.to_digit(radix).unwrap_or(0));
        if is_plain { digits.chars().fold(0.0, value) } else { f64::NAN }
    };
    match text.get(..2) {
        Some("0x" | "0X") => return radix(&text[2..], 16),
        Some("0o" | "0O") => return radix(&text[2..], 8),
        Some("0b" | "0B") => return radix(&text[2..], 2),
        _ => {}
    }
    match text {
        "" => 0.0,
        _ if decimal_length(text) == text.len() => text.parse().unwrap_or(f64::NAN),
        _ => f64::NAN,
    }
}

/// How many bytes at the beginning of a text are a decimal number.
fn decimal_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let begin = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(begin);
    let mut end = begin + whole;
    let mut fraction = 0;
    if bytes.get(end) == Some(&b'.') {
        fraction = digits(end + 1);
        if whole + fraction > 0 {
            end += 1 + fraction;
        }
    }
    if whole + fraction == 0 {
        return 0;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits((end + 1 + sign).min(bytes.len()));
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

/// A finite number as JavaScript writes it: with an exponent if it has more than 21 digits or is very small.
pub(super) fn number_text(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    if (1e-6..1e21).contains(&number.abs()) {
        return format!("{number}");
    }
    // Rust writes 1e21 and 1e-7, JavaScript 1e+21 and 1e-7.
    let text = format!("{number:e}");
    if number.abs() < 1.0 { text } else { text.replace('e', "e+") }
}

/// The number of UTF-16 code units in a text, which is its length in JavaScript.
pub(super) fn utf16_length(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// White space of JavaScript: that of Unicode, and the byte-order mark.
fn is_space(letter: char) -> bool {
    (letter.is_whitespace() && letter != '\u{85}') || letter == '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_the_number_that_javascript_reads() {
        for (text, expected) in [
            ("", 0.0),
            (" 12 ", 12.0),
            ("-1.5e3", -1500.0),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("0x1F", 31.0),
            ("0b101", 5.0),
            ("0o17", 15.0),
        ] {
            assert_eq!(parse_number(text), expected, "{text:?}");
        }
        for text in [
            "inf",
            "nan",
            "NaN",
            "1e",
            "1 2",
            "0x",
            "0xg",
            "-0x1",
            ".",
            "e5",
            "1_000",
            "1e5x",
            "infinity",
            "Infinity",
            "-Infinity",
        ] {
            assert!(parse_number(text).is_nan(), "{text:?}");
        }
    }

    #[test]
    fn the_beginning_of_a_text_is_a_number() {
        let leading = |text: &str| leading_number(&Datum::text(text), &mut Fuel::full()).unwrap();
        for (text, expected) in [("12px", 12.0), ("  3.5.1", 3.5), ("1e5x", 1e5), ("1e", 1.0), ("-.5", -0.5)] {
            assert_eq!(leading(text), expected, "{text:?}");
        }
        assert!(
            ["", "px", ".", "-", "e5", "null", "-Infinityx", "1e999"].into_iter().all(|text| leading(text).is_nan())
        );
    }

    #[test]
    fn numbers_are_written_as_javascript_does() {
        for (number, text) in [
            (1.0, "1"),
            (-0.0, "0"),
            (0.1, "0.1"),
            (-1.5, "-1.5"),
            (123_456_789_012_345_680_000.0, "123456789012345680000"),
            (1e21, "1e+21"),
            (-1.25e30, "-1.25e+30"),
            (1e-6, "0.000001"),
            (1.5e-7, "1.5e-7"),
        ] {
            assert_eq!(number_text(number), text);
        }
    }
}
