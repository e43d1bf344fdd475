//! The address at which this node listens for other nodes, and the address that it announces to them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use anyhow::{Context, anyhow};
use everstep_api::cluster::{ClusterKey, check_address};
use tokio::net::TcpListener;

use crate::database::{DatabaseUrl, refuse_alone};
use crate::exit::invalid;
use crate::settings::ClusterSettings;

#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) listen: SocketAddr,
    /// The address at which other nodes reach this one; determined automatically if it is not set.
    pub(crate) advertise: Option<String>,
    /// If it is not set, the database stores a generated one.
    pub(crate) key: Option<ClusterKey>,
}

impl Cluster {
    /// The command line overrides the settings file. By default a node listens on the host of its server, on a free
    /// port.
    pub(crate) fn new(
        typed: &ClusterSettings,
        file: &ClusterSettings,
        server: SocketAddr,
        is_shared: bool,
    ) -> anyhow::Result<Self> {
        let listen = typed.cluster_listen.or(file.cluster_listen);
        let advertise = typed.advertise_url.as_ref().or(file.advertise_url.as_ref());
        let key = typed.cluster_key.as_ref().or(file.cluster_key.as_ref());
        if !is_shared {
            refuse_alone("cluster-listen", listen.is_some())?;
            refuse_alone("advertise-url", advertise.is_some())?;
            refuse_alone("cluster-key", key.is_some())?;
        }
        Ok(Self {
            listen: listen.unwrap_or_else(|| (server.ip(), 0).into()),
            advertise: advertise.map(|text| check_address(text)).transpose().map_err(invalid)?,
            key: key.map(|text| ClusterKey::new(text)).transpose().map_err(invalid)?,
        })
    }

    /// Listens, and returns the address at which other nodes reach this one.
    pub(crate) fn bind(&self, database: &DatabaseUrl) -> anyhow::Result<(TcpListener, String)> {
        let listener = everstep_api::bind(self.listen).map_err(|error| {
            anyhow!(
                "cannot listen for other nodes on {}: {error}; choose another address with --cluster-listen",
                self.listen
            )
        })?;
        let address = listener.local_addr().context("reading the address")?;
        let advertised = match &self.advertise {
            Some(address) => address.clone(),
            None => format!("http://{}", SocketAddr::new(reachable(address.ip(), database), address.port())),
        };
        if self.advertise.is_none() && address.ip().is_loopback() && !is_near(database) {
            tracing::warn!(
                address = advertised,
                "nodes on other machines cannot reach this one; set an address that they can reach with \
                 --cluster-listen"
            );
        }
        Ok((listener, advertised))
    }
}

/// Whether the database is on this machine.
fn is_near(database: &DatabaseUrl) -> bool {
    database.hosts().all(|(host, port)| route(host, port).is_none_or(|address| address.is_loopback()))
}

/// The address to announce to other nodes. A wildcard address is replaced by the address from which this machine
/// reaches the database, which all nodes reach, or else by the address of its default route.
fn reachable(listening: IpAddr, database: &DatabaseUrl) -> IpAddr {
    if !listening.is_unspecified() {
        return listening;
    }
    let near = database.hosts().filter_map(|(host, port)| route(host, port)).find(|address| !address.is_loopback());
    // A documentation address: nothing is sent there.
    near.or_else(|| route("192.0.2.1", 9)).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// The local address of the route to a host. Only the system is queried; nothing is sent.
fn route(host: &str, port: u16) -> Option<IpAddr> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let addresses = std::net::ToSocketAddrs::to_socket_addrs(&(host, port)).ok()?;
    addresses.into_iter().find_map(|address| {
        let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(address).ok()?;
        socket.local_addr().ok().map(|address| address.ip())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7373);

    fn refused(typed: &ClusterSettings, is_shared: bool) -> String {
        Cluster::new(typed, &ClusterSettings::default(), HERE, is_shared).unwrap_err().to_string()
    }

    #[test]
    fn a_node_listens_where_its_server_does() {
        let cluster = Cluster::new(&ClusterSettings::default(), &ClusterSettings::default(), HERE, true).unwrap();
        assert_eq!(cluster.listen, "127.0.0.1:0".parse().unwrap());
        assert!(cluster.advertise.is_none() && cluster.key.is_none());
    }

    #[test]
    fn settings_of_a_cluster_are_checked() {
        let short = ClusterSettings { cluster_key: Some("short".to_owned()), ..ClusterSettings::default() };
        assert!(refused(&short, true).contains("at least 32"));
        assert!(refused(&short, false).contains("EVERSTEP_CLUSTER_KEY"));
        let secure = ClusterSettings { advertise_url: Some("https://host:1".to_owned()), ..ClusterSettings::default() };
        assert!(refused(&secure, true).contains("plain http"));
        assert!(refused(&secure, false).contains("EVERSTEP_ADVERTISE_URL"));
        let listen = ClusterSettings { cluster_listen: Some(HERE), ..ClusterSettings::default() };
        assert!(refused(&listen, false).contains("EVERSTEP_CLUSTER_LISTEN"));
    }

    #[test]
    fn a_wildcard_address_is_announced_as_one_address() {
        let crate::database::DatabaseConfig::Postgres { url, .. } = crate::database::DatabaseConfig::new(
            &crate::settings::DatabaseSettings {
                database_url: Some("postgres://127.0.0.1/db".to_owned()),
                ..Default::default()
            },
            &Default::default(),
        )
        .unwrap() else {
            panic!("PostgreSQL was selected")
        };
        let address = reachable(Ipv4Addr::UNSPECIFIED.into(), &url);
        assert!(!address.is_unspecified(), "{address}");
        assert_eq!(reachable([10, 0, 0, 7].into(), &url), IpAddr::from([10, 0, 0, 7]));
        assert!(is_near(&url));
    }
}
