//! Verifies a token (RFC 7519).
//!
//! 1. It has at most 8 KiB.
//! 2. Its header names no critical extension: this server supports none.
//! 3. The key that it names exists, and may be used with its algorithm. The algorithm `none` is rejected.
//! 4. The key verifies its signature.
//! 5. `iss` is the provider, and `aud` contains this server.
//! 6. `exp` is present and has not passed, `nbf` is not in the future; both with a leeway of 30 seconds.

use std::time::Duration;

use everstep_core::time::Timestamp;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Header, Validation, decode, decode_header};
use serde_json::{Map, Value};

use crate::auth::identity::IdentityOptions;
use crate::auth::identity::key_set::KeySet;

/// Bytes of a token.
const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// How far the clocks of the provider and of this server may differ.
const LEEWAY: Duration = Duration::from_secs(30);

/// The rule that a token breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenFault {
    TooLong,
    Malformed,
    Critical,
    Algorithm,
    UnknownKey,
    Signature,
    Issuer,
    Audience,
    Workspace,
    Expired,
    NotYetValid,
    Claims,
}

impl TokenFault {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 12] = [
        Self::TooLong,
        Self::Malformed,
        Self::Critical,
        Self::Algorithm,
        Self::UnknownKey,
        Self::Signature,
        Self::Issuer,
        Self::Audience,
        Self::Workspace,
        Self::Expired,
        Self::NotYetValid,
        Self::Claims,
    ];

    /// A word for metrics and logs.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::Critical => "critical_header",
            Self::Algorithm => "algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Workspace => "workspace",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Claims => "claims",
        }
    }

    /// A sentence for the caller, which contains no part of the token.
    pub(crate) fn detail(self) -> &'static str {
        match self {
            Self::TooLong => "the token has more than 8 KiB",
            Self::Malformed => "the credential is neither an API key nor a JSON Web Token",
            Self::Critical => "the token has a critical header that this server does not support",
            Self::Algorithm => "the token is signed with an algorithm that is not accepted for its key",
            Self::UnknownKey => "the token is signed with a key that the identity provider does not have",
            Self::Signature => "the signature of the token is wrong",
            Self::Issuer => "the token was issued by another identity provider",
            Self::Audience => "the token is for another audience",
            Self::Workspace => "the token names no workspace of this server",
            Self::Expired => "the token has expired",
            Self::NotYetValid => "the token is not valid yet",
            Self::Claims => "the token lacks a claim, or a claim has another type",
        }
    }
}

/// A token whose signature and claims were verified.
pub(crate) struct VerifiedToken {
    pub(crate) claims: Map<String, Value>,
    pub(crate) expires_at: Timestamp,
}

/// Whether a text has the form of a token rather than that of a key: three parts with dots between them.
pub(crate) fn is_token(text: &str) -> bool {
    text.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// The header of a token, as far as it can be read without a key.
pub(crate) fn read_header(token: &str) -> Result<Header, TokenFault> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenFault::TooLong);
    }
    let header = decode_header(token).map_err(|error| match error.kind() {
        // An algorithm that the library does not support, such as none.
        ErrorKind::Json(error) if error.to_string().contains("unknown variant") => TokenFault::Algorithm,
        _ => TokenFault::Malformed,
    })?;
    if header.crit.is_some() || header.extras.inner().contains_key("crit") {
        return Err(TokenFault::Critical);
    }
    Ok(header)
}

/// Verifies a token with the keys of its provider.
pub(crate) fn verify(
    token: &str,
    header: &Header,
    keys: &KeySet,
    options: &IdentityOptions,
    now: Timestamp,
) -> Result<VerifiedToken, TokenFault> {
    let kid = header.kid.as_deref();
    if !keys.has(kid) {
        return Err(TokenFault::UnknownKey);
    }
    let key = keys.find(kid, header.alg).ok_or(TokenFault::Algorithm)?;
    let mut validation = Validation::new(header.alg);
    validation.set_issuer(&[&options.issuer]);
    validation.set_audience(&options.audience);
    validation.set_required_spec_claims(&["iss", "aud", "exp"]);
    // The times are compared with the clock of this node below: the library would use the machine's clock.
    validation.validate_exp = false;
    validation.validate_nbf = false;
    let claims =
        decode::<Map<String, Value>>(token, &key.key, &validation).map_err(|error| fault(error.kind()))?.claims;
    // A list of issuers would be accepted by the library.
    if claims.get("iss").and_then(Value::as_str) != Some(&options.issuer) {
        return Err(TokenFault::Issuer);
    }
    let expires_at = read_time(claims.get("exp"))?.ok_or(TokenFault::Claims)?;
    check_time(expires_at, now)?;
    if read_time(claims.get("nbf"))?.is_some_and(|begin| begin > now.plus(LEEWAY)) {
        return Err(TokenFault::NotYetValid);
    }
    Ok(VerifiedToken { claims, expires_at })
}

/// Rejects a token that has expired.
pub(crate) fn check_time(expires_at: Timestamp, now: Timestamp) -> Result<(), TokenFault> {
    if expires_at.plus(LEEWAY) <= now { Err(TokenFault::Expired) } else { Ok(()) }
}

fn fault(kind: &ErrorKind) -> TokenFault {
    match kind {
        ErrorKind::InvalidSignature => TokenFault::Signature,
        ErrorKind::InvalidIssuer => TokenFault::Issuer,
        ErrorKind::InvalidAudience => TokenFault::Audience,
        ErrorKind::InvalidAlgorithm => TokenFault::Algorithm,
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => TokenFault::Claims,
        _ => TokenFault::Malformed,
    }
}

/// A time in seconds since 1970, with or without a fraction.
fn read_time(claim: Option<&Value>) -> Result<Option<Timestamp>, TokenFault> {
    /// The year 9999, beyond which no token is issued.
    const SECONDS_MAX: f64 = 253_402_300_800.0;
    match claim {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(seconds) if (0.0..SECONDS_MAX).contains(&seconds) => {
                Ok(Some(Timestamp::from_micros((seconds * 1_000_000.0) as i64)))
            }
            _ => Err(TokenFault::Claims),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_word_of_its_own() {
        for (index, fault) in TokenFault::ALL.iter().enumerate() {
            assert!(!fault.detail().is_empty());
            assert!(TokenFault::ALL[..index].iter().all(|other| other.reason() != fault.reason()));
        }
    }

    #[test]
    fn a_time_is_a_number_of_seconds() {
        use serde_json::json;
        assert_eq!(read_time(None), Ok(None));
        assert_eq!(read_time(Some(&json!(1.5))), Ok(Some(Timestamp::from_millis(1_500))));
        for wrong in [json!(null), json!("5"), json!(-1), json!(1e300), json!([1])] {
            assert_eq!(read_time(Some(&wrong)), Err(TokenFault::Claims), "{wrong}");
        }
    }
}
