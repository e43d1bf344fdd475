//! The packets of Socket.IO 5 in those of Engine.IO 4, as far as they are used: text, and the one namespace `/`.

use serde::Serialize;
use serde_json::{Value, json};

/// A packet of a client.
#[derive(Debug, PartialEq)]
pub(super) enum Packet {
    /// It closes the connection.
    Close,
    /// It is alive.
    Pong,
    /// It sends its credentials.
    Connect {
        auth: Value,
    },
    Disconnect,
    /// It sends a request, and expects a response if there is an id.
    Event {
        id: Option<u64>,
        name: String,
        arguments: Vec<Value>,
    },
    /// It uses another namespace than `/`.
    Elsewhere {
        namespace: String,
    },
}

impl Packet {
    /// Reads a packet; `None` for one that no client of this server sends.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut letters = text.chars();
        match letters.next()? {
            '1' => Some(Self::Close),
            '3' => Some(Self::Pong),
            '4' => Self::read_message(letters.as_str()),
            _ => None,
        }
    }

    fn read_message(text: &str) -> Option<Self> {
        let mut letters = text.chars();
        let kind = letters.next()?;
        let mut rest = letters.as_str();
        if rest.starts_with('/') {
            let (namespace, after) = rest.split_once(',').unwrap_or((rest, ""));
            if namespace.split_once('?').map_or(namespace, |(path, _)| path) != "/" {
                return Some(Self::Elsewhere { namespace: namespace.to_owned() });
            }
            rest = after;
        }
        match kind {
            '0' if rest.is_empty() => Some(Self::Connect { auth: Value::Null }),
            '0' => serde_json::from_str(rest).ok().map(|auth| Self::Connect { auth }),
            '1' => Some(Self::Disconnect),
            '2' => {
                let digits = rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
                let (id, arguments) = rest.split_at(digits);
                let id = if id.is_empty() { None } else { Some(id.parse().ok()?) };
                let mut arguments: Vec<Value> = serde_json::from_str(arguments).ok()?;
                if arguments.is_empty() {
                    return None;
                }
                let Value::String(name) = arguments.remove(0) else { return None };
                Some(Self::Event { id, name, arguments })
            }
            _ => None,
        }
    }
}

/// The first packet of a connection. Times are in milliseconds.
pub(super) fn open(sid: &str, ping_interval: u128, pong_timeout: u128, request_bytes_max: usize) -> String {
    let body = json!({
        "sid": sid,
        "upgrades": [],
        "pingInterval": ping_interval,
        "pingTimeout": pong_timeout,
        "maxPayload": request_bytes_max,
    });
    format!("0{body}")
}

pub(super) const CLOSE: &str = "1";
pub(super) const PING: &str = "2";
pub(super) const DISCONNECT: &str = "41";

pub(super) fn connected(sid: &str) -> String {
    format!("40{}", json!({"sid": sid}))
}

/// The rejection of a connection, or of another namespace. `data` is `error.data` of a client.
pub(super) fn refused(namespace: &str, message: &str, data: &Value) -> String {
    let namespace = if namespace == "/" { String::new() } else { format!("{namespace},") };
    format!("44{namespace}{}", json!({"message": message, "data": data}))
}

pub(super) fn event(name: &str, argument: &impl Serialize) -> String {
    let argument = serde_json::to_string(argument).expect("a message can be written as JSON");
    format!("42[{},{argument}]", Value::from(name))
}

pub(super) fn answer(id: u64, argument: &Value) -> String {
    format!("43{id}[{argument}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read() {
        let event = |id| Packet::Event { id, name: "join".to_owned(), arguments: vec![json!({"a": 1})] };
        let read = [
            ("1", Packet::Close),
            ("3", Packet::Pong),
            ("40", Packet::Connect { auth: Value::Null }),
            ("40{\"key\":\"k\"}", Packet::Connect { auth: json!({"key": "k"}) }),
            ("41", Packet::Disconnect),
            ("42[\"join\",{\"a\":1}]", event(None)),
            ("4217[\"join\",{\"a\":1}]", event(Some(17))),
            ("40/admin,{}", Packet::Elsewhere { namespace: "/admin".to_owned() }),
        ];
        for (text, packet) in read {
            assert_eq!(Packet::read(text), Some(packet), "{text}");
        }
        for wrong in
            ["", "2", "4", "42", "42[]", "42[1]", "42{}", "45-[\"x\"]", "9", "é", "42999999999999999999999[\"x\"]"]
        {
            assert_eq!(Packet::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn packets_are_written() {
        assert_eq!(event("a\"b", &json!({"x": 1})), r#"42["a\"b",{"x":1}]"#);
        assert_eq!(answer(3, &json!({"ok": true})), r#"433[{"ok":true}]"#);
        assert_eq!(refused("/", "no", &json!(null)), r#"44{"message":"no","data":null}"#);
        assert_eq!(refused("/x", "no", &json!(null)), r#"44/x,{"message":"no","data":null}"#);
    }
}
