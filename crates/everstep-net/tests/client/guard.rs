//! The addresses that may be reached.

use std::net::IpAddr;

use everstep_net::Guard;

fn permits(guard: &Guard, address: &str) -> bool {
    guard.permits(address.parse::<IpAddr>().expect("this is an address"))
}

#[test]
fn addresses_that_lie_inside_are_refused_in_every_form() {
    let inside = [
        // Loopback, unspecified, private, link-local, shared, benchmarks, documentation, multicast, broadcast, reserved.
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.1.1",
        "100.64.0.1",
        "100.127.255.255",
        "198.18.0.1",
        "198.19.255.255",
        "192.0.2.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "192.0.0.1",
        "192.88.99.1",
        // The metadata of clouds.
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        // IPv6: unspecified, loopback, unique local, link-local, site-local, multicast, documentation, discard, unassigned.
        "::",
        "::1",
        "fc00::1",
        "fdff::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "2001:db8::1",
        "3fff::1",
        "2001:10::1",
        "2001:20::1",
        "100::1",
        "5f00::1",
        "4000::1",
        "64:ff9b:1::1",
        // Private addresses in other forms: mapped, translated, compatible, NAT64, 6to4, Teredo (server and client).
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:0:127.0.0.1",
        "::127.0.0.1",
        "::10.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "2001:0:7f00:1::",
        "2001:0:808:808:0:0:80ff:fffe",
    ];
    let guard = Guard::default();
    for address in inside {
        assert!(!permits(&guard, address), "{address} is private");
        assert!(permits(&Guard::open(), address), "{address} may be reached where everything may");
    }
}

#[test]
fn public_addresses_may_be_reached() {
    let public = [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.1",
        "198.17.255.255",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450:4001::1",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
    ];
    for address in public {
        assert!(permits(&Guard::default(), address), "{address} is public");
    }
}

#[test]
fn what_is_allowed_may_be_reached_in_every_form() {
    let guard: Guard = "10.1.0.0/16, 127.0.0.1,::1".parse().expect("these are networks");
    for allowed in ["10.1.2.3", "127.0.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::10.1.2.3", "8.8.8.8"] {
        assert!(permits(&guard, allowed), "{allowed} is allowed");
    }
    for other in ["10.2.0.1", "127.0.0.2", "::ffff:127.0.0.2", "192.168.0.1", "fd00::1"] {
        assert!(!permits(&guard, other), "{other} is not");
    }
}

#[test]
fn the_setting_is_read_as_people_write_it() {
    assert_eq!("all".parse(), Ok(Guard::open()));
    assert_eq!("".parse(), Ok(Guard::default()));
    let guard: Guard = "10.0.0.0/8, ::1".parse().expect("these are networks");
    assert_eq!((guard.allow.len(), guard.allow_all), (2, false));
    for wrong in ["10.0.0.0/33", "localhost", "10.0.0", "all,x"] {
        assert!(wrong.parse::<Guard>().is_err(), "{wrong}");
    }
}
