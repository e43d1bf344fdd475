//! A server in this process, and a client.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, Response};
use everstep_api::auth::identity::{IdentityOptions, IdentityProvider};
use everstep_api::auth::{ApiKey, Keys, Permission, RoleMaps};
use everstep_api::{
    AppServices, AppState, Audit, BodyMemory, BodyOptions, CheckOptions, Checks, Meters, Quotas, StreamHub, Streams,
    Uploads, WaitPlaces, serve,
};
use everstep_core::ids::WorkspaceId;
use everstep_engine::{
    DeadLetters, Engine, NoObserver, NoPeers, NodeClock, Options, Peers, Records, SystemRng, TokioSpawner, World,
};
use everstep_expressions::Expressions;
use everstep_handlers::sources::Drivers;
use everstep_handlers::{Ports, Registry, Secrets};
use everstep_net::Guard;
use everstep_store::sqlite::SqliteStore;
use everstep_store::{AccessStore, RecordStore, Stores};
use everstep_testkit::held::HeldClock;
use everstep_vault::{DataSources, Keyring, SealKey, Vault, WorkspaceOptions};
use futures_util::future::{self, Either};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

pub(crate) struct Server {
    pub(crate) access: Arc<dyn AccessStore>,
    pub(crate) vault: Arc<Vault>,
    pub(crate) engine: Engine,
    pub(crate) database: Arc<SqliteStore>,
    url: String,
    /// An admin API key.
    key: String,
    client: Client<HttpConnector, Full<Bytes>>,
    /// Stops the server when it is dropped.
    pub(crate) running: Option<oneshot::Sender<()>>,
    /// The folder of its database, and of the SQLite files that data sources may read.
    pub(crate) folder: TempDir,
}

/// The settings of a server.
pub(crate) struct Setup {
    pub(crate) streams: Streams,
    pub(crate) keyring: Option<Keyring>,
    pub(crate) clock: NodeClock,
    pub(crate) identity: Option<IdentityOptions>,
    /// Requests per second of a caller.
    pub(crate) rate_limit: u32,
    pub(crate) bodies: BodyOptions,
    pub(crate) connections_max: usize,
    /// Replaces the store of records.
    pub(crate) records: Option<WrapRecords>,
    pub(crate) serves_console: bool,
}

pub(crate) type WrapRecords = Box<dyn FnOnce(Arc<dyn RecordStore>) -> Arc<dyn RecordStore> + Send>;

