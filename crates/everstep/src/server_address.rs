//! The address of the server that uses a data folder, in a file of the folder: commands on the same machine read it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const FILE: &str = "server.url";
/// The lock of the folder, which contains the id of the process that uses the folder.
const LOCK: &str = "lock";

/// Writes the address of this process.
pub(crate) fn write(data: &Path, listens: SocketAddr) -> io::Result<()> {
    // A file of an earlier process may have other permissions.
    remove(data);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(data.join(FILE))?;
    writeln!(file, "{} {}", std::process::id(), url(listens))
}

/// Removes the file. It may be missing.
pub(crate) fn remove(data: &Path) {
    let _ = fs::remove_file(data.join(FILE));
}

/// The URL of the server that uses a data folder. None if no server has written its address, or if another process has
/// locked the folder since.
pub(crate) fn find(data: &Path) -> Option<String> {
    let text = fs::read_to_string(data.join(FILE)).ok()?;
    let (process, url) = text.trim().split_once(' ')?;
    let holder = fs::read_to_string(data.join(LOCK)).ok()?;
    (holder.trim() == process).then(|| url.to_owned())
}

/// The URL under which this machine reaches an address that a server listens on.
fn url(listens: SocketAddr) -> String {
    let host = match listens.ip() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    format!("http://{}", SocketAddr::new(host, listens.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_folder_is_that_of_the_process_which_locked_it() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path();
        assert_eq!(find(data), None);
        write(data, (Ipv4Addr::UNSPECIFIED, 7373).into()).unwrap();
        assert_eq!(find(data), None);
        fs::write(data.join(LOCK), format!("{}\n", std::process::id())).unwrap();
        assert_eq!(find(data).as_deref(), Some("http://127.0.0.1:7373"));
        write(data, (Ipv6Addr::UNSPECIFIED, 80).into()).unwrap();
        assert_eq!(find(data).as_deref(), Some("http://[::1]:80"));
        fs::write(data.join(LOCK), "1\n").unwrap();
        assert_eq!(find(data), None);
        remove(data);
        assert_eq!(find(data), None);
    }
}
