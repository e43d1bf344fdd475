//! Which addresses are public: all others belong to a private or reserved network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// Networks of IPv4 that are not public.
const PRIVATE_V4: &[(Ipv4Addr, u8)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),        // this host, this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),       // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),    // shared by a carrier's customers; some clouds keep metadata there
    (Ipv4Addr::new(127, 0, 0, 0), 8),      // loopback
    (Ipv4Addr::new(168, 63, 129, 16), 32), // the host of a virtual machine in a cloud
    (Ipv4Addr::new(169, 254, 0, 0), 16),   // link-local, with the metadata of clouds
    (Ipv4Addr::new(172, 16, 0, 0), 12),    // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),     // protocol assignments, with metadata of clouds
    (Ipv4Addr::new(192, 0, 2, 0), 24),     // documentation
    (Ipv4Addr::new(192, 31, 196, 0), 24),  // anycast of name servers' sinks
    (Ipv4Addr::new(192, 52, 193, 0), 24),  // multicast relays
    (Ipv4Addr::new(192, 88, 99, 0), 24),   // relays of 6to4
    (Ipv4Addr::new(192, 168, 0, 0), 16),   // private
    (Ipv4Addr::new(192, 175, 48, 0), 24),  // anycast of name servers' sinks
    (Ipv4Addr::new(198, 18, 0, 0), 15),    // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24),  // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),   // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 4),      // multicast
    (Ipv4Addr::new(240, 0, 0, 0), 4),      // reserved, with broadcast
];

/// The public part of IPv6. All other addresses are loopback, local, multicast or unassigned.
const GLOBAL_V6: (Ipv6Addr, u8) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Networks within it that are not public.
const PRIVATE_V6: &[(Ipv6Addr, u8)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48), // anycast of name servers' sinks
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// Whether an address is public. Call it with every form of the address.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !PRIVATE_V4.iter().any(|net| holds_v4(*net, address)),
        IpAddr::V6(address) => {
            // An address that embeds an IPv4 address is as public as that one.
            let embeds_v4 = embedded(address).is_some();
            let is_private = PRIVATE_V6.iter().any(|net| holds_v6(*net, address));
            embeds_v4 || (holds_v6(GLOBAL_V6, address) && !is_private)
        }
    }
}

/// An address and the addresses embedded in it: packets to `::ffff:127.0.0.1` arrive at `127.0.0.1`.
pub(crate) fn forms(address: IpAddr) -> Vec<IpAddr> {
    let inner = match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => embedded(address),
    };
    std::iter::once(address).chain(inner.into_iter().flatten().map(IpAddr::V4)).collect()
}

/// The IPv4 addresses embedded in an IPv6 address, if it has any.
fn embedded(address: Ipv6Addr) -> Option<Vec<Ipv4Addr>> {
    let segments = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match segments {
        // ::ffff:0:0/96 mapped, ::ffff:0:0:0/96 translated.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => Some(vec![v4(high, low)]),
        // ::/96 compatible; `::` and `::1` are separate addresses and not public.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 || low > 1 => Some(vec![v4(high, low)]),
        // 64:ff9b::/96 NAT64. Its local sibling 64:ff9b:1::/48 is not public.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(vec![v4(high, low)]),
        // 2002::/16 6to4.
        [0x2002, high, low, ..] => Some(vec![v4(high, low)]),
        // 2001::/32 Teredo: the server, and the client with inverted bits.
        [0x2001, 0, server_high, server_low, _, _, high, low] => {
            Some(vec![v4(server_high, server_low), v4(!high, !low)])
        }
        _ => None,
    }
}

fn holds_v4((base, bits): (Ipv4Addr, u8), address: Ipv4Addr) -> bool {
    Ipv4Net::new_assert(base, bits).contains(&address)
}

fn holds_v6((base, bits): (Ipv6Addr, u8), address: Ipv6Addr) -> bool {
    Ipv6Net::new_assert(base, bits).contains(&address)
}
