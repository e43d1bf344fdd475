//! Follows redirects: each is a new request, without parts that must not be sent to another origin.

use reqwest::header::{self, HeaderMap, HeaderName};
use reqwest::{Method, StatusCode};

use crate::client::Request;
use crate::error::Error;

/// Redirects that a request follows by default.
pub const REDIRECTS_MAX: u32 = 10;

/// The target of a redirect, if the response is one.
pub(crate) fn target(response: &reqwest::Response) -> Option<String> {
    let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = response.headers().get(header::LOCATION).filter(|_| is_redirect)?;
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// Changes a request to the target of a redirect.
///
/// 1. A 303, and a 301 or 302 after a POST, is followed with GET and without a body.
/// 2. Credentials are not sent to another origin: no sensitive header, no body that contains a secret.
/// 3. A request with a credential is not redirected from https to http.
pub(crate) fn follow(request: &mut Request, status: StatusCode, target: &str) -> Result<(), Error> {
    let url = request.url.join(target);
    let url = url.map_err(|error| Error::Redirect(format!("the target of a redirect is not an address: {error}")))?;
    let keeps_body = !becomes_get(status, &request.method);
    if !keeps_body {
        request.method = if request.method == Method::HEAD { Method::HEAD } else { Method::GET };
        request.body = Vec::new();
        request.has_secret_body = false;
        for name in [
            header::CONTENT_TYPE,
            header::CONTENT_LENGTH,
            header::CONTENT_ENCODING,
            header::CONTENT_LANGUAGE,
            header::TRANSFER_ENCODING,
        ] {
            request.headers.remove(name);
        }
    }
    let has_credentials = request.has_secret_body || credentials(&request.headers).next().is_some();
    if has_credentials && request.url.scheme() == "https" && url.scheme() == "http" {
        return Err(Error::Redirect("a redirect from https to http would send the credentials unencrypted".to_owned()));
    }
    if request.url.origin() != url.origin() {
        if request.has_secret_body {
            return Err(Error::Redirect(
                "a redirect leads to another origin, and the body contains a secret".to_owned(),
            ));
        }
        let names: Vec<HeaderName> = credentials(&request.headers).cloned().collect();
        for name in names {
            request.headers.remove(name);
        }
    }
    request.url = url;
    Ok(())
}

fn becomes_get(status: StatusCode, method: &Method) -> bool {
    match status.as_u16() {
        303 => true,
        301 | 302 => *method == Method::POST,
        _ => false,
    }
}

/// The headers that contain credentials.
fn credentials(headers: &HeaderMap) -> impl Iterator<Item = &HeaderName> {
    let is_known = |name: &HeaderName| {
        [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION, header::WWW_AUTHENTICATE].contains(name)
    };
    headers.iter().filter(move |(name, value)| value.is_sensitive() || is_known(name)).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use reqwest::Url;
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn credentials_never_go_from_https_to_http() {
        let request = || Request::new(Method::GET, Url::parse("https://example.com/").expect("a URL"));
        let mut plain = request();
        assert!(follow(&mut plain, StatusCode::FOUND, "http://example.com/").is_ok());
        let mut secret = request();
        secret.headers.insert("authorization", HeaderValue::from_static("Bearer x"));
        let error = follow(&mut secret, StatusCode::FOUND, "http://example.com/")
            .expect_err("the redirect would send credentials to another origin");
        assert!(error.to_string().contains("from https to http"), "{error}");
        assert!(follow(&mut secret, StatusCode::FOUND, "https://example.com/other").is_ok());
        assert!(secret.headers.contains_key("authorization"));
    }
}
