//! The mail server of the settings, which receives mails by SMTP.
//!
//! 1. A connection is encrypted before credentials and mails are sent: by TLS from its beginning (`smtps://`), or by
//!    STARTTLS (`smtp://`). Only a server on this machine may be used without encryption, if it does not offer it; its
//!    certificate for STARTTLS is not checked. Such a connection is made to loopback addresses only.
//! 2. A mail is accepted by one reply of the server, for all recipients or for none. The attempt ends with this reply:
//!    if it waited for the reply to QUIT, a server that does not send one would receive the mail again.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use everstep_core::failure::{Failure, code};
use everstep_core::time::Timestamp;
use everstep_net::{Url, tls};
use lettre::address::{Address, Envelope};
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters};
use lettre::transport::smtp::commands::{self, Data, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use percent_encoding::percent_decode_str;
use zeroize::Zeroizing;

use crate::http::{ERROR_BODY_CHARS_MAX, cut};
use crate::secrets::RevealedSecrets;

/// The port of `smtp://`, where clients submit mails.
const SUBMISSION_PORT: u16 = 587;
/// The port of `smtps://`.
const SUBMISSIONS_PORT: u16 = 465;
/// The time limit of QUIT, after the attempt.
const QUIT_TIMEOUT: Duration = Duration::from_secs(1);
const MECHANISMS: &[Mechanism] = &[Mechanism::Plain, Mechanism::Login];

/// A mail that is ready to be sent.
pub(crate) struct Mail {
    /// The same in every attempt.
    pub(crate) id: String,
    pub(crate) at: Timestamp,
    pub(crate) recipients: Vec<String>,
    pub(crate) subject: String,
    pub(crate) text: String,
}

/// The settings of the mail server cannot be used. The text contains no part of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailServerError {
    /// Whether the sender is invalid, and not the URL.
    pub is_sender: bool,
    pub message: String,
}

/// A mail server, and the sender of all mails. Cheap to clone.
#[derive(Clone)]
pub struct MailServer {
    inner: Arc<Inner>,
}

struct Inner {
    host: String,
    port: u16,
    encryption: Encryption,
    credentials: Option<(String, Zeroizing<String>)>,
    from: Mailbox,
    /// Created at its first use: reading the machine's certificates takes some time.
    tls: OnceLock<Result<TlsParameters, String>>,
}

/// How a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encryption {
    /// From its beginning.
    Tls,
    /// After STARTTLS.
    StartTls,
    /// After STARTTLS, if the server offers it.
    Offered,
}

