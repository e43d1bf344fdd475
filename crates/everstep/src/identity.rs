//! The settings of the identity provider.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use everstep_api::auth::Permission;
use everstep_api::auth::identity::{ClaimNames, IdentityOptions, JwtAlgorithm, KeySource, RoleMap, WorkspaceSource};
use serde::Deserialize;

use crate::exit::invalid;

/// `[identity]` in the settings file.
#[derive(Clone, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentitySettings {
    /// The `iss` of the tokens of people. If it is set, the server accepts tokens, and also needs an audience, keys and
    /// a workspace.
    #[arg(
        long,
        env = "EVERSTEP_JWT_ISSUER",
        hide_env_values = true,
        value_name = "ISSUER",
        help_heading = "Identity options"
    )]
    pub(crate) jwt_issuer: Option<String>,

    /// The `aud` of tokens for this server. Several audiences are separated by commas; a token must have at least one
    /// of them.
    #[arg(
        long,
        env = "EVERSTEP_JWT_AUDIENCE",
        hide_env_values = true,
        value_name = "AUDIENCE",
        help_heading = "Identity options"
    )]
    pub(crate) jwt_audience: Option<String>,

    /// The secret with which the identity provider signs tokens (HS256, HS384, HS512); at least 32 bytes; set it in the
    /// environment rather than in the file.
    #[arg(
        long,
        env = "EVERSTEP_JWT_SECRET",
        hide_env_values = true,
        value_name = "SECRET",
        help_heading = "Identity options"
    )]
    pub(crate) jwt_secret: Option<String>,

    /// The URL of the identity provider's keys, a JSON Web Key Set. A private address must be allowed with
    /// --allow-addresses.
    #[arg(
        long,
        env = "EVERSTEP_JWT_JWKS_URL",
        hide_env_values = true,
        value_name = "URL",
        help_heading = "Identity options"
    )]
    pub(crate) jwt_jwks_url: Option<String>,

    /// A file with the keys of the identity provider, as a JSON Web Key Set. It is read again every five minutes.
    #[arg(
        long,
        env = "EVERSTEP_JWT_JWKS_FILE",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "Identity options"
    )]
    pub(crate) jwt_jwks_file: Option<PathBuf>,

    /// The algorithms that are accepted, separated by commas: with a secret HS256, HS384, HS512, otherwise RS256, RS384,
    /// RS512, PS256, PS384, PS512, ES256, ES384, EdDSA [default: all that the keys support].
    #[arg(
        long,
        env = "EVERSTEP_JWT_ALGORITHMS",
        hide_env_values = true,
        value_name = "NAMES",
        help_heading = "Identity options"
    )]
    pub(crate) jwt_algorithms: Option<String>,

    /// The name of the workspace to which all people belong.
    #[arg(
        long,
        env = "EVERSTEP_JWT_WORKSPACE",
        hide_env_values = true,
        value_name = "NAME",
        help_heading = "Identity options"
    )]
    pub(crate) jwt_workspace: Option<String>,

    /// The claim that names the workspace of a person, in place of --jwt-workspace.
    #[arg(
        long,
        env = "EVERSTEP_JWT_WORKSPACE_CLAIM",
        hide_env_values = true,
        value_name = "CLAIM",
        help_heading = "Identity options"
    )]
    pub(crate) jwt_workspace_claim: Option<String>,

    /// The claim with the id of a person [default: sub].
    #[arg(
        long,
        env = "EVERSTEP_JWT_USER_CLAIM",
        hide_env_values = true,
        value_name = "CLAIM",
        help_heading = "Identity options"
    )]
    pub(crate) jwt_user_claim: Option<String>,

    /// The claim with the name of a person [default: name].
    #[arg(
        long,
        env = "EVERSTEP_JWT_NAME_CLAIM",
        hide_env_values = true,
        value_name = "CLAIM",
        help_heading = "Identity options"
    )]
    pub(crate) jwt_name_claim: Option<String>,

    /// The claim with the email address of a person [default: email].
    #[arg(
        long,
        env = "EVERSTEP_JWT_EMAIL_CLAIM",
        hide_env_values = true,
        value_name = "CLAIM",
        help_heading = "Identity options"
    )]
    pub(crate) jwt_email_claim: Option<String>,

    /// The claim with the roles of a person; a path with dots reads a nested claim: realm_access.roles [default: roles].
    #[arg(
        long,
        env = "EVERSTEP_JWT_ROLES_CLAIM",
        hide_env_values = true,
        value_name = "CLAIM",
        help_heading = "Identity options"
    )]
    pub(crate) jwt_roles_claim: Option<String>,

    /// The claim with the permissions of a person [default: permissions].
    #[arg(
        long,
        env = "EVERSTEP_JWT_PERMISSIONS_CLAIM",
        hide_env_values = true,
        value_name = "CLAIM",
        help_heading = "Identity options"
    )]
    pub(crate) jwt_permissions_claim: Option<String>,
}

