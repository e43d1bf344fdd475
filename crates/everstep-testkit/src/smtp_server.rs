//! A mail server on this machine, with STARTTLS and AUTH, which can hang, answer late, refuse and cut off.
//!
//! It uses threads, so that tests with and without a runtime can use it. The faults of [`TargetMode`] happen after a mail
//! was read, where the server would accept it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mail_parser::{MessageParser, MimeHeaders};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::webhook_target::TargetMode;

/// How a server is used.
#[derive(Clone, Debug, Default)]
pub struct SmtpOptions {
    /// The files of its certificate. With them it offers STARTTLS and accepts mails only after it.
    pub certificate: Option<CertificateFiles>,
    /// Whether a connection is encrypted from its beginning.
    pub is_encrypted: bool,
    /// The user and the password that a client must send.
    pub credentials: Option<(String, String)>,
    /// A recipient that is refused.
    pub refused_recipient: Option<String>,
    /// Whether it does not answer QUIT.
    pub hangs_at_quit: bool,
}

/// A certificate for `localhost` and 127.0.0.1, and the certificate that has signed it.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// Clients trust it.
    pub root: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl CertificateFiles {
    /// Creates the files in a folder.
    pub fn create(folder: &Path) -> Self {
        let run = |arguments: &[&str]| {
            let output = Command::new("openssl")
                .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
                .args(["-days", "2"])
                .args(arguments)
                .current_dir(folder)
                .output()
                .expect("openssl can be started");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        run(&["-keyout", "root.key", "-out", "root.pem", "-subj", "/CN=a root"]);
        run(&[
            "-keyout",
            "server.key",
            "-out",
            "server.pem",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-CA",
            "root.pem",
            "-CAkey",
            "root.key",
        ]);
        let [root, certificate, key] = ["root.pem", "server.pem", "server.key"].map(|name| folder.join(name));
        Self { root, certificate, key }
    }

    fn config(&self) -> Arc<ServerConfig> {
        let chain = CertificateDer::pem_file_iter(&self.certificate).expect("the certificate was created");
        let chain = chain.map(|certificate| certificate.expect("the file contains certificates")).collect();
        let key = PrivateKeyDer::from_pem_file(&self.key).expect("the key was created");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring supports the versions")
            .with_no_client_auth()
            .with_single_cert(chain, key);
        Arc::new(config.expect("the key belongs to the certificate"))
    }
}

/// A mail that a server has read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedMail {
    pub from: String,
    pub to: Vec<String>,
    /// Its headers and its body.
    pub bytes: Vec<u8>,
    /// Whether it was sent over TLS.
    pub is_encrypted: bool,
    /// The user that sent it.
    pub user: Option<String>,
    pub at: Instant,
    /// Whether it was accepted.
    pub is_accepted: bool,
}

/// A mail as an independent parser reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedMail {
    /// The names of all headers, in their order.
    pub headers: Vec<String>,
    pub message_id: String,
    pub from: String,
    pub to: Vec<String>,
    pub subject: String,
    pub content_type: String,
    /// The text, with line feeds.
    pub text: String,
}

impl ReceivedMail {
    /// Reads the mail with a parser that shares no code with the sender.
    pub fn parse(&self) -> ParsedMail {
        let mail = MessageParser::default().parse(&self.bytes).expect("the parser reads the mail");
        let addresses = |list: Option<&mail_parser::Address<'_>>| {
            let found = list.into_iter().flat_map(|list| list.iter().filter_map(|one| one.address()));
            found.map(str::to_owned).collect::<Vec<_>>()
        };
        let content_type = mail.content_type().expect("the mail has a content type");
        ParsedMail {
            headers: mail.headers().iter().map(|header| header.name().to_owned()).collect(),
            message_id: mail.message_id().unwrap_or_default().to_owned(),
            from: addresses(mail.from()).join(","),
            to: addresses(mail.to()),
            subject: mail.subject().unwrap_or_default().to_owned(),
            content_type: format!("{}/{}", content_type.ctype(), content_type.subtype().unwrap_or_default()),
            text: mail.body_text(0).unwrap_or_default().replace("\r\n", "\n"),
        }
    }
}

/// A mail server. It stops when it is dropped.
pub struct SmtpServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    options: SmtpOptions,
    tls: Option<Arc<ServerConfig>>,
    state: Mutex<ServerState>,
    /// The mode has changed.
    changed: Condvar,
}

#[derive(Default)]
struct ServerState {
    mode: TargetMode,
    /// Counts the changes of the mode.
    changes: u64,
    is_stopped: bool,
    /// Whether it closes connections before its greeting.
    is_down: bool,
    /// The AUTH commands so far.
    auth_count: usize,
    received: Vec<ReceivedMail>,
}

