//! Databases that are made to be dropped again: a measurement wants an empty one each time.

use std::time::Duration;

use super::connections::Connections;
use super::store::Options;
use super::url::Address;
use crate::error::{Error, Result};

/// A checkpoint may have to be waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes an empty database on the server that a URL names. Returns the new database's URL.
pub async fn create_database(url: &str, name: &str) -> Result<String> {
    define(url, &format!("create database {}", quoted(name)?)).await?;
    let (place, query) =
        url.split_once('?').map_or((url, String::new()), |(place, query)| (place, format!("?{query}")));
    let (server, _) = place.rsplit_once('/').expect("a URL that was read names a database");
    Ok(format!("{server}/{name}{query}"))
}

/// Drops a database, whoever is connected to it.
pub async fn drop_database(url: &str, name: &str) -> Result<()> {
    define(url, &format!("drop database if exists {} with (force)", quoted(name)?)).await
}

async fn define(url: &str, sql: &str) -> Result<()> {
    let options = Options { call_timeout: PATIENCE, ..Options::default() };
    let connections = Connections::new(&Address::parse(url)?, &options, 1)?;
    Ok(connections.get().await?.define(sql).await?)
}

fn quoted(name: &str) -> Result<String> {
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(Error::Unusable(format!("{name:?} cannot be the name of a database that is made here")));
    }
    Ok(format!("\"{name}\""))
}
