//! The media type of a file, and whether a browser may show the file in its place.
//!
//! 1. A file is shown only if its media type is in a short list, and its first bytes have the form of that type.
//! 2. A type that can contain scripts, such as HTML and SVG, is never in the list.

/// The number of first bytes by which the form of a file is recognised.
pub const SNIFFED_BYTES: usize = 512;

/// The media type of a file of which nothing is known.
const UNKNOWN: &str = "application/octet-stream";
/// Characters of a media type.
const MEDIA_TYPE_CHARS_MAX: usize = 127;

/// The media type of a file, as it is stored: that of the request in lower case without parameters, or that of unknown
/// bytes if the request has none or one that is not valid.
pub fn media_type_of(sent: Option<&str>) -> String {
    let essence = sent.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_name = |name: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !name.is_empty() && name.bytes().all(is_letter)
    };
    let is_valid = essence.len() <= MEDIA_TYPE_CHARS_MAX
        && essence.split_once('/').is_some_and(|(kind, subkind)| is_name(kind) && is_name(subkind));
    if is_valid { essence } else { UNKNOWN.to_owned() }
}

/// Whether a browser may show a file of this media type that begins with these bytes, at most [`SNIFFED_BYTES`].
pub fn is_shown_inline(media_type: &str, first: &[u8]) -> bool {
    match media_type {
        "image/png" => first.starts_with(b"\x89PNG\r\n\x1a\n"),
        "image/jpeg" => first.starts_with(b"\xff\xd8\xff"),
        "image/gif" => first.starts_with(b"GIF87a") || first.starts_with(b"GIF89a"),
        "image/webp" => first.starts_with(b"RIFF") && first.get(8..12) == Some(b"WEBP"),
        "application/pdf" => first.starts_with(b"%PDF-"),
        "text/plain" => is_plain_text(first),
        _ => false,
    }
}

/// Whether bytes are plain text: UTF-8, without control characters other than white space, and not markup.
fn is_plain_text(first: &[u8]) -> bool {
    let text = match std::str::from_utf8(first) {
        Ok(text) => text,
        // The last character may be cut.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&first[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return false,
    };
    let is_control = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\r' | '\t' | '\u{c}');
    let start = text.trim_start_matches('\u{feff}').trim_start();
    !text.is_empty() && !text.contains(is_control) && !start.starts_with('<')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_shown_only_if_its_first_bytes_agree_with_its_type() {
        let shown: [(&str, &[u8]); 7] = [
            ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
            ("image/jpeg", b"\xff\xd8\xff\xe0\0\x10JFIF"),
            ("image/gif", b"GIF89a\x01\0\x01\0"),
            ("image/webp", b"RIFF\x24\0\0\0WEBPVP8 "),
            ("application/pdf", b"%PDF-1.7\n"),
            ("text/plain", "Größe: 7 m²\n".as_bytes()),
            // The last character is cut.
            ("text/plain", b"gr\xc3"),
        ];
        for (media_type, first) in shown {
            assert!(is_shown_inline(media_type, first), "{media_type}");
        }
        let hidden: [(&str, &[u8]); 10] = [
            ("image/png", b"<svg xmlns='http://www.w3.org/2000/svg'>"),
            ("image/png", b"\x89PNG"),
            ("image/jpeg", b"\x89PNG\r\n\x1a\n"),
            ("image/webp", b"RIFF\x24\0\0\0WAVE"),
            ("image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg'>"),
            ("text/html", b"hello"),
            ("text/plain", b"\xef\xbb\xbf \n<html>"),
            ("text/plain", b"a\0b"),
            ("text/plain", b"\xff\xfe"),
            ("application/octet-stream", b"%PDF-1.7"),
        ];
        for (media_type, first) in hidden {
            assert!(!is_shown_inline(media_type, first), "{media_type}");
        }
    }

    #[test]
    fn a_media_type_has_no_parameters_and_is_one() {
        assert_eq!(media_type_of(Some("Text/Plain; charset=utf-8")), "text/plain");
        assert_eq!(media_type_of(Some("application/vnd.ms-excel")), "application/vnd.ms-excel");
        for sent in
            [None, Some(""), Some("png"), Some("image/"), Some("a/b/c"), Some("image/png\r\nx: y"), Some("a b/c")]
        {
            assert_eq!(media_type_of(sent), UNKNOWN, "{sent:?}");
        }
    }
}
