//! A server on this machine.

use std::net::SocketAddr;

use axum::Router;
use everstep_net::{Client, Guard, Method, Request, Url};
use tokio::net::TcpListener;

/// Serves on a free port of an address; it ends with the test.
pub(crate) async fn serve(address: &str, router: Router) -> SocketAddr {
    let listener = TcpListener::bind((address, 0)).await.expect("the address is there");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A client that may reach these private networks.
pub(crate) fn client(networks: &str) -> Client {
    Client::new(networks.parse::<Guard>().expect("these are networks"))
}

pub(crate) fn get(url: impl AsRef<str>) -> Request {
    Request::new(Method::GET, Url::parse(url.as_ref()).expect("this is a URL"))
}
