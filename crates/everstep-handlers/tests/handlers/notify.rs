//! The notify kind, against a real mail server and a real target of webhooks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::failure::Failure;
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_core::webhook;
use everstep_handlers::{MailServer, NotifyPolicy, NotifyTarget, Ports, Registry, Secrets, Task};
use everstep_net::{Client, Guard};
use everstep_testkit::smtp_server::{SmtpOptions, SmtpServer};
use everstep_testkit::webhook_target::{TargetMode, WebhookTarget};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::{faults, task};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const FROM: &str = "Everstep <no-reply@example.com>";

struct Safe;

#[async_trait]
impl Secrets for Safe {
    async fn reveal(&self, _: WorkspaceId, name: &str) -> Result<Zeroizing<String>, Failure> {
        match name {
            "mail-signing" => Ok(Zeroizing::new(SECRET.to_owned())),
            _ => Err(Failure::fatal("SECRET_NOT_FOUND", format!("the secret {name:?} does not exist"))),
        }
    }
}

/// The address of every workspace.
struct Everyone(NotifyTarget);

#[async_trait]
impl NotifyPolicy for Everyone {
    async fn find_target(&self, _: WorkspaceId) -> Result<Option<NotifyTarget>, Failure> {
        Ok(Some(self.0.clone()))
    }

    async fn reread_target(&self, _: WorkspaceId) -> Result<Option<NotifyTarget>, Failure> {
        Ok(Some(self.0.clone()))
    }
}

fn ports(server: Option<&SmtpServer>) -> Ports {
    let client = Client::new("127.0.0.1".parse::<Guard>().expect("this is a network"));
    let mail_server = server.map(|server| MailServer::new(&server.url(), FROM).expect("the settings are valid"));
    Ports { client, secrets: Arc::new(Safe), mail_server, ..Ports::none() }
}

fn to_address(url: String, secret: &str) -> Ports {
    let target = NotifyTarget { url, secret: secret.to_owned() };
    Ports { notify_policy: Arc::new(Everyone(target)), ..ports(None) }
}

async fn perform(ports: Ports, task: Task) -> Result<Value, Failure> {
    let registry = Registry::standard(ports);
    let handler = registry.find_handler("notify").expect("it is standard");
    handler.perform(task).await.result.map(|outcome| outcome.output.value().clone())
}

async fn send(ports: Ports, config: Value) -> Result<Value, Failure> {
    perform(ports, task("notify", config, json!({}))).await
}

fn mail(target: Value, subject: &str, text: &str) -> Value {
    let mut config = json!({"template": {"subject": subject, "text": text}});
    config["target"] = target;
    config
}

#[tokio::test]
async fn an_independent_parser_reads_a_mail() {
    let server = SmtpServer::start();
    let text = "Hällo,\n\n.a line with a dot\n..two dots\n.\nFrom the start\r\nto the end: =20 \u{1F600}\n";
    let long = format!("{} {}", "Grüße aus München".repeat(8), "x".repeat(200));
    for (subject, text) in
        [("Please review", "plain"), ("Prüfung: 5 €", text), (&long, &"word ".repeat(5_000)), ("x", "")]
    {
        let config = mail(json!(["ann@example.com", ["bob@example.com", "ann@example.com"], null]), subject, text);
        let sent = send(ports(Some(&server)), config).await.expect("it is accepted");
        let received = server.received().pop().expect("it has arrived");
        let parsed = received.parse();
        assert_eq!(sent["recipients"], 2);
        assert_eq!(sent["messageId"], format!("<{}>", parsed.message_id));
        assert_eq!((received.from.as_str(), parsed.from.as_str()), ("no-reply@example.com", "no-reply@example.com"));
        assert_eq!((&received.to, &parsed.to), (&parsed.to, &vec!["ann@example.com".into(), "bob@example.com".into()]));
        assert_eq!((parsed.subject.as_str(), parsed.content_type.as_str()), (subject, "text/plain"));
        assert_eq!(parsed.text.trim_end_matches('\n'), text.replace("\r\n", "\n").trim_end_matches('\n'));
        assert!(received.bytes.is_ascii(), "a server without 8BITMIME accepts it");
        assert!(received.bytes.split(|byte| *byte == b'\n').all(|line| line.len() <= 999), "no line is too long");
        assert!(parsed.headers.contains(&"Auto-Submitted".to_owned()), "{:?}", parsed.headers);
    }
}

