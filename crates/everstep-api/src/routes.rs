//! The table of routes. A route stands here with what it needs, or it does not exist.

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::{self, Next};
use axum::routing::{MethodFilter, on};

use crate::auth::{self, Permission};
use crate::query::Query;
use crate::server::Served;
use crate::{controls, health, journal, nodes, problem, runs, starts, workflows};

/// One route, as tests and documents see it.
#[derive(Clone, Debug)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    /// The permission that a key needs; `None` where no key is asked for.
    pub needs: Option<Permission>,
}

/// Every route of this server.
pub fn routes() -> Vec<Route> {
    table().routes
}

pub(crate) fn router(served: Served) -> Router {
    let Table { open, guarded, .. } = table();
    let guarded = guarded
        .fallback(problem::nothing_here)
        .method_not_allowed_fallback(problem::wrong_method)
        .layer(middleware::from_fn_with_state(served.clone(), auth::authenticate));
    open.method_not_allowed_fallback(problem::wrong_method).merge(guarded).with_state(served)
}

fn table() -> Table {
    use Permission::{Admin, Manage, Publish, Read, View};
    Table::default()
        .open(Method::GET, "/livez", health::live)
        .open(Method::GET, "/readyz", health::ready)
        .guarded(Publish, Method::PUT, "/v1/workflows/{name}", &[], workflows::put)
        .guarded(Read, Method::GET, "/v1/workflows/{name}", &["version"], workflows::get)
        .guarded(Manage, Method::POST, "/v1/workflows/{name}/runs", &["waitSeconds"], starts::of_workflow)
        .guarded(Manage, Method::POST, "/v1/workflow-runs", &["waitSeconds"], starts::of_definition)
        .guarded(Manage, Method::POST, "/api/v1/workflow-runs", &["waitSeconds"], starts::of_definition)
        .guarded(View, Method::GET, "/v1/runs", runs::FILTERS, runs::list)
        .guarded(View, Method::GET, "/v1/runs/{id}", &["waitSeconds"], runs::get)
        .guarded(View, Method::GET, "/v1/runs/{id}/journal", &["after", "limit"], journal::get)
        .guarded(Manage, Method::POST, "/v1/runs/{id}/signals/{event}", &[], controls::signal)
        .guarded(Manage, Method::POST, "/v1/runs/{id}/cancel", &[], controls::cancel)
        .guarded(Manage, Method::POST, "/v1/runs/{id}/pause", &[], controls::pause)
        .guarded(Manage, Method::POST, "/v1/runs/{id}/resume", &[], controls::resume)
        .guarded(Manage, Method::POST, "/v1/runs/{id}/retry", &[], controls::retry)
        .guarded(Admin, Method::GET, "/v1/nodes", &[], nodes::list)
}

#[derive(Default)]
struct Table {
    open: Router<Served>,
    guarded: Router<Served>,
    routes: Vec<Route>,
}

impl Table {
    /// A route that anybody may ask.
    fn open<H, T>(mut self, method: Method, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Served>,
        T: 'static,
    {
        self.open = self.open.route(path, on(filter(&method), handler));
        self.routes.push(Route { method, path, needs: None });
        self
    }

    /// A route for keys with a permission. It is asked with these query parameters and no others.
    fn guarded<H, T>(
        mut self,
        needs: Permission,
        method: Method,
        path: &'static str,
        parameters: &'static [&'static str],
        handler: H,
    ) -> Self
    where
        H: Handler<T, Served>,
        T: 'static,
    {
        let read_query = move |request: Request, next: Next| Query::read(parameters, request, next);
        let permit = move |request: Request, next: Next| auth::permit(needs, request, next);
        let route = on(filter(&method), handler)
            .route_layer(middleware::from_fn(read_query))
            .route_layer(middleware::from_fn(permit));
        self.guarded = self.guarded.route(path, route);
        self.routes.push(Route { method, path, needs: Some(needs) });
        self
    }
}

fn filter(method: &Method) -> MethodFilter {
    MethodFilter::try_from(method.clone()).expect("the table names usual methods")
}