impl SmtpServer {
    /// Starts a server without encryption and without users.
    pub fn start() -> Self {
        Self::with(SmtpOptions::default())
    }

    pub fn with(options: SmtpOptions) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let address = listener.local_addr().expect("the listener has an address");
        let tls = options.certificate.as_ref().map(CertificateFiles::config);
        let shared = Arc::new(Shared { options, tls, state: Mutex::default(), changed: Condvar::default() });
        let serving = Arc::clone(&shared);
        thread::spawn(move || serve(&listener, &serving));
        Self { address, shared }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The file with the certificate that clients must trust.
    pub fn root(&self) -> Option<&Path> {
        self.shared.options.certificate.as_ref().map(|files| files.root.as_path())
    }

    /// The URL of the server, with its credentials.
    pub fn url(&self) -> String {
        let Shared { options, .. } = &*self.shared;
        let scheme = if options.is_encrypted { "smtps" } else { "smtp" };
        let credentials = options.credentials.as_ref().map(|(user, password)| format!("{user}:{password}@"));
        format!("{scheme}://{}localhost:{}", credentials.unwrap_or_default(), self.port())
    }

    pub fn set_mode(&self, mode: TargetMode) {
        let mut state = self.shared.lock();
        state.mode = mode;
        state.changes += 1;
        self.shared.changed.notify_all();
    }

    /// Whether it closes every new connection before its greeting.
    pub fn set_down(&self, is_down: bool) {
        self.shared.lock().is_down = is_down;
    }

    /// The number of AUTH commands so far.
    pub fn auth_count(&self) -> usize {
        self.shared.lock().auth_count
    }

    /// The mails so far, in the order in which they arrived.
    pub fn received(&self) -> Vec<ReceivedMail> {
        self.shared.lock().received.clone()
    }

    /// The number of mails so far.
    pub fn count(&self) -> usize {
        self.shared.lock().received.len()
    }
}

impl Drop for SmtpServer {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_stopped = true;
        state.changes += 1;
        drop(state);
        self.shared.changed.notify_all();
        // Wakes the thread that accepts connections.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.state.lock().expect("no holder of the lock panics")
    }
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    for connection in listener.incoming() {
        if shared.lock().is_stopped {
            return;
        }
        let Ok(connection) = connection else { continue };
        if shared.lock().is_down {
            continue;
        }
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let wire = if shared.options.is_encrypted { encrypt(connection, &shared) } else { Wire::Plain(connection) };
            // A client that disconnects early is not an error here.
            let _ = Session { reader: BufReader::new(wire), shared: &shared, user: None }.converse();
        });
    }
}

/// A connection, before or after its encryption.
enum Wire {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ServerConnection, TcpStream>>),
}

fn encrypt(connection: TcpStream, shared: &Shared) -> Wire {
    let config = shared.tls.clone().expect("an encrypted server has a certificate");
    let server = ServerConnection::new(config).expect("the configuration is complete");
    Wire::Encrypted(Box::new(StreamOwned::new(server, connection)))
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Encrypted(stream) => stream.read(buffer),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(buffer),
            Self::Encrypted(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}

/// One connection of a client.
struct Session<'a> {
    reader: BufReader<Wire>,
    shared: &'a Shared,
    user: Option<String>,
}

