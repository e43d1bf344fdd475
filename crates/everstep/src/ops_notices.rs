//! Notices of dead letters to the operators of the server: a POST to an address of their choice.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use everstep_engine::{Notice, Notices};
use everstep_net::header::{CONTENT_TYPE, HeaderValue};
use everstep_net::{Client, Guard, Method, Request, Url};

/// The time limit of one attempt.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The response is not used.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// The address of operators. Its path or query may contain a secret, so it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct OpsUrl(Url);

impl FromStr for OpsUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url: Url = text.parse().map_err(|error| format!("is not a URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("must begin with http:// or https://".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("must not contain a user and a password; use a token in the path or the query".to_owned());
        }
        Ok(Self(url))
    }
}

impl fmt::Debug for OpsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpsUrl(…)")
    }
}

/// Sends notices to one address.
pub(crate) struct OpsNotices {
    url: OpsUrl,
    client: Client,
}

impl OpsNotices {
    /// The operator of the server chooses the address, so it may be a private one.
    pub(crate) fn new(url: OpsUrl) -> Self {
        Self { url, client: Client::new(Guard::open()) }
    }
}

#[async_trait]
impl Notices for OpsNotices {
    async fn send(&self, notice: &Notice) -> Result<(), String> {
        let mut request = Request::new(Method::POST, self.url.0.clone());
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body = serde_json::to_vec(notice).expect("a notice is plain data");
        request.timeout = TIMEOUT;
        request.redirects = 0;
        request.max_bytes = RESPONSE_BYTES_MAX;
        // Bodies of no status are read.
        request.read = vec![0..=0];
        let response = self.client.send(request).await.map_err(|error| error.to_string())?;
        match response.status {
            status if status.is_success() => Ok(()),
            status => Err(format!("the URL for notices responded with status {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_used_is_refused_without_showing_it() {
        for text in ["canary", "ftp://canary/", "https://ann:canary@ops.example.com/"] {
            let refusal = text.parse::<OpsUrl>().unwrap_err();
            assert!(!refusal.contains("canary"), "{refusal}");
        }
        let url: OpsUrl = "https://ops.example.com/hook?token=canary".parse().unwrap();
        assert_eq!(format!("{url:?}"), "OpsUrl(…)");
    }
}
