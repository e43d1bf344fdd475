//! How a route comes into being: with its method and path, what it needs, its text and its handler.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{self, Next};
use axum::routing::{MethodFilter, on};

use crate::auth::{self, Gate, Needs, TICKET, Tickets};
use crate::openapi::Doc;
use crate::query::Query;
use crate::server::Served;

/// One route, as tests and documents see it.
#[derive(Clone, Debug)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    /// What it asks of whoever comes.
    pub needs: Needs,
    pub(crate) doc: Arc<Doc>,
}

impl Route {
    /// What it does, in a few words.
    pub fn summary(&self) -> &'static str {
        self.doc.summary
    }

    /// Whether it may be asked with a ticket in place of a key.
    pub fn is_live(&self) -> bool {
        takes_tickets(&self.doc) == Tickets::Taken
    }
}

#[derive(Default)]
pub(crate) struct Table {
    pub(crate) open: Router<Served>,
    pub(crate) guarded: Router<Served>,
    pub(crate) routes: Vec<Route>,
}

impl Table {
    /// The routes of a group that has a list of its own.
    pub(crate) fn with(self, add: fn(Self) -> Self) -> Self {
        add(self)
    }

    /// A route that anybody may ask.
    pub(crate) fn open<H, T>(mut self, method: Method, path: &'static str, doc: Doc, handler: H) -> Self
    where
        H: Handler<T, Served>,
        T: 'static,
    {
        let parameters = doc.query;
        let read_query = move |request: Request, next: Next| Query::read(parameters, request, next);
        let route = on(filter(&method), handler).route_layer(middleware::from_fn(read_query));
        self.open = self.open.route(path, route);
        self.routes.push(Route { method, path, needs: Needs::Nothing, doc: Arc::new(doc) });
        self
    }

    /// The door to a protocol that asks for keys, and for permissions, in words of its own. It is no route of ours:
    /// documents do not list it, and it has its own tests.
    pub(crate) fn protocol<H, T>(mut self, method: &Method, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Served>,
        T: 'static,
    {
        self.open = self.open.route(path, on(filter(method), handler));
        self
    }

    /// A route for keys, or for those with a permission. It is asked with the query parameters of its text and no others.
    pub(crate) fn guarded<H, T>(
        mut self,
        needs: impl Into<Needs>,
        method: Method,
        path: &'static str,
        doc: Doc,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Served>,
        T: 'static,
    {
        let (needs, parameters) = (needs.into(), doc.query);
        let gate = Gate { path, needs, tickets: takes_tickets(&doc) };
        let read_query = move |request: Request, next: Next| Query::read(parameters, request, next);
        let permit = move |request: Request, next: Next| auth::permit(gate, request, next);
        let route = on(filter(&method), handler)
            .route_layer(middleware::from_fn(read_query))
            .route_layer(middleware::from_fn(permit));
        self.guarded = self.guarded.route(path, route);
        self.routes.push(Route { method, path, needs, doc: Arc::new(doc) });
        self
    }
}

/// A route that knows the query parameter `ticket` is a live one.
fn takes_tickets(doc: &Doc) -> Tickets {
    if doc.query.iter().any(|parameter| parameter.is_called(TICKET)) { Tickets::Taken } else { Tickets::Refused }
}

fn filter(method: &Method) -> MethodFilter {
    MethodFilter::try_from(method.clone()).expect("the table names usual methods")
}
