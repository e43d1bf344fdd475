//! A file that a browser sends as a form, `multipart/form-data` (RFC 7578): one part, of which only the end is held
//! back until it is known not to be the end of the form.

use axum::http::StatusCode;

use crate::http::body::StreamedBody;
use crate::http::problem::Problem;

/// Bytes of the head of the part.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;
/// Bytes after the boundary that ends the part.
const REST_BYTES_MAX: usize = 128 * 1024;
/// Characters of a boundary (RFC 2046).
const BOUNDARY_CHARS_MAX: usize = 70;

/// The part of a form, read to the end of its head.
pub(super) struct FormFile {
    body: StreamedBody,
    /// The mark before the end of the part.
    delimiter: Vec<u8>,
    /// Received bytes after the head that are not taken yet.
    buffer: Vec<u8>,
    /// The name that the browser has sent.
    pub(super) name: Option<String>,
    pub(super) media_type: Option<String>,
}

/// The boundary of a content type, if it is that of a form.
pub(super) fn boundary(content_type: &str) -> Option<&str> {
    let (essence, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    if !essence.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let value = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    });
    Some(value.unwrap_or_default())
}

impl FormFile {
    /// Reads the head of the part.
    pub(super) async fn begin(mut body: StreamedBody, boundary: &str) -> Result<Self, Problem> {
        if boundary.is_empty() || boundary.len() > BOUNDARY_CHARS_MAX {
            return Err(invalid("the content type of the form has no valid boundary"));
        }
        let opening = format!("--{boundary}\r\n");
        let mut buffer = Vec::new();
        let end = loop {
            let end = find(&buffer, b"\r\n\r\n");
            if let Some(end) = end.filter(|end| *end <= HEAD_BYTES_MAX) {
                break end;
            }
            if end.is_some() || buffer.len() > HEAD_BYTES_MAX {
                return Err(invalid("the head of the form's part is too long"));
            }
            let read = body.next_part(READ_BYTES).await?;
            buffer.extend(read.ok_or_else(|| invalid("the form has no part with a file"))?);
        };
        let rest = buffer.split_off(end + 4);
        let head = String::from_utf8(buffer).map_err(|_| invalid("the head of the form's part is not UTF-8"))?;
        let head = head.strip_prefix(&opening).ok_or_else(|| invalid("the form does not begin with its boundary"))?;
        let header = |name: &str| {
            head.split("\r\n").find_map(|line| {
                let (found, value) = line.split_once(':')?;
                found.trim().eq_ignore_ascii_case(name).then(|| value.trim())
            })
        };
        let name = header("content-disposition").and_then(file_name);
        let media_type = header("content-type").map(str::to_owned);
        Ok(Self { body, delimiter: format!("\r\n--{boundary}").into_bytes(), buffer: rest, name, media_type })
    }

    /// The next bytes of the file, as many as asked for; the last ones may be fewer. None after the last ones.
    pub(super) async fn next_part(&mut self, size: usize) -> Result<Option<Vec<u8>>, Problem> {
        loop {
            if let Some(end) = find(&self.buffer, &self.delimiter) {
                if end == 0 {
                    self.finish().await?;
                    return Ok(None);
                }
                return Ok(Some(self.take(size.min(end))));
            }
            // The last bytes may be the begin of the mark.
            if self.buffer.len() >= size + self.delimiter.len() {
                return Ok(Some(self.take(size)));
            }
            let read = self.body.next_part(READ_BYTES).await?;
            self.buffer.extend(read.ok_or_else(|| invalid("the form has ended before its boundary"))?);
        }
    }

    /// Reads the form to its end: no other part follows.
    async fn finish(&mut self) -> Result<(), Problem> {
        let (end, mut rest) = (self.delimiter.len(), 0);
        while let Some(read) = self.body.next_part(READ_BYTES).await? {
            rest += read.len();
            if rest > REST_BYTES_MAX {
                return Err(invalid("a form has one part, the file"));
            }
            if self.buffer.len() < end + 2 {
                self.buffer.extend(read);
            }
        }
        match self.buffer.get(end..end + 2) {
            Some(b"--") => Ok(()),
            _ => Err(invalid("a form has one part, the file")),
        }
    }

    fn take(&mut self, size: usize) -> Vec<u8> {
        let rest = self.buffer.split_off(size);
        std::mem::replace(&mut self.buffer, rest)
    }
}

/// The file name of a `Content-Disposition`. Browsers write a quote in it as `%22`.
fn file_name(disposition: &str) -> Option<String> {
    let (_, rest) = disposition.split_once("filename=\"")?;
    let (name, _) = rest.split_once('"')?;
    Some(name.replace("%22", "\""))
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}

fn invalid(detail: &str) -> Problem {
    let hint = "send a form with one part, the file; or send the bytes of the file as the body";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", detail).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_a_boundary_and_its_part_a_name() {
        assert_eq!(boundary("multipart/form-data; boundary=abc"), Some("abc"));
        assert_eq!(boundary("Multipart/Form-Data; charset=utf-8; Boundary=\"a b\""), Some("a b"));
        assert_eq!(boundary("multipart/form-data"), Some(""));
        assert_eq!(boundary("multipart/mixed; boundary=abc"), None);
        assert_eq!(file_name("form-data; name=\"f\"; filename=\"a%22b.txt\""), Some("a\"b.txt".to_owned()));
        assert_eq!(file_name("form-data; name=\"f\""), None);
    }
}
