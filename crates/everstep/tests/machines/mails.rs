//! Mails of a real server: by SMTP with STARTTLS, TLS and AUTH, and to the address of a workspace.

use std::time::Duration;

use everstep_testkit::smtp_server::{CertificateFiles, SmtpOptions, SmtpServer};
use everstep_testkit::webhook_target::{TargetMode, WebhookTarget};
use serde_json::{Value, json};

use crate::support::{Client, Folder, Server, everstep, wait_for};

/// Secrets that must appear neither in answers nor in the log.
const PASSWORD: &str = "canary-of-the-mail-server";
const SIGNING_SECRET: &str = "canary-of-the-signature";
const FROM: &str = "Everstep <no-reply@example.com>";

/// A review whose approval sends a mail.
fn machine() -> Value {
    let mail = json!({
        "id": "mail", "type": "notify", "target": ["{{ctx.author}}", "bob@example.com"],
        "template": {"subject": "{{ctx.title}} is approved", "text": "Dear author,\n\nit is approved.\n"},
    });
    json!({"states": [
        {"name": "review", "initial": true, "on": {"APPROVE": {"to": "done", "events": [mail]}}},
        {"name": "done", "on": {"CLOSE": {"to": "closed"}}},
        {"name": "closed", "terminal": true},
    ]})
}

fn approve(client: &Client) -> String {
    let run = client.start("review", &json!({"input": {"author": "ann@example.com", "title": "Prüfung"}}));
    client.post(&format!("{run}/transitions"), &json!({"action": "APPROVE"})).is(200);
    run
}

fn credentials() -> Option<(String, String)> {
    Some(("ann".to_owned(), PASSWORD.to_owned()))
}

/// The settings of a server that sends mails to this one.
fn settings(server: &SmtpServer) -> Vec<(&'static str, String)> {
    let mut settings = vec![("EVERSTEP_SMTP_URL", server.url()), ("EVERSTEP_SMTP_FROM", FROM.to_owned())];
    if let Some(root) = server.root() {
        settings.push(("SSL_CERT_FILE", root.display().to_string()));
    }
    settings
}

fn start(folder: &Folder, settings: &[(&str, String)]) -> Server {
    let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Server::with(&["--data", &folder.at("data")], &settings)
}

/// The dead letters, once there is one. No secret is in them, with their configs.
fn dead_letter(client: &Client) -> Value {
    let letter = wait_for("a dead letter", || {
        let page = client.get("/v1/dead-letters").is(200);
        page["deadLetters"].get(0).cloned()
    });
    let shown = client.get(&format!("/v1/dead-letters/{}", letter["id"].as_str().unwrap())).is(200);
    assert!(!shown.to_string().contains("canary"), "{shown}");
    shown
}

fn requeue(client: &Client, letter: &Value) {
    let path = format!("/v1/dead-letters/{}", letter["id"].as_str().unwrap());
    client.post(&format!("{path}/requeue"), &Value::Null).is(202);
    wait_for("the mail to be delivered", || (client.get(&path).is(200)["status"] == "delivered").then_some(()));
}

