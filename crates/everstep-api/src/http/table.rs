//! A row of the table: method and path, access, text and handler of a route.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::Method;
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use futures_util::future::BoxFuture;

use crate::auth::{self, Access, Gate, TICKET, TicketPolicy};
use crate::http::openapi::{Doc, Parameter};
use crate::http::query::Query;

/// One route, for tests and documents.
#[derive(Clone, Debug)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    /// The requirement on its caller.
    pub access: Access,
    pub(crate) doc: Arc<Doc>,
}

impl Route {
    /// Its summary.
    pub fn summary(&self) -> &'static str {
        self.doc.summary
    }

    /// Whether it accepts a ticket instead of an API key.
    pub fn is_live(&self) -> bool {
        ticket_policy(&self.doc) == TicketPolicy::Accepted
    }
}

/// Rows of routes. `S` is the state that their handlers share.
pub(crate) struct Table<S> {
    pub(crate) open: Router<S>,
    pub(crate) guarded: Router<S>,
    pub(crate) routes: Vec<Route>,
    /// The path parameters, each with the path segment before it.
    pub(crate) path_parameters: Vec<(&'static str, Parameter)>,
    /// The first segments of all paths, also of those that `routes` does not list.
    pub(crate) segments: BTreeSet<&'static str>,
}

impl<S: Clone + Send + Sync + 'static> Default for Table<S> {
    fn default() -> Self {
        Self {
            open: Router::new(),
            guarded: Router::new(),
            routes: Vec::new(),
            path_parameters: Vec::new(),
            segments: BTreeSet::new(),
        }
    }
}

impl<S: Clone + Send + Sync + 'static> Table<S> {
    /// The routes of a group with a separate list.
    pub(crate) fn with(self, add: fn(Self) -> Self) -> Self {
        add(self)
    }

    /// Describes the path parameter that follows a segment: `workflows/{name}`.
    pub(crate) fn path_parameter(mut self, segment: &'static str, parameter: Parameter) -> Self {
        self.path_parameters.push((segment, parameter));
        self
    }

    /// A route without authentication.
    pub(crate) fn open<H, T>(self, method: Method, path: &'static str, doc: Doc, handler: H) -> Self
    where
        H: Handler<T, S, Future = BoxFuture<'static, Response>>,
        T: 'static,
    {
        self.add_open(method, path, doc, erase(handler))
    }

    fn add_open(mut self, method: Method, path: &'static str, doc: Doc, respond: Respond<S>) -> Self {
        let parameters = doc.query;
        let answer = move |State(state): State<S>, request: Request| {
            let respond = Arc::clone(&respond);
            Query::read(parameters, request, move |request| respond(request, state))
        };
        self.segments.insert(first_segment(path));
        self.open = self.open.route(path, on(filter(&method), answer));
        self.routes.push(Route { method, path, access: Access::Public, doc: Arc::new(doc) });
        self
    }

    /// Adds a route of a protocol with its own authentication. Documents and the tests of all routes do not list it.
    pub(crate) fn protocol<H, T>(mut self, method: &Method, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        self.segments.insert(first_segment(path));
        self.open = self.open.route(path, on(filter(method), handler));
        self
    }

    /// A route for API keys, or for those with a permission. It accepts only the query parameters of its text.
    pub(crate) fn guarded<H, T>(
        self,
        access: impl Into<Access>,
        method: Method,
        path: &'static str,
        doc: Doc,
        handler: H,
    ) -> Self
    where
        H: Handler<T, S, Future = BoxFuture<'static, Response>>,
        T: 'static,
    {
        self.add_guarded(access.into(), method, path, doc, erase(handler))
    }

    fn add_guarded(
        mut self,
        access: Access,
        method: Method,
        path: &'static str,
        doc: Doc,
        respond: Respond<S>,
    ) -> Self {
        let parameters = doc.query;
        let (is_dry, is_audited_per_minute) = (doc.is_dry, doc.is_audited_per_minute);
        let gate = Gate { path, access, tickets: ticket_policy(&doc), is_dry, is_audited_per_minute };
        let answer = move |State(state): State<S>, request: Request| {
            let respond = Arc::clone(&respond);
            let read_query = move |request| Query::read(parameters, request, move |request| respond(request, state));
            auth::permit(gate, request, read_query)
        };
        self.segments.insert(first_segment(path));
        self.guarded = self.guarded.route(path, on(filter(&method), answer));
        self.routes.push(Route { method, path, access, doc: Arc::new(doc) });
        self
    }
}

/// The handler of a route, whatever it reads from a request.
type Respond<S> = Arc<dyn Fn(Request, S) -> BoxFuture<'static, Response> + Send + Sync>;

/// Erases the type of a handler. Otherwise the compiler would make a copy of everything around the handler for each route.
fn erase<H, T, S>(handler: H) -> Respond<S>
where
    H: Handler<T, S, Future = BoxFuture<'static, Response>>,
    T: 'static,
{
    Arc::new(move |request, state| handler.clone().call(request, state))
}

/// A route with the query parameter `ticket` is a live one.
fn ticket_policy(doc: &Doc) -> TicketPolicy {
    if doc.query.iter().any(|parameter| parameter.is_called(TICKET)) {
        TicketPolicy::Accepted
    } else {
        TicketPolicy::Rejected
    }
}

fn first_segment(path: &'static str) -> &'static str {
    path.trim_start_matches('/').split('/').next().unwrap_or_default()
}

fn filter(method: &Method) -> MethodFilter {
    MethodFilter::try_from(method.clone()).expect("the table uses the usual methods")
}
