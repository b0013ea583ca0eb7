//! Live page of the admin port, for operators: files that browsers load, and what they may call from there.
//!
//! The page has no way of its own to locks and sessions: it calls the API's port as any other client does, with the caller's token, so
//! that permissions are the API's. `addresses` says where that port is, and which origin is the page's; `files` has the page itself,
//! which is in the folder `page` of the crate.

mod addresses;
mod files;

use std::{net::SocketAddr, sync::Arc};

use self::addresses::{Addresses, host_of};
use crate::config::Config;
use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::json;
use url::Host;

/// Path of the page on the admin port.
pub(crate) const PATH: &str = "/page/";

/// Headers of every answer, beside the policy of the page's contents.
const HEADERS: [(HeaderName, &str); 5] = [
    // Another version of the coordinator may serve other files.
    (header::CACHE_CONTROL, "no-cache"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Returns the host that a request calls, by its head.
fn called_host(head: &Parts) -> Option<Host> {
    let authority = match head.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => head
            .headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok()),
    };
    authority.and_then(host_of)
}

/// Returns whether a request calls a host that nobody can point elsewhere without a certificate: an address, or `localhost`.
pub(crate) fn has_certain_host(head: &Parts) -> bool {
    called_host(head).is_some_and(|host| addresses::is_certain(&host))
}

/// Returns whether a browser sent a request to a host that somebody may have pointed here after a page was loaded from elsewhere: then the
/// page reads the answer. The hosts of `cors-origins` and `page-coordinators` are the operator's own.
///
/// Such a request looks like any other of the same browser, without an origin. But every browser sends `Accept-Language`, and no
/// script can leave it out; what scrapes metrics or probes sends none.
pub(crate) fn is_doubtful(head: &Parts, config: &Config) -> bool {
    let named = [&config.cors_origins, &config.page_coordinators];
    let is_named = |host: &Host| {
        named
            .into_iter()
            .flatten()
            .any(|named| named.have_host(host))
    };
    let is_ours = |host: Host| addresses::is_certain(&host) || is_named(&host);
    head.headers.contains_key(header::ACCEPT_LANGUAGE) && !called_host(head).is_some_and(is_ours)
}

/// Live page of one coordinator.
#[derive(Clone, Debug)]
pub struct Page(Arc<Addresses>);

impl Page {
    /// Returns the page of a coordinator that listens on these addresses, unless the configuration turns it off.
    #[must_use]
    pub fn of(config: &Config, grpc: SocketAddr, admin: SocketAddr) -> Option<Self> {
        let addresses = Addresses::new(config, grpc, admin);
        config.page.then(|| Self(Arc::new(addresses)))
    }

    /// Returns whether a request to the API's port comes from this coordinator's page, by its head.
    #[must_use]
    pub fn is_origin(&self, origin: &HeaderValue, head: &Parts) -> bool {
        called_host(head).is_some_and(|host| self.0.is_own(origin.as_bytes(), &host))
    }

    /// Returns the routes of the page.
    pub(crate) fn routes(self) -> Router {
        Router::new()
            .route(PATH, get(index))
            .route("/page/settings.json", get(settings))
            .route("/page/{*path}", get(file))
            .with_state(self)
    }

    /// Returns the addresses that a page of the host in these headers may call.
    fn coordinators(&self, headers: &HeaderMap) -> Vec<String> {
        let host = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        let host = host.and_then(host_of);
        host.map_or_else(Vec::new, |host| self.0.coordinators(&host))
    }
}

async fn index(state: State<Page>, headers: HeaderMap) -> Response {
    file(state, Path("index.html".to_owned()), headers).await
}

/// Answers the page's first request.
async fn settings(State(page): State<Page>, headers: HeaderMap) -> Response {
    let settings = json!({ "coordinators": page.coordinators(&headers) });
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (HEADERS, headers, settings.to_string()).into_response()
}

async fn file(State(page): State<Page>, Path(path): Path<String>, headers: HeaderMap) -> Response {
    let Some((content_type, contents)) = files::find(&path) else {
        return (StatusCode::NOT_FOUND, HEADERS, "there is no such file\n").into_response();
    };
    let policy = policy(&page.coordinators(&headers));
    let headers = [
        (header::CONTENT_TYPE, content_type.to_owned()),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    (HEADERS, headers, contents).into_response()
}

/// Returns the policy under which browsers run the page: files of its own origin, and calls of these coordinators.
fn policy(coordinators: &[String]) -> String {
    let calls = coordinators.join(" ");
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' {calls}; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
}

#[cfg(test)]
mod tests {
    use axum::{
        body::{Body, to_bytes},
        http::Request,
    };
    use tower::ServiceExt;

    use super::*;

    async fn get(host: &str, path: &str) -> (StatusCode, HeaderMap, String) {
        let grpc = "127.0.0.1:7420".parse().unwrap();
        let admin = "127.0.0.1:7421".parse().unwrap();
        let page = Page::of(&Config::default(), grpc, admin).unwrap();
        let request = Request::get(path).header(header::HOST, host);
        let request = request.body(Body::empty()).unwrap();
        let response = page.routes().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        (
            head.status,
            head.headers,
            String::from_utf8(body.into()).unwrap(),
        )
    }

    #[tokio::test]
    async fn the_page_may_call_its_coordinator_and_nobody_else() {
        let (status, headers, body) = get("localhost:7421", PATH).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(headers[header::CONTENT_TYPE], "text/html; charset=utf-8");
        assert!(body.contains("<title>Leasehold</title>"));
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        let (_, _, settings) = get("localhost:7421", "/page/settings.json").await;
        for (text, part) in [
            (policy, "default-src 'none'; script-src 'self';"),
            (policy, " connect-src 'self' http://localhost:7420;"),
            (&settings, r#""coordinators":["http://localhost:7420"]"#),
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[tokio::test]
    async fn a_host_that_is_no_name_adds_nothing_to_the_policy() {
        for host in ["a;script-src *", "a;script-src", "'self'", "a,b", ""] {
            let (_, headers, _) = get(host, PATH).await;
            let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
            let itself = " connect-src 'self' ; base-uri";
            assert!(policy.contains(itself), "{host}: {policy}");
        }
    }

    #[tokio::test]
    async fn there_is_nothing_beside_the_page() {
        for path in ["/page/none.js", "/page/../leasehold.toml", "/page/views"] {
            let (status, ..) = get("localhost", path).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        }
    }
}
