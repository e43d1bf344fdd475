//! The address at which other nodes reach a node.

use std::net::SocketAddr;

use axum::http::Uri;

/// Checks the URL that a node announces to the others: `http://host:port`, and nothing more.
pub fn check_address(text: &str) -> Result<String, String> {
    let wrong = |why: &str| Err(format!("{text:?} is not a valid address of a node: {why}; write http://HOST:PORT"));
    let Ok(uri) = text.trim().parse::<Uri>() else { return wrong("it is not a URL") };
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return wrong("nodes use plain http between each other, with signed requests"),
        _ => return wrong("it does not begin with http://"),
    }
    let Some(authority) = uri.authority() else { return wrong("it names no host") };
    if authority.as_str().contains('@') {
        return wrong("it contains a user name or a password");
    }
    if authority.port_u16().is_none_or(|port| port == 0) {
        return wrong("it names no port");
    }
    if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
        return wrong("it has a path or a query");
    }
    let is_unspecified = authority.as_str().parse::<SocketAddr>().is_ok_and(|address| address.ip().is_unspecified());
    if is_unspecified {
        return wrong("it is a wildcard address, at which no node can be reached");
    }
    Ok(format!("http://{authority}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        assert_eq!(check_address("http://10.0.0.7:7374").unwrap(), "http://10.0.0.7:7374");
        assert_eq!(check_address("http://node-1.internal:7374/").unwrap(), "http://node-1.internal:7374");
        assert_eq!(check_address("http://[::1]:7374").unwrap(), "http://[::1]:7374");
    }

    #[test]
    fn anything_else_is_refused() {
        for (text, why) in [
            ("https://host:1", "plain http"),
            ("host:7374", "http://"),
            ("http://host", "no port"),
            ("http://host:0", "no port"),
            ("http://me:secret@host:1", "password"),
            ("http://host:1/path", "path"),
            ("http://host:1/?x=1", "path"),
            ("http://0.0.0.0:1", "wildcard address"),
            ("http://[::]:1", "wildcard address"),
            ("", "not a valid address"),
        ] {
            let error = check_address(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