impl MailServer {
    /// Reads the settings: `smtp[s]://[user:password@]host[:port]`, and the sender, such as
    /// `Everstep <no-reply@example.com>`.
    pub fn new(url: &str, from: &str) -> Result<Self, MailServerError> {
        let wrong = |message: &str| MailServerError { is_sender: false, message: message.to_owned() };
        let parsed = Url::parse(url.trim()).map_err(|error| wrong(&format!("is not a URL: {error}")))?;
        let is_smtps = match parsed.scheme() {
            "smtp" => false,
            "smtps" => true,
            _ => return Err(wrong("must begin with smtp:// or smtps://")),
        };
        let host = parsed.host_str().map(|host| host.trim_start_matches('[').trim_end_matches(']')).unwrap_or_default();
        if host.is_empty() {
            return Err(wrong("has no host; write for example smtp://mail.example.com:587"));
        }
        if !matches!(parsed.path(), "" | "/") || parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(wrong("must end after the port: it has no path and no parameters"));
        }
        let decode = |text: &str| percent_decode_str(text).decode_utf8().map(std::borrow::Cow::into_owned);
        let credentials = match (parsed.username(), parsed.password()) {
            ("", None) => None,
            (user, Some(password)) if !user.is_empty() => {
                let decoded = decode(user).and_then(|user| Ok((user, Zeroizing::new(decode(password)?))));
                let (user, password) = decoded.map_err(|_| wrong("has a user or a password that is not UTF-8"))?;
                if user.contains('\0') || password.contains('\0') {
                    return Err(wrong("has a user or a password with a NUL character"));
                }
                Some((user, password))
            }
            _ => return Err(wrong("must have both a user and a password, or neither")),
        };
        let encryption = match (is_smtps, is_loopback(host)) {
            (true, _) => Encryption::Tls,
            (false, false) => Encryption::StartTls,
            (false, true) => Encryption::Offered,
        };
        let port = parsed.port().unwrap_or(if is_smtps { SUBMISSIONS_PORT } else { SUBMISSION_PORT });
        let invalid_sender = |reason: &str| MailServerError {
            is_sender: true,
            message: format!("{reason}; write for example `Everstep <no-reply@example.com>`"),
        };
        if from.contains(char::is_control) {
            return Err(invalid_sender("contains a control character"));
        }
        let from: Mailbox = from.trim().parse().map_err(|_| invalid_sender("is not the address of a mail"))?;
        let inner = Inner { host: host.to_owned(), port, encryption, credentials, from, tls: OnceLock::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Sends a mail, and returns its `Message-ID`.
    pub(crate) async fn send(&self, mail: Mail, timeout: Duration) -> Result<String, Failure> {
        let message_id = format!("<{}@{}>", mail.id, self.inner.from.email.domain());
        let (envelope, bytes) = self.inner.format(mail, &message_id)?;
        let sent = self.inner.submit(&envelope, &bytes, timeout);
        let sent = if timeout.is_zero() { Ok(sent.await) } else { tokio::time::timeout(timeout, sent).await };
        match sent {
            Ok(Ok(())) => Ok(message_id),
            Ok(Err(failure)) => Err(failure),
            Err(_) => {
                let message = format!("{} did not accept the mail within {timeout:?}", self.inner.host);
                Err(Failure::transient(code::STEP_TIMEOUT, message))
            }
        }
    }
}

impl fmt::Debug for MailServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { host, port, encryption, .. } = &*self.inner;
        f.debug_struct("MailServer")
            .field("host", host)
            .field("port", port)
            .field("encryption", encryption)
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// The mail as it is sent, and its envelope.
    fn format(&self, mail: Mail, message_id: &str) -> Result<(Envelope, Vec<u8>), Failure> {
        let invalid =
            |error: &dyn fmt::Display| Failure::fatal("MAIL_INVALID", format!("the mail is invalid: {error}"));
        let mut addresses = Vec::with_capacity(mail.recipients.len());
        for recipient in &mail.recipients {
            let address: Address = recipient.parse().map_err(|_| {
                let message = format!("{recipient:?} is not the address of a mail");
                Failure::fatal("RECIPIENT_INVALID", message)
            })?;
            addresses.push(address);
        }
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(mail.at.millis()).unwrap_or_default());
        let mut builder = Message::builder().from(self.from.clone()).date(at).message_id(Some(message_id.to_owned()));
        for address in &addresses {
            builder = builder.to(Mailbox::new(None, address.clone()));
        }
        let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
        let message = builder
            .subject(mail.subject)
            .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
            .header(ContentType::TEXT_PLAIN)
            .body(mail.text)
            .map_err(|error| invalid(&error))?;
        let envelope = Envelope::new(Some(self.from.email.clone()), addresses).map_err(|error| invalid(&error))?;
        Ok((envelope, message.formatted()))
    }

    /// Submits a mail over a connection of its own.
    async fn submit(&self, envelope: &Envelope, bytes: &[u8], timeout: Duration) -> Result<(), Failure> {
        let revealed = self.revealed();
        let mut connection = self.connect(timeout).await.map_err(|error| self.failure(&error, &revealed))?;
        transmit(&mut connection, envelope, bytes).await.map_err(|error| self.failure(&error, &revealed))?;
        tokio::spawn(async move {
            let _ = tokio::time::timeout(QUIT_TIMEOUT, connection.quit()).await;
        });
        Ok(())
    }

    async fn connect(&self, timeout: Duration) -> Result<AsyncSmtpConnection, SubmitError> {
        let name = ClientId::Domain(self.from.email.domain().to_owned());
        let wrapper = match self.encryption {
            Encryption::Tls => Some(self.tls()?),
            Encryption::StartTls | Encryption::Offered => None,
        };
        let timeout = (!timeout.is_zero()).then_some(timeout);
        let addresses = self.addresses().await?;
        let mut connection = AsyncSmtpConnection::connect_tokio1(&*addresses, timeout, &name, wrapper, None).await?;
        match self.encryption {
            Encryption::StartTls if !connection.can_starttls() => return Err(SubmitError::NotEncrypted),
            Encryption::StartTls => connection.starttls(self.tls()?, &name).await?,
            Encryption::Offered if connection.can_starttls() => connection.starttls(self.tls()?, &name).await?,
            Encryption::Tls | Encryption::Offered => {}
        }
        if let Some((user, password)) = &self.credentials {
            let credentials = Credentials::new(user.clone(), password.to_string());
            connection.auth(MECHANISMS, &credentials).await?;
        }
        Ok(connection)
    }

    /// The addresses of the server. A connection that may remain unencrypted stays on this machine.
    async fn addresses(&self) -> Result<Vec<SocketAddr>, SubmitError> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let found = found.map_err(|_| SubmitError::Unresolved)?;
        let is_permitted = |address: &SocketAddr| self.encryption != Encryption::Offered || address.ip().is_loopback();
        let addresses: Vec<_> = found.filter(is_permitted).collect();
        if addresses.is_empty() { Err(SubmitError::Unresolved) } else { Ok(addresses) }
    }

    fn tls(&self) -> Result<TlsParameters, SubmitError> {
        let tls = self.tls.get_or_init(|| match self.encryption {
            Encryption::Tls | Encryption::StartTls => tls_parameters(&self.host),
            Encryption::Offered => tls_parameters_of_this_machine(&self.host),
        });
        tls.clone().map_err(SubmitError::Tls)
    }

    /// The texts that no message contains.
    fn revealed(&self) -> RevealedSecrets {
        let mut revealed = RevealedSecrets::default();
        if let Some((_, password)) = &self.credentials {
            revealed.add(password);
        }
        revealed
    }

    /// The failure of an attempt. Another one may succeed, whatever the reply is.
    fn failure(&self, error: &SubmitError, revealed: &RevealedSecrets) -> Failure {
        let host = &self.host;
        let (code, message) = match error {
            SubmitError::Smtp(error) => match error.status() {
                Some(status) => ("SMTP_STATUS", format!("{host} responded with status {status}: {}", reply(error))),
                None => ("SMTP_ERROR", format!("{host}: {error}")),
            },
            SubmitError::Tls(reason) => ("SMTP_ERROR", format!("TLS cannot be used: {reason}")),
            SubmitError::Unresolved => ("SMTP_ERROR", format!("{host} could not be resolved")),
            SubmitError::NotUnicode => ("SMTP_ERROR", format!("{host} accepts only addresses in ASCII")),
            SubmitError::NotEncrypted => {
                ("SMTP_NOT_ENCRYPTED", format!("{host} does not offer STARTTLS; use smtps://, or a server that does"))
            }
        };
        // The secrets are masked first: a part of one would not be recognised.
        let message = revealed.mask(&message).replace(char::is_control, " ");
        Failure::transient(code, cut(message.trim(), ERROR_BODY_CHARS_MAX))
    }
}

