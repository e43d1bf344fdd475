//! Temporary databases, for measurements that each need an empty one.

use std::time::Duration;

use super::connections::Connections;
use super::store::Options;
use super::url::Address;
use crate::error::{Error, Result};

/// The time limit for creating or dropping a database, which may wait for a checkpoint.
const DEFINE_TIMEOUT: Duration = Duration::from_secs(60);

/// Creates an empty database on the server of a URL. Returns the URL of the new database.
pub async fn create_database(url: &str, name: &str) -> Result<String> {
    define(url, &format!("create database {}", quoted(name)?)).await?;
    let (address, query) =
        url.split_once('?').map_or((url, String::new()), |(address, query)| (address, format!("?{query}")));
    let (server, _) = address.rsplit_once('/').expect("a parsed URL names a database");
    Ok(format!("{server}/{name}{query}"))
}

/// Drops a database, and closes all connections to it.
pub async fn drop_database(url: &str, name: &str) -> Result<()> {
    define(url, &format!("drop database if exists {} with (force)", quoted(name)?)).await
}

async fn define(url: &str, sql: &str) -> Result<()> {
    let options = Options { call_timeout: DEFINE_TIMEOUT, ..Options::default() };
    let connections = Connections::new(&Address::parse(url)?, &options, 1)?;
    Ok(connections.get().await?.define(sql).await?)
}

fn quoted(name: &str) -> Result<String> {
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Err(Error::Unusable(format!("{name:?} is not a valid name for a temporary database")));
    }
    Ok(format!("\"{name}\""))
}
