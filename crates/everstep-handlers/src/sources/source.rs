//! A data source: the location of data, and how to access it. Credentials are references to secrets, never values.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use everstep_core::decode::describe_error;
use everstep_core::graph::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fields;

/// Headers with credentials, whose values must be secrets.
const SECRET_HEADERS: &[&str] =
    &["authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token"];
/// Headers that the client sets.
const OWN_HEADERS: &[&str] =
    &["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "keep-alive"];
const HINT_SECRET: &str = "save it as a secret and write {\"$secret\": \"its name\"}";

/// A named location of data: a PostgreSQL database, a SQLite file or an HTTP service with JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Source {
    Postgres(PostgresSource),
    Sqlite(SqliteSource),
    Http(HttpSource),
}

/// A PostgreSQL database, described by its parts or by a URL that is stored as a secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PostgresSource {
    /// `postgres://user:password@host:port/database`, as a secret; in place of the parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<SecretRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub host: Option<String>,
    /// The default is 5432.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub database: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretRef>,
    /// The protection of the connection; the default is `prefer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssl_mode: Option<SslMode>,
    /// The certificates to trust, in PEM. `verify-ca` needs them; without them `verify-full` trusts the public
    /// certificate authorities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_certificate: Option<String>,
    /// The maximum number of connections of one node.
    #[serde(default = "PostgresSource::usual_connections")]
    #[schemars(range(min = 1, max = 50))]
    pub max_connections: u32,
    /// Whether nothing may be written. Writing needs `false` here and on the query.
    #[serde(default = "fields::yes")]
    pub read_only: bool,
}

/// The protection of a connection to PostgreSQL, in the terms of libpq.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SslMode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// A SQLite file in the folder that the server configures for them. It is read-only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SqliteSource {
    /// Its path within the folder in `EVERSTEP_SQLITE_SOURCES_DIR`.
    #[schemars(length(min = 1, max = 1024))]
    pub file: String,
    /// Always true: a SQLite file is read-only.
    #[serde(default = "fields::yes")]
    pub read_only: bool,
}

/// A service that responds with JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpSource {
    /// Such as `https://api.example.com/v2`; the path of a query follows it.
    #[schemars(length(min = 1, max = 2048))]
    pub base_url: String,
    /// Sent with every request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, SecretOrText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<HttpAuth>,
    /// Whether only GET and HEAD are sent. Others need `false` here and on the query.
    #[serde(default = "fields::yes")]
    pub read_only: bool,
}

/// The credentials for a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum HttpAuth {
    Bearer { token: SecretRef },
    Basic { username: String, password: SecretRef },
}

/// Names a secret of the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-secret" = true))]
pub struct SecretRef {
    #[serde(rename = "$secret")]
    pub name: String,
}

/// A text, or the name of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a text or {\"$secret\": \"its name\"}")]
pub enum SecretOrText {
    Secret(SecretRef),
    Text(String),
}

impl PostgresSource {
    fn usual_connections() -> u32 {
        5
    }
}