#[test]
fn a_refused_mail_is_a_dead_letter_and_is_requeued_with_its_message_id() {
    let (folder, certificates) = (Folder::new(), tempfile::tempdir().unwrap());
    let mails = SmtpServer::with(SmtpOptions {
        certificate: Some(CertificateFiles::create(certificates.path())),
        credentials: credentials(),
        ..SmtpOptions::default()
    });
    // The reply repeats the password.
    mails.set_mode(TargetMode::Refuse(451));
    let server = start(&folder, &settings(&mails));
    let client = server.client();
    client.publish("review", &machine());
    let run = approve(&client);
    let letter = dead_letter(&client);
    assert_eq!((&letter["kind"], &letter["target"]), (&json!("notify"), &json!("ann@example.com, bob@example.com")));
    let attempts = letter["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 3, "{letter}");
    for attempt in attempts {
        assert_eq!(attempt["code"], "SMTP_STATUS", "{letter}");
        assert_eq!(attempt["message"], "localhost responded with status 451: refused [secret]");
    }
    mails.set_mode(TargetMode::Accept);
    requeue(&client, &letter);
    let received = mails.received();
    assert_eq!(received.len(), 4);
    let id = format!("{}@example.com", letter["deliveryId"].as_str().unwrap());
    for mail in &received {
        let parsed = mail.parse();
        assert!(mail.is_encrypted, "it was sent after STARTTLS");
        assert_eq!((mail.user.as_deref(), parsed.message_id.as_str()), (Some("ann"), id.as_str()));
        assert_eq!((parsed.subject.as_str(), parsed.to.len()), ("Prüfung is approved", 2));
        assert_eq!(parsed.text.trim_end(), "Dear author,\n\nit is approved.");
    }
    // By the clock: at 0, 0.5 and 1.5 s.
    let gaps: Vec<_> = received[..3].windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(gaps[0] >= Duration::from_millis(400) && gaps[1] >= Duration::from_millis(800), "{gaps:?}");
    for entry in client.journal(&run) {
        assert!(!entry.to_string().contains("canary"), "{entry}");
    }
    let said = server.stop();
    assert!(!said.contains("canary"), "{said}");
}

#[test]
fn a_mail_is_delivered_when_the_server_is_up_again() {
    let folder = Folder::new();
    let mails = SmtpServer::start();
    mails.set_down(true);
    let server = start(&folder, &settings(&mails));
    let client = server.client();
    client.publish("review", &machine());
    approve(&client);
    let letter = dead_letter(&client);
    assert_eq!(letter["attempts"][2]["code"], "SMTP_ERROR", "{letter}");
    mails.set_down(false);
    requeue(&client, &letter);
    let received = mails.received();
    assert_eq!(received[0].parse().message_id, format!("{}@example.com", letter["deliveryId"].as_str().unwrap()));
    assert_eq!((received.len(), received[0].is_encrypted), (1, false), "without encryption on the same machine");
}

#[test]
fn a_connection_can_be_encrypted_from_its_beginning() {
    let (folder, certificates) = (Folder::new(), tempfile::tempdir().unwrap());
    let mails = SmtpServer::with(SmtpOptions {
        certificate: Some(CertificateFiles::create(certificates.path())),
        is_encrypted: true,
        credentials: credentials(),
        ..SmtpOptions::default()
    });
    let server = start(&folder, &settings(&mails));
    let client = server.client();
    client.publish("review", &machine());
    approve(&client);
    let mail = wait_for("an accepted mail", || mails.received().into_iter().find(|mail| mail.is_accepted));
    assert!(mail.is_encrypted && mail.user.is_some());
}

#[test]
fn a_certificate_that_is_not_trusted_receives_no_password() {
    let (folder, certificates) = (Folder::new(), tempfile::tempdir().unwrap());
    let mails = SmtpServer::with(SmtpOptions {
        certificate: Some(CertificateFiles::create(certificates.path())),
        is_encrypted: true,
        credentials: credentials(),
        ..SmtpOptions::default()
    });
    let mut settings = settings(&mails);
    settings.retain(|(name, _)| *name != "SSL_CERT_FILE");
    let server = start(&folder, &settings);
    let client = server.client();
    client.publish("review", &machine());
    approve(&client);
    let letter = dead_letter(&client);
    assert_eq!(letter["attempts"][2]["code"], "SMTP_ERROR", "{letter}");
    assert!(letter["attempts"][2]["message"].as_str().unwrap().contains("certificate"), "{letter}");
    assert_eq!((mails.auth_count(), mails.count()), (0, 0));
}

#[test]
fn a_mail_to_the_address_of_a_workspace_is_requeued_with_its_id() {
    let (folder, target) = (Folder::new(), WebhookTarget::start());
    let server = start(&folder, &[("EVERSTEP_ALLOW_ADDRESSES", "127.0.0.1".to_owned())]);
    let client = server.client();
    let refused = client.put("/v1/workflows/review", &machine()).refuses(422, "VALIDATION_ERROR");
    assert_eq!(refused["problems"][0]["code"], "NOTIFY_NOT_CONFIGURED", "{refused}");
    let patch = |options: Value| {
        let changed = client.try_ask("PATCH", "/v1/workspaces/default", &[], &json!({"options": options}));
        changed.unwrap().is(200);
    };
    patch(json!({"notifyUrl": target.url("/mails?token=canary"), "notifySecret": "mail-signing"}));
    client.put("/v1/secrets/mail-signing", &json!({"value": SIGNING_SECRET})).is(201);
    client.publish("review", &machine());
    target.set_mode(TargetMode::Refuse(503));
    let run = approve(&client);
    let letter = dead_letter(&client);
    assert_eq!((&letter["kind"], letter["attempts"].as_array().unwrap().len()), (&json!("notify"), 3));
    target.set_mode(TargetMode::Accept);
    requeue(&client, &letter);
    let received = target.received();
    assert_eq!(received.len(), 4);
    for webhook in &received {
        assert_eq!(webhook.id(), letter["deliveryId"], "the id is the same over attempts and requeues");
        assert!(webhook.header("webhook-signature").starts_with("v1,"));
        let data = &webhook.json()["data"];
        assert_eq!(data["recipients"], json!(["ann@example.com", "bob@example.com"]));
        assert_eq!((&data["subject"], &data["versionNo"]), (&json!("Prüfung is approved"), &json!(2)));
    }
    for entry in client.journal(&run) {
        assert!(!entry.to_string().contains("canary"), "{entry}");
    }
    let said = server.stop();
    assert!(!said.contains("canary"), "{said}");
}

#[test]
fn a_mail_without_a_recipient_is_a_dead_letter() {
    let (folder, mails) = (Folder::new(), SmtpServer::start());
    let server = start(&folder, &settings(&mails));
    let client = server.client();
    let mut machine = machine();
    machine["states"][0]["on"]["APPROVE"]["events"][0]["target"] = json!("{{ctx.reviewers}}");
    client.publish("review", &machine);
    let run = client.start("review", &json!({"input": {"title": "A", "reviewers": []}}));
    let approved = client.post(&format!("{run}/transitions"), &json!({"action": "APPROVE"})).is(200);
    assert_eq!(approved["nextState"], "done");
    let letter = dead_letter(&client);
    let codes: Vec<_> = letter["attempts"].as_array().unwrap().iter().map(|attempt| attempt["code"].clone()).collect();
    assert_eq!(codes, ["NO_RECIPIENT"; 3]);
    assert_eq!(mails.count(), 0);
}

#[test]
fn a_server_does_not_start_with_a_mail_server_that_it_cannot_use() {
    let folder = Folder::new();
    for (url, from, part) in [
        ("http://canary@mail.example.com", FROM, "smtp-url must begin with smtp:// or smtps://"),
        ("smtp://canary@mail.example.com", FROM, "smtp-url must have both a user and a password, or neither"),
        ("smtp://ann:canary@mail.example.com", "no address", "smtp-from is not the address of a mail"),
        ("smtp://ann:canary@mail.example.com", "", "smtp-url needs smtp-from"),
    ] {
        let mut command = everstep();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", &folder.at("data")]);
        let output = command.envs([("EVERSTEP_SMTP_URL", url), ("EVERSTEP_SMTP_FROM", from)]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(part) && !said.contains("canary"), "{url}: {said}");
    }
}
