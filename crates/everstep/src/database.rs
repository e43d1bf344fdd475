//! The database that stores all data.

use std::fmt;

use everstep_store::postgres;

use crate::exit::invalid;
use crate::settings::DatabaseSettings;

#[derive(Clone, Debug)]
pub enum DatabaseConfig {
    /// A file in the data folder.
    Sqlite,
    /// A server that other nodes may also use.
    Postgres { url: DatabaseUrl, options: postgres::Options },
}

impl DatabaseConfig {
    /// The command line overrides the settings file.
    pub(crate) fn new(typed: &DatabaseSettings, file: &DatabaseSettings) -> anyhow::Result<Self> {
        let url = typed.database_url.as_ref().or(file.database_url.as_ref());
        let pooled = typed.database_pooled.or(file.database_pooled);
        let connections = typed.database_connections.or(file.database_connections);
        let Some(url) = url else {
            refuse_alone("database-pooled", pooled.is_some())?;
            refuse_alone("database-connections", connections.is_some())?;
            return Ok(Self::Sqlite);
        };
        let defaults = postgres::Options::default();
        let connections = match connections {
            Some(0 | 1) => return Err(invalid("database-connections must be at least 2")),
            given => given.unwrap_or(defaults.connections),
        };
        let options = postgres::Options { pooled: pooled.unwrap_or(defaults.pooled), connections, ..defaults };
        Ok(Self::Postgres { url: DatabaseUrl::parse(url)?, options })
    }

    /// Whether several nodes may use it.
    pub fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres { .. })
    }

    /// Its name in messages and metrics.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres { .. } => "postgresql",
        }
    }
}

/// Rejects a setting without effect: it needs a database that several nodes share.
pub(crate) fn refuse_alone(name: &str, is_given: bool) -> anyhow::Result<()> {
    if !is_given {
        return Ok(());
    }
    let variable = format!("EVERSTEP_{}", name.replace('-', "_").to_uppercase());
    Err(invalid(format!(
        "--{name} ({variable}) has an effect only with PostgreSQL: set --database-url (EVERSTEP_DATABASE_URL), or \
         remove it"
    )))
}

/// The address of a PostgreSQL database. Its password is never shown.
#[derive(Clone)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let how = "write postgres://user:password@host:port/name, or remove it to use SQLite in the data folder";
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(Self(text.to_owned())),
            // The part before :// is not a secret.
            Some((scheme, _)) if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => Err(invalid(format!(
                "the database URL begins with {scheme}://, which Everstep does not support; {how}"
            ))),
            _ => Err(invalid(format!("the database URL is not valid; {how}"))),
        }
    }

    /// The whole URL, with the password.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// The location of the database: `host:port/name`.
    pub(crate) fn location(&self) -> &str {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        let rest = rest.split_once('?').map_or(rest, |(location, _)| location);
        // A password may contain an @ that is not written as %40.
        rest.rsplit_once('@').map_or(rest, |(_, location)| location)
    }

    /// The hosts, each with its port.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (&str, u16)> {
        let hosts = self.location().split('/').next().unwrap_or_default().split(',');
        hosts.filter(|host| !host.is_empty()).map(|host| match host.rsplit_once(':') {
            Some((name, port)) if !name.ends_with(':') => (name, port.parse().unwrap_or(5432)),
            _ => (host, 5432),
        })
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({})", self.location())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings_for(url: &str) -> DatabaseSettings {
        DatabaseSettings { database_url: Some(url.to_owned()), ..DatabaseSettings::default() }
    }

    fn refused(typed: &DatabaseSettings) -> String {
        DatabaseConfig::new(typed, &DatabaseSettings::default()).unwrap_err().to_string()
    }

    #[test]
    fn the_password_of_a_url_is_never_shown() {
        for url in
            ["postgres://me:secret@db.example:6543/orders?sslmode=require", "postgresql://me:sec@ret@a:1,b/orders"]
        {
            let database = DatabaseConfig::new(&settings_for(url), &DatabaseSettings::default()).unwrap();
            let DatabaseConfig::Postgres { url: read, .. } = &database else { panic!("PostgreSQL was selected") };
            assert_eq!(read.reveal(), url);
            assert!(!format!("{database:?}").contains("sec"), "{database:?}");
            assert!(!read.location().contains("sec"), "{}", read.location());
        }
        let url = DatabaseUrl::parse("postgres://me:x@db.example:6543/orders?sslmode=require").unwrap();
        assert_eq!(url.location(), "db.example:6543/orders");
        assert_eq!(url.hosts().collect::<Vec<_>>(), [("db.example", 6543)]);
        let url = DatabaseUrl::parse("postgres://a:1,b/orders").unwrap();
        assert_eq!(url.hosts().collect::<Vec<_>>(), [("a", 1), ("b", 5432)]);
    }

    #[test]
    fn another_kind_of_database_is_refused_without_telling_the_url() {
        let error = refused(&settings_for("mysql://me:secret@host/db"));
        assert!(error.contains("mysql://") && error.contains("postgres://") && !error.contains("secret"), "{error}");
        for url in ["", "secret", "host=secret user=x", "pass word://secret"] {
            let error = refused(&settings_for(url));
            assert!(error.contains("not valid") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn settings_of_a_server_mean_nothing_without_one() {
        let pooled = DatabaseSettings { database_pooled: Some(true), ..DatabaseSettings::default() };
        assert!(refused(&pooled).contains("EVERSTEP_DATABASE_POOLED"));
        let few = DatabaseSettings { database_connections: Some(1), ..settings_for("postgres://host/db") };
        assert!(refused(&few).contains("at least 2"));
    }
}