impl Source {
    /// Reads a source to be saved. All its errors are reported together.
    pub fn read(body: &Value) -> Result<Self, Vec<Problem>> {
        let Some(object) = body.as_object() else {
            return Err(vec![Problem::at("", "a data source must be an object")]);
        };
        let mut rest = object.clone();
        let kind = rest.shift_remove("type");
        let rest = Value::Object(rest);
        let mut problems = literals(&rest);
        let found = match kind.as_ref().and_then(Value::as_str) {
            Some("postgres") => fields::check::<PostgresSource>(&rest),
            Some("sqlite") => fields::check::<SqliteSource>(&rest),
            Some("http") => fields::check::<HttpSource>(&rest),
            _ => {
                let message = kind
                    .map_or_else(|| "`type` is missing".to_owned(), |kind| format!("the type {kind} does not exist"));
                let hint = "use one of \"postgres\", \"sqlite\", \"http\"";
                return Err(vec![Problem::at("/type", message).hint(hint)]);
            }
        };
        let known: Vec<String> = problems.iter().map(|problem| problem.path.clone()).collect();
        problems.extend(found.into_iter().filter(|problem| !known.iter().any(|path| path.starts_with(&problem.path))));
        if !problems.is_empty() {
            return Err(problems);
        }
        let source: Self = match serde_json::from_value(body.clone()) {
            Ok(source) => source,
            Err(error) => return Err(vec![Problem::at("", describe_error(&error))]),
        };
        let problems = source.problems();
        if problems.is_empty() { Ok(source) } else { Err(problems) }
    }

    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Postgres(source) => source.read_only,
            Self::Sqlite(_) => true,
            Self::Http(source) => source.read_only,
        }
    }

    /// The name of its type in the API.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "postgres",
            Self::Sqlite(_) => "sqlite",
            Self::Http(_) => "http",
        }
    }

    /// The secrets that it names.
    pub fn secrets(&self) -> Vec<&str> {
        self.secrets_by_path().into_iter().map(|(_, name)| name).collect()
    }

    /// The secrets that it names, each with the JSON pointer of its field.
    fn secrets_by_path(&self) -> Vec<(String, &str)> {
        let named: Vec<(String, &SecretRef)> = match self {
            Self::Postgres(source) => {
                let fields = [("/url", &source.url), ("/password", &source.password)];
                fields.into_iter().filter_map(|(path, secret)| Some((path.to_owned(), secret.as_ref()?))).collect()
            }
            Self::Sqlite(_) => Vec::new(),
            Self::Http(source) => {
                let auth = source.auth.iter().map(|auth| match auth {
                    HttpAuth::Bearer { token } => ("/auth/token".to_owned(), token),
                    HttpAuth::Basic { password, .. } => ("/auth/password".to_owned(), password),
                });
                let headers = source.headers.iter().filter_map(|(header, value)| match value {
                    SecretOrText::Secret(secret) => Some((format!("/headers/{header}"), secret)),
                    SecretOrText::Text(_) => None,
                });
                auth.chain(headers).collect()
            }
        };
        named.into_iter().map(|(path, secret)| (path, secret.name.as_str())).collect()
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = match self {
            Self::Postgres(source) => source.problems(),
            Self::Sqlite(source) => source.problems(),
            Self::Http(source) => source.problems(),
        };
        for (path, secret) in self.secrets_by_path().into_iter().filter(|(_, name)| !fields::is_name(name)) {
            let problem = Problem::at(path, format!("{secret:?} is not a valid name of a secret"));
            problems.push(problem.hint("1 to 128 letters, digits, `_`, `-` or `.`"));
        }
        problems
    }
}

impl PostgresSource {
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let parts = [
            ("host", self.host.is_some()),
            ("port", self.port.is_some()),
            ("database", self.database.is_some()),
            ("user", self.user.is_some()),
            ("password", self.password.is_some()),
        ];
        for (part, is_there) in parts {
            if self.url.is_some() && is_there {
                problems.push(Problem::at(
                    format!("/{part}"),
                    format!("the URL already contains it: remove `{part}` or `url`"),
                ));
            }
            if self.url.is_none() && !is_there && matches!(part, "host" | "database" | "user") {
                let hint = "set host, database and user, or `url` as a secret";
                problems.push(Problem::at(format!("/{part}"), format!("`{part}` is missing")).hint(hint));
            }
        }
        if self.host.as_deref().is_some_and(|host| !is_host(host)) {
            let hint = "a name such as db.example.com or an IP address; the port is a separate field";
            problems.push(Problem::at("/host", "it is not a valid name or address of one host").hint(hint));
        }
        for (field, value) in [("database", &self.database), ("user", &self.user)] {
            if value.as_deref().is_some_and(|value| value.contains('\0')) {
                problems.push(Problem::at(format!("/{field}"), "it contains a NUL character"));
            }
        }
        let verifies = matches!(self.ssl_mode, Some(SslMode::VerifyCa | SslMode::VerifyFull));
        match &self.root_certificate {
            None if self.ssl_mode == Some(SslMode::VerifyCa) => {
                let hint = "the certificates to trust, in PEM: -----BEGIN CERTIFICATE-----…";
                problems.push(Problem::at("/rootCertificate", "this sslMode needs `rootCertificate`").hint(hint));
            }
            Some(_) if !verifies => {
                let hint = "use \"sslMode\": \"verify-full\"";
                let message = "this sslMode checks no certificate, so the field would have no effect";
                problems.push(Problem::at("/rootCertificate", message).hint(hint));
            }
            Some(pem) => {
                if let Err(error) = everstep_net::tls::roots(pem.as_bytes()) {
                    problems.push(Problem::at("/rootCertificate", error.to_string()));
                }
            }
            None => {}
        }
        problems
    }
}