impl fmt::Debug for IdentitySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdentitySettings(…)")
    }
}

impl IdentitySettings {
    /// Flags and variables override the file.
    pub(crate) fn or(self, file: Self) -> Self {
        Self {
            jwt_issuer: self.jwt_issuer.or(file.jwt_issuer),
            jwt_audience: self.jwt_audience.or(file.jwt_audience),
            jwt_secret: self.jwt_secret.or(file.jwt_secret),
            jwt_jwks_url: self.jwt_jwks_url.or(file.jwt_jwks_url),
            jwt_jwks_file: self.jwt_jwks_file.or(file.jwt_jwks_file),
            jwt_algorithms: self.jwt_algorithms.or(file.jwt_algorithms),
            jwt_workspace: self.jwt_workspace.or(file.jwt_workspace),
            jwt_workspace_claim: self.jwt_workspace_claim.or(file.jwt_workspace_claim),
            jwt_user_claim: self.jwt_user_claim.or(file.jwt_user_claim),
            jwt_name_claim: self.jwt_name_claim.or(file.jwt_name_claim),
            jwt_email_claim: self.jwt_email_claim.or(file.jwt_email_claim),
            jwt_roles_claim: self.jwt_roles_claim.or(file.jwt_roles_claim),
            jwt_permissions_claim: self.jwt_permissions_claim.or(file.jwt_permissions_claim),
        }
    }

