//! A proxy between a node and its PostgreSQL, which cuts connections at the worst moments.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// The server's message that it has finished all requests; one byte follows.
const READY: &[u8] = b"Z\0\0\0\x05";

/// Passes everything on, except for the requests to cut. It stops with this value.
pub(crate) struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// The number of cut requests, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cuts {
    /// The server received half of a request.
    pub(crate) half: usize,
    /// The server received a request, and may have been executing it when the connection was cut.
    pub(crate) blind: usize,
    /// The server executed a request, and its reply was dropped.
    pub(crate) unanswered: usize,
}

struct Shared {
    server: SocketAddr,
    /// One request in this many is cut; 0 cuts none.
    one_of: AtomicUsize,
    random: AtomicU64,
    half: AtomicUsize,
    blind: AtomicUsize,
    unanswered: AtomicUsize,
    links: Mutex<Vec<Weak<Link>>>,
    is_over: AtomicBool,
}

/// One connection of a client, and ours to the server.
struct Link {
    client: TcpStream,
    server: TcpStream,
    /// Whether replies are dropped, and the connection closed after the last of them.
    is_mute: AtomicBool,
    /// Whether the server has reported that it waits for statements. Earlier messages are not distinguished.
    is_ready: AtomicBool,
    /// Whether nothing is passed on, without closing the connection.
    is_silent: AtomicBool,
}

impl Proxy {
    pub(crate) fn before(port: u16, seed: u64) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            server: (Ipv4Addr::LOCALHOST, port).into(),
            one_of: AtomicUsize::new(0),
            random: AtomicU64::new(seed),
            half: AtomicUsize::new(0),
            blind: AtomicUsize::new(0),
            unanswered: AtomicUsize::new(0),
            links: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let listening = Arc::clone(&shared);
        std::thread::spawn(move || listening.accept(&listener));
        Self { address, shared }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Cuts one request in this many from now on; 0 cuts none.
    pub(crate) fn cut(&self, one_of: usize) {
        self.shared.one_of.store(one_of, Ordering::SeqCst);
    }

    /// Keeps the present connections open, and passes nothing on. Returns their number. This is the effect of a device
    /// in between that has dropped their state.
    pub(crate) fn silence(&self) -> usize {
        let mut links = self.shared.links.lock().unwrap();
        let silenced = links.drain(..).filter_map(|link| link.upgrade());
        silenced.map(|link| link.is_silent.store(true, Ordering::SeqCst)).count()
    }

    pub(crate) fn cuts(&self) -> Cuts {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        let Shared { half, blind, unanswered, .. } = &*self.shared;
        Cuts { half: count(half), blind: count(blind), unanswered: count(unanswered) }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            // A server that cannot be reached is reported by closing the connection.
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(self.server)) else { continue };
            client.set_nodelay(true).unwrap();
            server.set_nodelay(true).unwrap();
            let link = Arc::new(Link {
                client,
                server,
                is_mute: AtomicBool::new(false),
                is_ready: AtomicBool::new(false),
                is_silent: AtomicBool::new(false),
            });
            self.links.lock().unwrap().push(Arc::downgrade(&link));
            let (shared, requests, answers) = (Arc::clone(&self), Arc::clone(&link), link);
            std::thread::spawn(move || {
                let _ = requests.pass_requests(&shared);
                requests.close();
            });
            std::thread::spawn(move || {
                let _ = answers.pass_answers();
                answers.close();
            });
        }
    }

    /// An arbitrary number.
    fn random(&self) -> usize {
        let mut state = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((state ^ (state >> 31)) >> 33).unwrap()
    }

    fn is_cut(&self) -> bool {
        let one_of = self.one_of.load(Ordering::SeqCst);
        one_of > 0 && self.random().is_multiple_of(one_of)
    }
}

impl Link {
    /// Bytes that a client sends together are a request, or a part of a long one.
    fn pass_requests(&self, shared: &Shared) -> std::io::Result<()> {
        let mut buffer = vec![0; 256 * 1024];
        loop {
            let length = (&self.client).read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            if self.is_silent.load(Ordering::SeqCst) {
                continue;
            }
            let request = &buffer[..length];
            if !shared.is_cut() {
                (&self.server).write_all(request)?;
                continue;
            }
            match shared.random() % 4 {
                0 => {
                    shared.half.fetch_add(1, Ordering::SeqCst);
                    return (&self.server).write_all(&request[..length / 2]);
                }
                1 => {
                    shared.blind.fetch_add(1, Ordering::SeqCst);
                    return (&self.server).write_all(request);
                }
                _ => {
                    shared.unanswered.fetch_add(1, Ordering::SeqCst);
                    self.is_mute.store(true, Ordering::SeqCst);
                    (&self.server).write_all(request)?;
                }
            }
        }
    }

    fn pass_answers(&self) -> std::io::Result<()> {
        let mut buffer = vec![0; 256 * 1024];
        loop {
            let length = (&self.server).read(&mut buffer)?;
            if length == 0 {
                return Ok(());
            }
            if self.is_silent.load(Ordering::SeqCst) {
                continue;
            }
            let answer = &buffer[..length];
            let is_last = answer[..length - 1].ends_with(READY);
            if !self.is_mute.load(Ordering::SeqCst) {
                (&self.client).write_all(answer)?;
                self.is_ready.fetch_or(is_last, Ordering::SeqCst);
            } else if is_last || !self.is_ready.load(Ordering::SeqCst) {
                return Ok(());
            }
        }
    }

    /// Closes both ends at once.
    fn close(&self) {
        // The other direction may have closed them before.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}