/// Why a mail was not accepted.
enum SubmitError {
    Smtp(smtp::Error),
    Tls(String),
    /// The host has no address, or none that is permitted.
    Unresolved,
    NotEncrypted,
    /// An address has other characters than ASCII.
    NotUnicode,
}

impl From<smtp::Error> for SubmitError {
    fn from(error: smtp::Error) -> Self {
        Self::Smtp(error)
    }
}

/// The text of a reply.
fn reply(error: &smtp::Error) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}

/// Sends a mail over a connection. If a command is refused, it returns at once; the method of the library would wait for
/// the reply to QUIT.
async fn transmit(connection: &mut AsyncSmtpConnection, envelope: &Envelope, bytes: &[u8]) -> Result<(), SubmitError> {
    let is_unicode = |address: &Address| !AsRef::<str>::as_ref(address).is_ascii();
    let mut parameters = Vec::new();
    if envelope.to().iter().chain(envelope.from()).any(is_unicode) {
        if !connection.server_info().supports_feature(Extension::SmtpUtfEight) {
            return Err(SubmitError::NotUnicode);
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    if !bytes.is_ascii() {
        parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
    }
    connection.command(commands::Mail::new(envelope.from().cloned(), parameters)).await?;
    for recipient in envelope.to() {
        connection.command(Rcpt::new(recipient.clone(), Vec::new())).await?;
    }
    connection.command(Data).await?;
    // The library adds the end of the last line.
    connection.message(bytes.strip_suffix(b"\r\n").unwrap_or(bytes)).await?;
    Ok(())
}

/// For a server on this machine, which may have any certificate.
fn tls_parameters_of_this_machine(host: &str) -> Result<TlsParameters, String> {
    TlsParameters::builder(host.to_owned())
        .certificate_store(CertificateStore::None)
        .dangerous_accept_invalid_certs(true)
        .dangerous_accept_invalid_hostnames(true)
        .build_rustls()
        .map_err(|error| error.to_string())
}

fn tls_parameters(host: &str) -> Result<TlsParameters, String> {
    TlsParameters::builder(host.to_owned()).build_rustls().or_else(|error| {
        // Small containers have no certificates.
        tracing::warn!(%error, "the machine's certificates cannot be used; mails are sent with the built-in root certificates");
        let mut builder = TlsParameters::builder(host.to_owned()).certificate_store(CertificateStore::None);
        for root in tls::web_root_certificates() {
            let certificate = Certificate::from_der(root.to_vec()).map_err(|error| error.to_string())?;
            builder = builder.add_root_certificate(certificate);
        }
        builder.build_rustls().map_err(|error| error.to_string())
    })
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use everstep_testkit::smtp_server::{CertificateFiles, SmtpOptions, SmtpServer};
    use everstep_testkit::webhook_target::TargetMode;

    use super::*;

    const FROM: &str = "Everstep <no-reply@example.com>";

    #[test]
    fn a_connection_is_encrypted_unless_the_server_is_on_this_machine() {
        for (url, host, port, encryption) in [
            ("smtp://mail.example.com", "mail.example.com", 587, Encryption::StartTls),
            ("smtp://mail.example.com:25/", "mail.example.com", 25, Encryption::StartTls),
            ("smtps://mail.example.com", "mail.example.com", 465, Encryption::Tls),
            ("smtp://10.0.0.7", "10.0.0.7", 587, Encryption::StartTls),
            ("smtp://LOCALHOST:2525", "localhost", 2525, Encryption::Offered),
            ("smtp://127.0.0.9", "127.0.0.9", 587, Encryption::Offered),
            ("smtp://[::1]:25", "::1", 25, Encryption::Offered),
            ("smtps://localhost", "localhost", 465, Encryption::Tls),
            ("smtp://localhost.example.com", "localhost.example.com", 587, Encryption::StartTls),
        ] {
            let server = MailServer::new(url, FROM).unwrap_or_else(|error| panic!("{url}: {error:?}"));
            let inner = &server.inner;
            assert!(inner.host.eq_ignore_ascii_case(host), "{url}: {}", inner.host);
            assert_eq!((inner.port, inner.encryption), (port, encryption), "{url}");
        }
    }

    #[test]
    fn settings_that_cannot_be_used_are_refused_without_showing_them() {
        for (url, from, part) in [
            ("canary", FROM, "is not a URL"),
            ("http://canary/", FROM, "smtp:// or smtps://"),
            ("smtp:///", FROM, "host"),
            ("smtp://ann:canary@mail.example.com/x", FROM, "no path"),
            ("smtp://mail.example.com?tls=canary", FROM, "no path"),
            ("smtp://canary@mail.example.com", FROM, "both a user and a password"),
            ("smtp://:canary@mail.example.com", FROM, "both a user and a password"),
            ("smtp://a:%ff@mail.example.com", FROM, "UTF-8"),
            ("smtp://mail.example.com", "canary", "is not the address"),
            ("smtp://mail.example.com", "a@example.com\r\nBcc: canary@example.com", "control character"),
        ] {
            let error = MailServer::new(url, from).unwrap_err();
            assert!(error.message.contains(part) && !error.message.contains("canary"), "{url} {from}: {error:?}");
            assert_eq!(error.is_sender, from != FROM, "{url} {from}");
        }
        let server = MailServer::new("smtp://ann:can%40ry@mail.example.com", FROM).unwrap();
        assert_eq!(server.inner.credentials.as_ref().unwrap().1.as_str(), "can@ry");
        assert!(!format!("{server:?}").contains("can"), "{server:?}");
    }

    /// A server with credentials, reached as one on another machine would be.
    fn server(mails: &SmtpServer, encryption: Encryption, root: Option<&Path>) -> MailServer {
        let tls = OnceLock::new();
        if let Some(root) = root {
            let certificate = Certificate::from_pem(&std::fs::read(root).unwrap()).unwrap();
            let builder = TlsParameters::builder("127.0.0.1".to_owned()).certificate_store(CertificateStore::None);
            let parameters = builder.add_root_certificate(certificate).build_rustls().unwrap();
            assert!(tls.set(Ok(parameters)).is_ok());
        }
        let inner = Inner {
            host: "127.0.0.1".to_owned(),
            port: mails.port(),
            encryption,
            credentials: Some(("ann".to_owned(), Zeroizing::new("password".to_owned()))),
            from: FROM.parse().unwrap(),
            tls,
        };
        MailServer { inner: Arc::new(inner) }
    }

    fn mail() -> Mail {
        Mail {
            id: "1".to_owned(),
            at: Timestamp::EPOCH,
            recipients: vec!["ann@example.com".to_owned()],
            subject: "Hello".to_owned(),
            text: "there".to_owned(),
        }
    }

    fn options() -> SmtpOptions {
        SmtpOptions { credentials: Some(("ann".to_owned(), "password".to_owned())), ..SmtpOptions::default() }
    }

    #[tokio::test]
    async fn a_server_without_encryption_receives_neither_credentials_nor_mails() {
        let mails = SmtpServer::with(options());
        for (encryption, code) in [(Encryption::StartTls, "SMTP_NOT_ENCRYPTED"), (Encryption::Tls, "SMTP_ERROR")] {
            let sent = server(&mails, encryption, None).send(mail(), Duration::from_secs(5)).await;
            let failure = sent.unwrap_err();
            assert_eq!((failure.code.as_str(), mails.auth_count(), mails.count()), (code, 0, 0), "{failure}");
        }
        // On this machine it may be used.
        let sent = server(&mails, Encryption::Offered, None).send(mail(), Duration::from_secs(5)).await;
        assert_eq!(sent.unwrap(), "<1@example.com>");
        assert_eq!((mails.auth_count(), mails.count()), (1, 1));
    }

    #[tokio::test]
    async fn a_certificate_is_checked_unless_the_server_is_on_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let files = CertificateFiles::create(folder.path());
        for (is_encrypted, encryption) in [(false, Encryption::StartTls), (true, Encryption::Tls)] {
            let certificate = Some(files.clone());
            let mails = SmtpServer::with(SmtpOptions { certificate, is_encrypted, ..options() });
            let sent = server(&mails, encryption, None).send(mail(), Duration::from_secs(5)).await;
            let failure = sent.unwrap_err();
            assert!(failure.code == "SMTP_ERROR" && failure.message.contains("certificate"), "{failure}");
            assert_eq!((mails.auth_count(), mails.count()), (0, 0));
            let trusting = server(&mails, encryption, Some(&files.root));
            trusting.send(mail(), Duration::from_secs(5)).await.unwrap();
            assert!(mails.received()[0].is_encrypted && mails.received()[0].is_accepted);
            if encryption == Encryption::StartTls {
                server(&mails, Encryption::Offered, None).send(mail(), Duration::from_secs(5)).await.unwrap();
                assert!(mails.received()[1].is_encrypted, "it offers STARTTLS");
            }
        }
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_quit_delays_nothing() {
        let mails = SmtpServer::with(SmtpOptions { hangs_at_quit: true, ..options() });
        let server = server(&mails, Encryption::Offered, None);
        server.send(mail(), Duration::from_secs(60)).await.unwrap();
        mails.set_mode(TargetMode::Refuse(451));
        let failure = server.send(mail(), Duration::from_secs(60)).await.unwrap_err();
        assert_eq!((failure.code.as_str(), mails.count()), ("SMTP_STATUS", 2), "{failure}");
    }

    #[test]
    fn a_secret_is_masked_before_a_message_is_cut() {
        let mails = SmtpServer::with(options());
        let server = server(&mails, Encryption::Offered, None);
        let reason = format!("{} password", "x".repeat(ERROR_BODY_CHARS_MAX - 30));
        let failure = server.inner.failure(&SubmitError::Tls(reason), &server.inner.revealed());
        assert!(!failure.message.contains("pass"), "{failure}");
    }
}