impl SqliteSource {
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let is_plain = Path::new(&self.file).components().all(|part| matches!(part, Component::Normal(_)));
        if !is_plain || self.file.contains('\0') {
            let hint = "write it as \"shop.db\" or \"folder/shop.db\"";
            problems.push(Problem::at("/file", "`file` is not a path within the folder of SQLite files").hint(hint));
        }
        if !self.read_only {
            problems.push(Problem::at("/readOnly", "a SQLite file is read-only").hint("drop `readOnly`"));
        }
        problems
    }
}

impl HttpSource {
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        match reqwest::Url::parse(&self.base_url) {
            Err(error) => {
                problems.push(Problem::at("/baseUrl", format!("`baseUrl` is not a valid URL: {error}")));
            }
            Ok(url) => {
                if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
                    problems.push(Problem::at("/baseUrl", "it must begin with https:// or http://"));
                }
                if !url.username().is_empty() || url.password().is_some() {
                    let hint = "use `auth` with a secret";
                    problems.push(Problem::at("/baseUrl", "it contains credentials").hint(hint));
                }
                if url.query().is_some() || url.fragment().is_some() {
                    let hint = "put parameters into the query's `http.query`";
                    problems.push(Problem::at("/baseUrl", "it has a part after `?` or `#`").hint(hint));
                }
            }
        }
        for (name, value) in &self.headers {
            let path = format!("/headers/{}", fields::escape(name));
            let lower = name.to_ascii_lowercase();
            if reqwest::header::HeaderName::try_from(name).is_err() {
                problems.push(Problem::at(&path, "it is not a valid name of a header"));
            } else if OWN_HEADERS.contains(&&*lower) {
                problems.push(Problem::at(&path, "the client sets this header itself"));
            }
            match value {
                SecretOrText::Text(_) if SECRET_HEADERS.contains(&&*lower) => {
                    problems.push(Problem::at(&path, "a credential must be a secret").hint(HINT_SECRET));
                }
                SecretOrText::Text(text) if reqwest::header::HeaderValue::try_from(text).is_err() => {
                    problems.push(Problem::at(&path, "it is not a valid value of a header"));
                }
                SecretOrText::Text(_) | SecretOrText::Secret(_) => {}
            }
            if lower == "authorization" && self.auth.is_some() {
                problems.push(Problem::at(&path, "`auth` sets this header as well").hint("remove one of them"));
            }
        }
        if matches!(&self.auth, Some(HttpAuth::Basic { username, .. }) if username.contains(':')) {
            problems.push(Problem::at("/auth/username", "it must not contain a colon"));
        }
        problems
    }
}

/// Literal credentials. They are reported before everything else, and never repeated.
fn literals(body: &Value) -> Vec<Problem> {
    let places = ["/password", "/url", "/auth/password", "/auth/token"];
    let is_literal = |path: &&str| body.pointer(path).is_some_and(|value| value.is_string() || value.is_number());
    let tell = |path: &str| Problem::at(path, "a credential must be a secret").hint(HINT_SECRET);
    places.iter().filter(|path| is_literal(path)).map(|path| tell(path)).collect()
}

fn is_host(host: &str) -> bool {
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    is_address || host.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_'))
}