impl Session<'_> {
    fn converse(mut self) -> io::Result<()> {
        self.reply("220 localhost ESMTP")?;
        let (mut from, mut to) = (String::new(), Vec::new());
        loop {
            let Some(line) = self.line()? else { return Ok(()) };
            let verb = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
            match verb.as_str() {
                "EHLO" => self.greet()?,
                "STARTTLS" => {
                    self.reply("220 go ahead")?;
                    let Wire::Plain(connection) = self.reader.into_inner() else { return Ok(()) };
                    self.reader = BufReader::new(encrypt(connection, self.shared));
                }
                "AUTH" => {
                    self.shared.lock().auth_count += 1;
                    let reply = self.authenticate(&line);
                    self.reply(reply)?;
                }
                "MAIL" if self.needs_encryption() => self.reply("530 5.7.0 Must issue a STARTTLS command first")?,
                "MAIL" if self.shared.options.credentials.is_some() && self.user.is_none() => {
                    self.reply("530 5.7.0 Authentication required")?;
                }
                "MAIL" => {
                    (from, to) = (address(&line), Vec::new());
                    self.reply("250 OK")?;
                }
                "RCPT" if self.shared.options.refused_recipient == Some(address(&line)) => {
                    self.reply("550 5.1.1 No such user here")?;
                }
                "RCPT" => {
                    to.push(address(&line));
                    self.reply("250 OK")?;
                }
                "DATA" => {
                    self.reply("354 end with a dot")?;
                    let Some(bytes) = self.data()? else { return Ok(()) };
                    let mail = ReceivedMail {
                        from: from.clone(),
                        to: to.clone(),
                        bytes,
                        is_encrypted: self.is_encrypted(),
                        user: self.user.clone(),
                        at: Instant::now(),
                        is_accepted: false,
                    };
                    if !self.receive(mail)? {
                        return Ok(());
                    }
                }
                "QUIT" if self.shared.options.hangs_at_quit => {}
                "QUIT" => return self.reply("221 bye"),
                "RSET" | "NOOP" => self.reply("250 OK")?,
                _ => self.reply("500 unknown command")?,
            }
        }
    }

    /// Answers a mail as the mode demands. Returns whether the conversation continues.
    fn receive(&mut self, mail: ReceivedMail) -> io::Result<bool> {
        let (number, mode) = {
            let mut state = self.shared.lock();
            state.received.push(mail);
            (state.received.len() - 1, state.mode)
        };
        match mode {
            TargetMode::Accept => {}
            TargetMode::Late(delay) => thread::sleep(delay),
            TargetMode::Refuse(status) => {
                // Some servers repeat what they were sent.
                let password = self.shared.options.credentials.as_ref().map_or("", |(_, password)| password);
                self.reply(&format!("{status} refused {password}"))?;
                return Ok(true);
            }
            TargetMode::CutOff | TargetMode::HeadOnly(_) => return Ok(false),
            TargetMode::Hang => {
                let state = self.shared.lock();
                let changes = state.changes;
                drop(self.shared.changed.wait_while(state, |state| state.changes == changes));
                return Ok(false);
            }
        }
        self.shared.lock().received[number].is_accepted = true;
        self.reply("250 2.0.0 queued")?;
        Ok(true)
    }

    fn greet(&mut self) -> io::Result<()> {
        let mut lines = vec!["localhost".to_owned()];
        if self.needs_encryption() {
            lines.push("STARTTLS".to_owned());
        } else if self.shared.options.credentials.is_some() {
            lines.push("AUTH PLAIN".to_owned());
        }
        let last = lines.len() - 1;
        let reply = lines.iter().enumerate().map(|(index, line)| {
            let mark = if index == last { ' ' } else { '-' };
            format!("250{mark}{line}")
        });
        self.reply(&reply.collect::<Vec<_>>().join("\r\n"))
    }

    fn authenticate(&mut self, line: &str) -> &'static str {
        let sent = line.split_whitespace().nth(2).and_then(|text| BASE64_STANDARD.decode(text).ok());
        let expected = self.shared.options.credentials.as_ref();
        let is_right = sent.zip(expected).is_some_and(|(sent, (user, password))| {
            sent == format!("\0{user}\0{password}").as_bytes() && !self.needs_encryption()
        });
        if !is_right {
            return "535 5.7.8 Authentication credentials invalid";
        }
        self.user = expected.map(|(user, _)| user.clone());
        "235 2.7.0 Authentication successful"
    }

    fn is_encrypted(&self) -> bool {
        matches!(self.reader.get_ref(), Wire::Encrypted(_))
    }

    /// Whether the server expects STARTTLS.
    fn needs_encryption(&self) -> bool {
        self.shared.tls.is_some() && !self.is_encrypted()
    }

    fn reply(&mut self, text: &str) -> io::Result<()> {
        let wire = self.reader.get_mut();
        wire.write_all(format!("{text}\r\n").as_bytes())?;
        wire.flush()
    }

    /// The next line; none at the end.
    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let length = self.reader.read_until(b'\n', &mut line)?;
        Ok((length > 0).then(|| String::from_utf8_lossy(&line).trim_end().to_owned()))
    }

    /// The bytes of a mail, without the dots that were added; none if the client has disconnected.
    fn data(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        loop {
            let mut line = Vec::new();
            if self.reader.read_until(b'\n', &mut line)? == 0 {
                return Ok(None);
            }
            if line == b".\r\n" {
                return Ok(Some(bytes));
            }
            bytes.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
        }
    }
}

/// The address in a command: `RCPT TO:<ann@example.com>`.
fn address(line: &str) -> String {
    let begin = line.find('<').map_or(0, |begin| begin + 1);
    let end = line[begin..].find('>').map_or(line.len(), |end| begin + end);
    line[begin..end].to_owned()
}