#[tokio::test]
async fn a_mail_has_the_same_message_id_in_every_attempt() {
    let server = SmtpServer::start();
    server.set_mode(TargetMode::Refuse(451));
    let config = mail(json!("ann@example.com"), "Hello", "there");
    send(ports(Some(&server)), config.clone()).await.expect_err("it is refused");
    server.set_mode(TargetMode::Accept);
    send(ports(Some(&server)), config).await.expect("it is accepted");
    let mut decided = mail(json!("ann@example.com"), "Hello", "there");
    let id = "0198f0a0-0000-7000-8000-000000000001";
    decided["delivery"] = json!({"id": id, "timestamp": "2026-11-18T09:00:00Z", "data": {}});
    send(ports(Some(&server)), decided).await.expect("it is accepted");
    let ids: Vec<_> = server.received().iter().map(|mail| mail.parse().message_id).collect();
    assert_eq!(ids[0], ids[1]);
    assert_eq!(ids[2], format!("{id}@example.com"));
    let text = String::from_utf8(server.received()[2].bytes.clone()).expect("it is ASCII");
    assert!(text.contains("Date: Wed, 18 Nov 2026 09:00:00 +0000\r\n"), "{text}");
}

#[tokio::test]
async fn every_fault_of_a_mail_server_is_a_failure() {
    let credentials = Some(("ann".to_owned(), "s3cret-of-the-mails".to_owned()));
    let server = SmtpServer::with(SmtpOptions { credentials, ..SmtpOptions::default() });
    let config = mail(json!("ann@example.com"), "Hello", "there");
    for (mode, code) in [
        (TargetMode::Refuse(451), "SMTP_STATUS"),
        (TargetMode::Refuse(554), "SMTP_STATUS"),
        (TargetMode::CutOff, "SMTP_ERROR"),
    ] {
        server.set_mode(mode);
        let failure = send(ports(Some(&server)), config.clone()).await.expect_err("it is refused");
        assert_eq!((failure.code.as_str(), failure.retryable), (code, true), "{mode:?}: {failure}");
        assert!(!failure.message.contains("s3cret"), "{failure}");
        if let TargetMode::Refuse(status) = mode {
            let expected = format!("localhost responded with status {status}: refused [secret]");
            assert_eq!(failure.message, expected);
        }
    }
    server.set_mode(TargetMode::Hang);
    let hung = Task { timeout: Duration::from_millis(300), ..task("notify", config.clone(), json!({})) };
    let failure = perform(ports(Some(&server)), hung).await.expect_err("it does not answer");
    assert_eq!((failure.code.as_str(), failure.retryable), ("STEP_TIMEOUT", true), "{failure}");
    server.set_mode(TargetMode::Late(Duration::from_millis(200)));
    send(ports(Some(&server)), config.clone()).await.expect("it is late, but accepted");
    assert_eq!(server.received().last().and_then(|mail| mail.user.clone()).as_deref(), Some("ann"));
    let url = server.url();
    drop(server);
    let port = url.rsplit(':').next().expect("the URL has a port");
    let wrong = MailServer::new(&format!("smtp://localhost:{port}"), FROM).expect("the settings are valid");
    let failure = send(Ports { mail_server: Some(wrong), ..ports(None) }, config).await.expect_err("no server listens");
    assert_eq!((failure.code.as_str(), failure.retryable), ("SMTP_ERROR", true), "{failure}");
}

#[tokio::test]
async fn a_wrong_password_and_a_refused_recipient_are_failures() {
    let options = SmtpOptions {
        credentials: Some(("ann".to_owned(), "right-password".to_owned())),
        refused_recipient: Some("gone@example.com".to_owned()),
        ..SmtpOptions::default()
    };
    let server = SmtpServer::with(options);
    let config = |to: &str| mail(json!(["ann@example.com", to]), "Hello", "there");
    let wrong = MailServer::new(&format!("smtp://ann:wrong-password@localhost:{}", server.port()), FROM);
    let ports_of_wrong = Ports { mail_server: wrong.ok(), ..ports(None) };
    let failure = send(ports_of_wrong, config("bob@example.com")).await.expect_err("the password is wrong");
    assert_eq!(failure.code, "SMTP_STATUS", "{failure}");
    assert!(failure.message.contains("535") && !failure.message.contains("wrong-password"), "{failure}");
    let failure = send(ports(Some(&server)), config("gone@example.com")).await.expect_err("a recipient is refused");
    assert!(failure.message.contains("status 550"), "{failure}");
    assert_eq!(server.count(), 0, "it is sent to all recipients or to none");
}