    /// The first setting that is given, by its name.
    fn given(&self) -> Option<&'static str> {
        let given = [
            ("jwt-audience", self.jwt_audience.is_some()),
            ("jwt-secret", self.jwt_secret.is_some()),
            ("jwt-jwks-url", self.jwt_jwks_url.is_some()),
            ("jwt-jwks-file", self.jwt_jwks_file.is_some()),
            ("jwt-algorithms", self.jwt_algorithms.is_some()),
            ("jwt-workspace", self.jwt_workspace.is_some()),
            ("jwt-workspace-claim", self.jwt_workspace_claim.is_some()),
            ("jwt-user-claim", self.jwt_user_claim.is_some()),
            ("jwt-name-claim", self.jwt_name_claim.is_some()),
            ("jwt-email-claim", self.jwt_email_claim.is_some()),
            ("jwt-roles-claim", self.jwt_roles_claim.is_some()),
            ("jwt-permissions-claim", self.jwt_permissions_claim.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// The identity provider, if the server has one. Settings that contradict each other are errors.
    pub(crate) fn options(
        self,
        roles: BTreeMap<String, String>,
        permissions: &BTreeMap<String, String>,
    ) -> anyhow::Result<Option<IdentityOptions>> {
        let permissions = permissions.iter().map(|(word, permission)| {
            let permission = permission.parse::<Permission>();
            Ok((word.clone(), permission.map_err(|error| invalid(format!("[permissions] {word}: {error}")))?))
        });
        let permissions: BTreeMap<_, _> = permissions.collect::<anyhow::Result<_>>()?;
        let Some(issuer) = self.jwt_issuer.clone() else {
            let table = if roles.is_empty() { "[permissions]" } else { "[roles]" };
            let has_map = !roles.is_empty() || !permissions.is_empty();
            return match self.given().or(has_map.then_some(table)) {
                Some(name) => Err(invalid(format!("{name} needs jwt-issuer, which names the identity provider"))),
                None => Ok(None),
            };
        };
        let keys = match (self.jwt_secret, self.jwt_jwks_url, self.jwt_jwks_file) {
            (Some(secret), None, None) => KeySource::from_secret(secret),
            (None, Some(url), None) => {
                KeySource::Url(url.parse().map_err(|error| invalid(format!("jwt-jwks-url: {error}")))?)
            }
            (None, None, Some(path)) => KeySource::File(path),
            _ => return Err(invalid("set exactly one of jwt-secret, jwt-jwks-url and jwt-jwks-file")),
        };
        let workspace = match (self.jwt_workspace, self.jwt_workspace_claim) {
            (Some(name), None) => WorkspaceSource::Name(name),
            (None, Some(claim)) => WorkspaceSource::Claim(claim),
            _ => return Err(invalid("set exactly one of jwt-workspace and jwt-workspace-claim")),
        };
        let algorithms = list(self.jwt_algorithms.as_deref()).map(|name| {
            let algorithm = name.parse::<JwtAlgorithm>();
            algorithm.map_err(|_| {
                invalid(format!(
                    "jwt-algorithms: {name:?} is not a supported algorithm; write for example RS256 or EdDSA"
                ))
            })
        });
        let defaults = ClaimNames::default();
        let options = IdentityOptions {
            issuer,
            audience: list(self.jwt_audience.as_deref()).map(str::to_owned).collect(),
            keys,
            algorithms: algorithms.collect::<anyhow::Result<_>>()?,
            workspace,
            claims: ClaimNames {
                user: self.jwt_user_claim.unwrap_or(defaults.user),
                name: self.jwt_name_claim.unwrap_or(defaults.name),
                email: self.jwt_email_claim.unwrap_or(defaults.email),
                roles: self.jwt_roles_claim.unwrap_or(defaults.roles),
                permissions: self.jwt_permissions_claim.unwrap_or(defaults.permissions),
            },
            roles: RoleMap::default().with(roles, permissions),
        };
        options.check().map_err(invalid)?;
        Ok(Some(options))
    }
}

/// The parts of a text that is separated by commas.
fn list(text: Option<&str>) -> impl Iterator<Item = &str> {
    text.unwrap_or_default().split(',').map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> IdentitySettings {
        IdentitySettings {
            jwt_issuer: Some("https://issuer.example".into()),
            jwt_audience: Some("everstep, other".into()),
            jwt_jwks_url: Some("https://issuer.example/jwks".into()),
            jwt_workspace: Some("default".into()),
            ..IdentitySettings::default()
        }
    }

    fn error(settings: IdentitySettings) -> String {
        settings.options(BTreeMap::new(), &BTreeMap::new()).unwrap_err().to_string()
    }

    #[test]
    fn settings_make_an_identity_provider() {
        let none = IdentitySettings::default().options(BTreeMap::new(), &BTreeMap::new()).unwrap();
        assert!(none.is_none());
        let options = settings().options(BTreeMap::new(), &BTreeMap::new()).unwrap().unwrap();
        assert_eq!(options.audience, ["everstep", "other"]);
        assert_eq!(options.claims.user, "sub");
        let permissions = BTreeMap::from([("contract.view".to_owned(), "workflow:view".to_owned())]);
        assert!(settings().options(BTreeMap::new(), &permissions).is_ok());
        assert!(!format!("{:?}", settings()).contains("issuer"));
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let alone = IdentitySettings { jwt_audience: Some("x".into()), ..IdentitySettings::default() };
        assert!(error(alone).contains("jwt-audience needs jwt-issuer"));
        let two = IdentitySettings { jwt_secret: Some("s".repeat(32)), ..settings() };
        assert!(error(two).contains("one of jwt-secret"));
        assert!(error(IdentitySettings { jwt_jwks_url: None, ..settings() }).contains("one of jwt-secret"));
        assert!(error(IdentitySettings { jwt_workspace: None, ..settings() }).contains("one of jwt-workspace"));
        assert!(error(IdentitySettings { jwt_audience: None, ..settings() }).contains("audience"));
        let unknown = IdentitySettings { jwt_algorithms: Some("RS256,none".into()), ..settings() };
        assert!(error(unknown).contains("none"));
        let confused = IdentitySettings { jwt_algorithms: Some("HS256".into()), ..settings() };
        assert!(error(confused).contains("HS256"));
        let short = IdentitySettings { jwt_jwks_url: None, jwt_secret: Some("short".into()), ..settings() };
        assert!(error(short).contains("32"));
        let roles = BTreeMap::from([("Clerk".to_owned(), "workflow:act".to_owned())]);
        let alone = IdentitySettings::default().options(roles, &BTreeMap::new()).unwrap_err().to_string();
        assert!(alone.contains("[roles] needs jwt-issuer"), "{alone}");
        let wrong = BTreeMap::from([("x".to_owned(), "workflow:everything".to_owned())]);
        assert!(settings().options(BTreeMap::new(), &wrong).unwrap_err().to_string().contains("workflow:everything"));
    }
}
