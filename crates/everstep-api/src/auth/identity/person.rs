//! The holder of a verified token.

use std::collections::BTreeSet;

use everstep_core::actor::Actor;
use everstep_core::limits;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::auth::identity::token::TokenFault;
use crate::auth::identity::{ClaimNames, RoleMap};

/// Characters of a name or an address.
const NAME_CHARS_MAX: usize = 256;

/// A person, as an identity provider describes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Person {
    pub(crate) issuer: String,
    /// Unique among the people of the issuer.
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
    pub(crate) roles: Vec<String>,
    /// The permissions of the token and of the roles, in the words of the provider or of this server.
    pub(crate) words: BTreeSet<String>,
}

impl Person {
    pub(crate) fn from_claims(
        issuer: &str,
        claims: &Map<String, Value>,
        names: &ClaimNames,
        roles: &RoleMap,
    ) -> Result<Self, TokenFault> {
        let id = find(claims, &names.user).and_then(Value::as_str).ok_or(TokenFault::Claims)?;
        // The name of every person can be written in definitions and assignments.
        let length = Actor::person(id).name().chars().count();
        if id.trim().is_empty() || length > limits::PERSON_CHARS || id.chars().any(char::is_control) {
            return Err(TokenFault::Claims);
        }
        let text = |name: &str| find(claims, name).and_then(Value::as_str).map(shorten);
        let own_roles = list(find(claims, &names.roles))?;
        let words = roles.words(&own_roles, list(find(claims, &names.permissions))?);
        let (name, email) = (text(&names.name), text(&names.email));
        Ok(Self { issuer: issuer.to_owned(), id: id.to_owned(), name, email, roles: own_roles, words })
    }

    /// The person as the audit names them: the issuer, and the id.
    pub(crate) fn full_id(&self) -> String {
        format!("{}/{}", self.issuer, self.id)
    }

    /// An id under which requests and streams of the person are counted.
    pub(crate) fn number(&self) -> Uuid {
        let mut hash = Sha256::new();
        hash.update(b"everstep person\0");
        hash.update(self.issuer.as_bytes());
        hash.update([0]);
        hash.update(self.id.as_bytes());
        let hash: [u8; 32] = hash.finalize().into();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        Uuid::from_bytes(bytes)
    }
}

/// A claim by its name. If no claim has the name, it is a path with dots into objects, such as `realm_access.roles`.
pub(crate) fn find<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let (first, rest) = name.split_once('.')?;
    rest.split('.').try_fold(claims.get(first)?, |value, name| value.get(name))
}

/// A list of words: an array of strings, or one string with spaces between the words, such as `scope`.
fn list(claim: Option<&Value>) -> Result<Vec<String>, TokenFault> {
    match claim {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(text.split_whitespace().map(str::to_owned).collect()),
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or(TokenFault::Claims)).collect()
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => Err(TokenFault::Claims),
    }
}

fn shorten(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(NAME_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(claims: &Value, names: &ClaimNames) -> Result<Person, TokenFault> {
        Person::from_claims("https://issuer", claims.as_object().unwrap(), names, &RoleMap::default())
    }

    #[test]
    fn a_person_is_read_from_the_claims_that_are_named() {
        let claims = json!({"sub": "ann", "name": "Ann\nMiller", "email": "ann@example.org", "roles": ["Superadmin"], "permissions": "workflow:view workflow:act"});
        let person = read(&claims, &ClaimNames::default()).unwrap();
        assert_eq!((person.name.as_deref(), person.email.as_deref()), (Some("AnnMiller"), Some("ann@example.org")));
        assert_eq!(person.roles, ["Superadmin"]);
        assert_eq!(person.words.len(), 3);
        assert_eq!(person.full_id(), "https://issuer/ann");
        let names = ClaimNames {
            user: "uid".into(),
            roles: "realm_access.roles".into(),
            permissions: "https://x.y/p".into(),
            ..ClaimNames::default()
        };
        let claims = json!({"uid": "u1", "realm_access": {"roles": ["a", "b"]}, "https://x.y/p": ["w"]});
        let person = read(&claims, &names).unwrap();
        assert_eq!((person.id.as_str(), person.roles.len(), person.words.len()), ("u1", 2, 1));
    }

    #[test]
    fn claims_of_another_type_are_refused() {
        let long = "x".repeat(256);
        assert_eq!(read(&json!({"sub": long[1..]}), &ClaimNames::default()).unwrap().id.len(), 255);
        for claims in [
            json!({}),
            json!({"sub": 5}),
            json!({"sub": ""}),
            json!({"sub": " "}),
            json!({"sub": "a\nb"}),
            json!({"sub": long}),
            json!({"sub": format!("key:{}", &long[8..])}),
            json!({"sub": "a", "roles": 5}),
            json!({"sub": "a", "roles": [5]}),
            json!({"sub": "a", "permissions": {"x": 1}}),
        ] {
            assert_eq!(read(&claims, &ClaimNames::default()), Err(TokenFault::Claims), "{claims}");
        }
    }

    #[test]
    fn people_of_two_issuers_are_two_people() {
        let person = |issuer: &str, id: &str| {
            let claims = json!({"sub": id});
            Person::from_claims(issuer, claims.as_object().unwrap(), &ClaimNames::default(), &RoleMap::default())
                .unwrap()
        };
        assert_eq!(person("a", "b").number(), person("a", "b").number());
        assert_ne!(person("a", "b").number(), person("a", "c").number());
        assert_ne!(person("a", "b").number(), person("c", "b").number());
    }
}