impl Default for Setup {
    fn default() -> Self {
        Self {
            streams: Streams::default(),
            keyring: None,
            clock: NodeClock::system(),
            identity: None,
            rate_limit: everstep_api::auth::RATE_LIMIT_DEFAULT,
            bodies: BodyOptions::default(),
            connections_max: 1_000,
            records: None,
            serves_console: true,
        }
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    /// A problem document with this code.
    #[track_caller]
    pub(crate) fn refuses(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.body);
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.body["status"], status);
        assert!(!self.body["detail"].as_str().unwrap().is_empty());
        self.body
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(Streams::default()).await
    }

    pub(crate) async fn start_with(streams: Streams) -> Self {
        let keyring = Some(Keyring::new(SealKey::generate(), Vec::new()));
        Self::launch(Setup { streams, keyring, ..Setup::default() }).await
    }

    pub(crate) async fn start_on(clock: NodeClock) -> Self {
        Self::launch(Setup { clock, ..Setup::default() }).await
    }

    /// A server without a key for secrets.
    pub(crate) async fn without_secrets_key() -> Self {
        Self::launch(Setup::default()).await
    }

    pub(crate) async fn launch(setup: Setup) -> Self {
        let Setup { streams, keyring, clock, identity, rate_limit, bodies, connections_max, records, serves_console } =
            setup;
        let folder = tempfile::tempdir().unwrap();
        let database = open(&folder);
        let mut stores = Stores::new(Arc::clone(&database));
        if let Some(wrap) = records {
            stores.records = wrap(stores.records);
        }
        let vault = Arc::new(Vault::new(Arc::clone(&stores.resources), keyring));
        let sources = Arc::new(DataSources::new(Arc::clone(&stores.resources)));
        // The data sources of these tests are on this machine.
        let secrets: Arc<dyn Secrets> = Arc::<Vault>::clone(&vault);
        let own = Some(folder.path().to_owned());
        let drivers = Drivers::new(everstep_net::Client::new(Guard::open()), Arc::clone(&secrets), own);
        let sources_port = Arc::<DataSources>::clone(&sources);
        let client = everstep_net::Client::new(Guard::open());
        let notify_policy = Arc::new(WorkspaceOptions::new(Arc::clone(&stores.access)));
        let ports =
            Ports { sources: sources_port, drivers: drivers.clone(), client, secrets, notify_policy, ..Ports::none() };
        let engine = engine_on(&stores, ports, Arc::new(NoPeers), clock).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let access = Arc::clone(&stores.access);
        let keys = Arc::new(Keys::new(Arc::clone(&access), rate_limit));
        // The identity provider of a test is on this machine.
        let client = everstep_net::Client::new(Guard::open());
        let roles = identity.as_ref().map(|options| options.roles.clone()).unwrap_or_default();
        let identity = identity.map(|options| {
            options.check().unwrap();
            Arc::new(IdentityProvider::new(options, client, Arc::clone(&access)))
        });
        let meters: Arc<Meters> = Arc::default();
        let audit = Audit::start(Arc::clone(&access), &meters);
        let hub = Arc::new(StreamHub::new(streams));
        let app = AppState::new(AppServices {
            engine: engine.clone(),
            workflows: stores.workflows,
            access: Arc::clone(&access),
            keys,
            identity,
            role_maps: RoleMaps::new(roles, Arc::clone(&access)),
            audit,
            vault: Arc::clone(&vault),
            sources,
            drivers,
            meters,
            store: "sqlite",
            hub,
            connections_max,
            wait_places: WaitPlaces::new(connections_max),
            bodies: BodyMemory::new(bodies),
            checks: Checks::new(CheckOptions::default()),
            uploads: Uploads::default(),
            quotas: Quotas::default(),
            serves_console,
        });
        let (running, stopped) = oneshot::channel();
        tokio::spawn(serve(listener, app, async {
            // A closed channel means the same.
            let _: Result<(), _> = stopped.await;
        }));
        let client = Client::builder(TokioExecutor::new()).build_http();
        let key = add_key(&*access, WorkspaceId::DEFAULT, &[Permission::Admin]).await;
        Self { access, vault, engine, database, url, key, client, running: Some(running), folder }
    }

    /// Creates an API key of the default workspace.
    pub(crate) async fn key_with(&self, permissions: &[Permission]) -> String {
        add_key(&*self.access, WorkspaceId::DEFAULT, permissions).await
    }

    /// Its address: `127.0.0.1:…`.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// An admin API key.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Sends a request with an API key.
    pub(crate) async fn ask_as(&self, key: &str, method: Method, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.ask(method, path, &[("x-api-key", key)], &body).await
    }

    /// Sends a request, and reads only the status of the response: that of a live route never ends.
    pub(crate) async fn knock(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> u16 {
        self.send(method, path, headers, body).await.status().as_u16()
    }

    /// Sends a request with only these headers.
    pub(crate) async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let response = self.send(method, path, headers, body).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = if body.is_empty() { Value::Null } else { read(&body) };
        Answer { status, headers, body }
    }

    /// Sends a request, and returns as soon as the response begins.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response<Body> {
        self.send_bytes(method, path, headers, Bytes::from(body.to_owned())).await
    }

    /// Sends a request with any body.
    pub(crate) async fn send_bytes(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body)).unwrap();
        self.client.request(request).await.unwrap().map(Body::new)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[("x-api-key", &self.key)], "").await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, &[("x-api-key", &self.key)], "").await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.ask(Method::PUT, path, &[("x-api-key", &self.key)], &body.to_string()).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, &[], body).await
    }

    pub(crate) async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let headers: Vec<_> = headers.iter().copied().chain([("x-api-key", &*self.key)]).collect();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.ask(Method::POST, path, &headers, &body).await
    }

    pub(crate) async fn ask_as_admin(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Answer {
        let headers: Vec<_> = headers.iter().copied().chain([("x-api-key", &*self.key)]).collect();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.ask(method, path, &headers, &body).await
    }

    /// Saves a workflow, new or not, as the active version.
    pub(crate) async fn publish(&self, name: &str, definition: &Value) -> Value {
        let answer = self.put(&format!("/v1/workflows/{name}"), definition).await;
        assert!([200, 201].contains(&answer.status), "{}", answer.body);
        answer.body
    }

    /// Saves a workflow whose nodes are in sequence, starts a run of it and returns the run's path.
    pub(crate) async fn start_chain(&self, name: &str, middle: &[Value]) -> String {
        self.publish(name, &chain(middle)).await;
        let started = self.post(&format!("/v1/workflows/{name}/runs"), &Value::Null).await.is(201);
        format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap())
    }

    /// Waits until a run has a status.
    pub(crate) async fn wait_for(&self, path: &str, status: &str) -> Value {
        for _ in 0..1_000 {
            let run = self.get(path).await.is(200);
            if run["status"] == status {
                return run;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the run is not {status}: {}", self.get(path).await.body);
    }
}

/// Waits until a value exists.
pub(crate) async fn until<T>(what: &str, mut there: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..1_000 {
        if let Some(there) = there().await {
            return there;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("timed out waiting for {what}");
}

/// The number of polls and sockets that a session has had.
pub(crate) fn carriers(engine: &Engine, session: &str) -> u64 {
    let session = engine.session(WorkspaceId::DEFAULT, session.parse().unwrap()).unwrap();
    (0..1_000).find(|carrier| session.is_carried_by(*carrier)).expect("the session goes on")
}

/// Waits until there were this many.
pub(crate) async fn until_carriers(engine: &Engine, session: &str, count: u64) {
    until("a poll", async || (carriers(engine, session) == count).then_some(())).await;
}

/// JSON, or the text if it is not JSON.
fn read(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| String::from_utf8_lossy(body).into_owned().into())
}

/// An engine on a separate database.
pub(crate) async fn engine(folder: &TempDir, peers: Arc<dyn Peers>) -> Engine {
    engine_on(&Stores::new(open(folder)), Ports::none(), peers, NodeClock::system()).await
}

fn open(folder: &TempDir) -> Arc<SqliteStore> {
    Arc::new(SqliteStore::open(folder.path(), &Default::default()).unwrap())
}

async fn engine_on(stores: &Stores, ports: Ports, peers: Arc<dyn Peers>, clock: NodeClock) -> Engine {
    let (clock, random) = (Arc::new(clock), Arc::new(SystemRng::default()));
    let options = Options { shards: 1, ..Options::default() };
    let store = Arc::clone(&stores.records);
    let records = Records::new(store, Arc::clone(&clock), Arc::<SystemRng>::clone(&random), &options);
    let world = World {
        runs: Arc::clone(&stores.runs),
        workflows: Arc::clone(&stores.workflows),
        topics: Arc::clone(&stores.topics),
        dead_letters: DeadLetters::new(Arc::clone(&stores.dead_letters), None),
        files: Arc::clone(&stores.files),
        clock,
        spawn: Arc::new(TokioSpawner::current()),
        random,
        evaluate: Arc::new(Expressions::default()),
        handlers: Arc::new(Registry::standard(Ports { records: Arc::<Records>::clone(&records), ..ports })),
        records,
        peers,
        observe: Arc::new(NoObserver),
    };
    Engine::start(world, options).await.unwrap()
}

pub(crate) async fn add_key(access: &dyn AccessStore, workspace: WorkspaceId, permissions: &[Permission]) -> String {
    let secret = ApiKey::generate();
    let row = secret.row(workspace, "test", permissions, everstep_core::time::Timestamp::EPOCH);
    access.add_key(&row).await.unwrap();
    secret.reveal().to_owned()
}

/// A graph whose nodes are in sequence.
pub(crate) fn chain(middle: &[Value]) -> Value {
    let mut nodes = vec![json!({"id": "start", "type": "start"})];
    nodes.extend_from_slice(middle);
    nodes.push(json!({"id": "end", "type": "end"}));
    let edges: Vec<_> =
        nodes.windows(2).map(|pair| json!({"source": pair[0]["id"], "target": pair[1]["id"]})).collect();
    json!({"nodes": nodes, "edges": edges})
}

/// A node that waits for the signal `go`.
pub(crate) fn wait_for_go() -> Value {
    json!({"id": "wait", "type": "wait", "config": {"event": "go"}})
}

/// Revokes an API key of the default workspace.
pub(crate) async fn revoke(server: &Server, key: &str) {
    let hash = key.parse::<ApiKey>().unwrap_or_else(|_| panic!("{key} is a key")).hash();
    let row = server.access.find_key(&hash).await.unwrap().unwrap();
    server.access.revoke_key(row.workspace, row.id, everstep_core::time::Timestamp::EPOCH).await.unwrap();
}

/// Passes the time of a request until it is answered.
pub(crate) async fn answer_after(held: &HeldClock, request: impl Future<Output = Answer>) -> Answer {
    let passing = async {
        for _ in 0..3_000 {
            held.wake();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    match future::select(pin!(request), pin!(passing)).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => panic!("the request waits although its time has passed"),
    }
}
