//! Mails to people: the `notify` kind.
//!
//! 1. If the workspace has the option `notifyUrl`, the mail is sent to this address as a signed webhook: a service of the
//!    workspace passes it on.
//! 2. Otherwise the mail server of the settings receives it.
//! 3. The id of the delivery identifies the mail in every attempt: as `webhook-id`, or in `Message-ID`.

mod handler;
mod mail_server;

pub use handler::NotifyHandler;
pub(crate) use mail_server::Mail;
pub use mail_server::{MailServer, MailServerError};