#[tokio::test]
async fn no_value_adds_a_header_or_a_command() {
    let server = SmtpServer::start();
    let target = WebhookTarget::start();
    for (to, subject, code) in [
        ("ann@example.com\r\nBcc: eve@example.com", "Hello", "RECIPIENT_INVALID"),
        ("ann@example.com>\r\nRCPT TO:<eve@example.com", "Hello", "RECIPIENT_INVALID"),
        ("\"ann\r\nBcc: eve@example.com\"@example.com", "Hello", "RECIPIENT_INVALID"),
        ("ann@example.com\nX: y", "Hello", "RECIPIENT_INVALID"),
        ("ann@example.com\0", "Hello", "RECIPIENT_INVALID"),
        ("ann@example.com, eve@example.com", "Hello", "RECIPIENT_INVALID"),
        ("ann@example.com", "Hello\r\nBcc: eve@example.com", "SUBJECT_INVALID"),
        ("ann@example.com", "Hello\r\n\r\nbody", "SUBJECT_INVALID"),
        ("ann@example.com", "Hello\nX: y", "SUBJECT_INVALID"),
        ("ann@example.com", "Hello\rX: y", "SUBJECT_INVALID"),
        ("ann@example.com", "", "SUBJECT_INVALID"),
    ] {
        for ports in [ports(Some(&server)), to_address(target.url("/"), "mail-signing")] {
            let failure = send(ports, mail(json!(to), subject, "x")).await.expect_err("it is refused");
            assert_eq!(failure.code, code, "{to:?} {subject:?}: {failure}");
        }
    }
    // Names that are no addresses are for the address of the workspace alone.
    let failure = send(ports(Some(&server)), mail(json!("ann"), "Hello", "x")).await.expect_err("it is refused");
    assert_eq!(failure.code, "RECIPIENT_INVALID");
    assert_eq!((server.count(), target.count()), (0, 0));
    // The end of a mail, and headers, are plain text in the body.
    let text = "one\r\n.\r\nMAIL FROM:<eve@example.com>\r\nBcc: eve@example.com";
    send(ports(Some(&server)), mail(json!("ann@example.com"), "=?utf-8?q?a=0D=0AX:_y?=", text))
        .await
        .expect("it is sent");
    let received = server.received().remove(0);
    let parsed = received.parse();
    assert_eq!((server.count(), parsed.text.trim_end()), (1, text.replace("\r\n", "\n").as_str()));
    let expected = ["From", "Date", "Message-ID", "To", "Subject", "Auto-Submitted", "MIME-Version", "Content-Type"];
    let others: Vec<_> = parsed.headers.iter().filter(|name| !expected.contains(&name.as_str())).collect();
    assert_eq!(others, ["Content-Transfer-Encoding"]);
}

#[tokio::test]
async fn the_number_of_recipients_is_bounded() {
    let server = SmtpServer::start();
    for target in [json!([true]), json!([{"a": 1}])] {
        let failure = send(ports(Some(&server)), mail(target.clone(), "Hello", "x")).await.expect_err("it is no text");
        assert_eq!(failure.code, "RECIPIENT_INVALID", "{target}");
    }
    for target in [json!(null), json!([]), json!(""), json!([null, " "])] {
        let failure =
            send(ports(Some(&server)), mail(target.clone(), "Hello", "x")).await.expect_err("it has no recipient");
        assert_eq!(failure.code, "NO_RECIPIENT", "{target}");
    }
    let list = |count: usize| (0..count).map(|n| format!("p{n}@example.com")).collect::<Vec<_>>();
    let failure = send(ports(Some(&server)), mail(json!(list(101)), "Hello", "x")).await.expect_err("too many");
    assert_eq!(failure.code, "TOO_MANY_RECIPIENTS");
    send(ports(Some(&server)), mail(json!(list(100)), "Hello", "x")).await.expect("it is sent");
    assert_eq!(server.received()[0].parse().to, list(100));
}

