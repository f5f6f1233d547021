//! Checks every request before anything else sees it, and adds the headers that every response has.
//!
//! ```text
//! Host ∈ names of the connection → Origin absent, or that host's → token → method POST ⇒ Origin present → route
//! ```
//!
//! Refusals have no body, and without the token every path looks the same.

use super::Server;
use super::address::names;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use layernorm_lab::report::SERVED_POLICY;
use std::net::SocketAddr;
use std::sync::Arc;

/// The address that a connection reached.
#[derive(Clone, Copy)]
pub struct Reached(pub SocketAddr);

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, SERVED_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Checks a request; passes it on or refuses it.
pub async fn guard(
    State(server): State<Arc<Server>>,
    Extension(Reached(reached)): Extension<Reached>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = match check(&server, reached, &request) {
        Ok(()) => next.run(request).await,
        Err(status) => status.into_response(),
    };
    // A route that does not exist, or not with this method: what the framework says is not for strangers.
    if response.status().is_client_error()
        && response.headers().get(header::CONTENT_TYPE).is_none_or(|of| of != "application/json")
    {
        *response.body_mut() = Body::empty();
    }
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn check(server: &Server, reached: SocketAddr, request: &Request) -> Result<(), StatusCode> {
    let names = names(reached);
    let host = only(request.headers(), &header::HOST)?.ok_or(StatusCode::FORBIDDEN)?;
    let is_ours = |name: &str| names.iter().any(|ours| ours.eq_ignore_ascii_case(name));
    // The target of a request may name a host too: `GET http://elsewhere/ HTTP/1.1`.
    let target = request.uri().authority().map_or(host, |authority| authority.as_str());
    if !is_ours(host) || !is_ours(target) {
        return Err(StatusCode::FORBIDDEN);
    }
    let origin = only(request.headers(), &header::ORIGIN)?;
    let expected = |origin: &str| origin.strip_prefix("http://").is_some_and(|name| name.eq_ignore_ascii_case(host));
    if origin.is_some_and(|origin| !expected(origin)) {
        return Err(StatusCode::FORBIDDEN);
    }
    let first = request.uri().path().strip_prefix('/').and_then(|path| path.split_once('/'));
    if !first.is_some_and(|(first, _)| server.token.is(first)) {
        return Err(StatusCode::NOT_FOUND);
    }
    match *request.method() {
        Method::GET | Method::HEAD => Ok(()),
        // Browsers name the origin of every POST.
        Method::POST if origin.is_none() => Err(StatusCode::FORBIDDEN),
        Method::POST => Ok(()),
        _ => Err(StatusCode::METHOD_NOT_ALLOWED),
    }
}

/// The value of a header that may occur once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, StatusCode> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(|value| value.to_str().map_err(|_| StatusCode::BAD_REQUEST)).transpose()?;
    if values.next().is_some() { Err(StatusCode::BAD_REQUEST) } else { Ok(value) }
}