#[tokio::test]
async fn the_address_of_a_workspace_receives_a_signed_message() {
    let (target, server) = (WebhookTarget::start(), SmtpServer::start());
    let mut decided = mail(json!(["ann", "bob@example.com"]), "Prüfung", "line\nline");
    let id = "0198f0a0-0000-7000-8000-000000000001";
    decided["delivery"] = json!({"id": id, "type": "workflow.notify", "timestamp": "2026-11-18T09:00:00Z", "data": {"runId": "r", "seq": 3}});
    let both =
        Ports { mail_server: ports(Some(&server)).mail_server, ..to_address(target.url("/mails"), "mail-signing") };
    let sent = send(both, decided.clone()).await.expect("it is accepted");
    assert_eq!((sent, server.count()), (json!({"recipients": 2, "status": 204}), 0));
    let received = target.received().remove(0);
    assert_eq!((received.id(), received.path.as_str()), (id, "/mails"));
    let data = json!({
        "runId": "r", "seq": 3, "recipients": ["ann", "bob@example.com"], "subject": "Prüfung", "text": "line\nline",
    });
    let body = json!({"type": "workflow.notify", "timestamp": "2026-11-18T09:00:00Z", "data": data});
    assert_eq!(received.json(), body);
    let seconds: i64 = received.header("webhook-timestamp").parse().expect("it is a number of seconds");
    let at = Timestamp::from_millis(seconds * 1_000);
    let expected = webhook::sign(SECRET, id, at, &received.body).expect("the secret is valid");
    assert_eq!(received.header("webhook-signature"), expected);

    let of_graph = mail(json!("ann"), "Hello", "x");
    send(to_address(target.url("/"), "mail-signing"), of_graph).await.expect("it is accepted");
    let body = target.received().remove(1).json();
    assert_eq!((&body["type"], &body["data"]["step"]), (&json!("workflow.notify"), &json!("step")));

    let missing = send(to_address(target.url("/"), "missing"), decided.clone()).await.expect_err("it has no secret");
    assert_eq!(missing.code, "SECRET_NOT_FOUND");
    target.set_mode(TargetMode::Refuse(500));
    let failure = send(to_address(target.url("/?token=x"), "mail-signing"), decided).await.expect_err("it is refused");
    assert_eq!((failure.code.as_str(), failure.retryable), ("HTTP_STATUS", true));
    assert!(!failure.message.contains("token"), "{failure}");
}

#[tokio::test]
async fn a_server_that_sends_no_mails_says_so() {
    let failure = send(ports(None), mail(json!("ann@example.com"), "Hello", "x")).await.expect_err("it cannot");
    assert_eq!((failure.code.as_str(), failure.retryable), ("NOTIFY_NOT_CONFIGURED", true), "{failure}");
    let obstacle = async |ports: Ports| {
        let registry = Registry::standard(ports);
        let handler = registry.find_handler("notify").expect("it is standard");
        handler.find_obstacle(WorkspaceId::DEFAULT).await.expect("the options can be read")
    };
    let problem = obstacle(ports(None)).await.expect("it cannot send mails");
    assert_eq!(problem.code, Some("NOTIFY_NOT_CONFIGURED"));
    let server = SmtpServer::start();
    assert_eq!(obstacle(ports(Some(&server))).await, None);
    assert_eq!(obstacle(to_address("https://mail.example.com/".into(), "mail-signing")).await, None);
}

#[test]
fn literal_parts_are_checked() {
    assert_eq!(faults("notify", &mail(json!("{{ctx.a}}"), "{{ctx.b}}", "{{ctx.c}}")), Vec::<String>::new());
    assert_eq!(faults("notify", &mail(json!([{"$expr": "ctx.a"}, "b@c"]), "x", "")), Vec::<String>::new());
    for (config, place) in [
        (mail(json!("a@b, c@d"), "x", "y"), "/target: "),
        (mail(json!(["a@b", "c\nd"]), "x", "y"), "/target/1: "),
        (mail(json!([]), "x", "y"), "/target: "),
        (mail(json!("a@b"), "x\r\ny", "z"), "/template/subject: "),
        (json!({"target": "a@b"}), "/template: "),
        (json!({"target": "a@b", "template": {"subject": "x", "text": "y", "html": "z"}}), "/template/html: "),
        (json!({"target": "a@b", "template": {"subject": {"$secret": "a"}, "text": "y"}}), "/template/subject"),
    ] {
        let found = faults("notify", &config);
        assert!(found.len() == 1 && found[0].starts_with(place), "{config}: {found:?}");
    }
}
