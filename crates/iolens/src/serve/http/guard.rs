//! Access control: host names, limits of concurrent requests, token; and the headers of every response.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::answer::holding;
use super::login;
use super::places::{Client, RequestKind, Traffic};
use super::problem::Problem;
use super::{App, page, routes};

/// The access rules of a server.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Host names accepted in addition to addresses; `None`: all, on a socket that no browser can reach.
    pub hosts: Option<Vec<String>>,
    /// Whether only loopback addresses are accepted.
    pub loopback: bool,
    /// The secret for requests that change something.
    pub token: Option<Vec<u8>>,
    /// Whether read requests need the token too.
    pub token_to_read: bool,
    /// If set, names of files and processes are left out of responses to clients that neither have the token nor use
    /// the socket. The text says in one line how to see them.
    pub how_to_see_names: Option<Arc<str>>,
    /// Name of the session cookie of a browser.
    pub cookie: String,
}

/// The other end of a connection, as reported by the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peer {
    /// It connected through a Unix socket, whose mode controls access.
    pub is_socket: bool,
    /// User id of the connecting process, for a Unix socket.
    pub uid: Option<u32>,
}

tokio::task_local! {
    /// How to see hidden names; set for the request that the current task serves.
    static LEFT_OUT: Option<Arc<str>>;
}

/// How to see the names that are hidden in the response of the current task; `None`: names are shown.
pub fn left_out() -> Option<Arc<str>> {
    match LEFT_OUT.try_with(Clone::clone) {
        Ok(how) => how,
        // Outside of a request, it is not known who will see the names.
        Err(_) => Some("names of files and processes are left out".into()),
    }
}

impl Rules {
    /// Whether the server may be addressed by this name. A page whose own name resolves to this server (DNS
    /// rebinding) sends that name, and a browser cannot be made to send another: addresses are safe, names must be
    /// listed.
    fn is_own_name(&self, host: &str) -> bool {
        let Some(names) = &self.hosts else {
            return true;
        };
        let name = without_port(host);
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(ip) => !self.loopback || ip.to_canonical().is_loopback(),
            Err(_) => names
                .iter()
                .any(|n| n.eq_ignore_ascii_case(name.trim_end_matches('.'))),
        }
    }

    /// Whether the request has the token, as a header or as the cookie of a logged-in browser.
    fn is_logged_in(&self, headers: &HeaderMap) -> bool {
        let has_token = self
            .token
            .as_ref()
            .is_some_and(|token| same(bearer(headers), token));
        has_token || login::has_cookie(self, headers)
    }

    /// How to see the names that the response leaves out; `None`: names are shown.
    fn left_out(&self, peer: Peer, headers: &HeaderMap) -> Option<Arc<str>> {
        if peer.is_socket || self.is_logged_in(headers) {
            return None;
        }
        self.how_to_see_names.clone()
    }

    fn check_host(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = hosts.next();
        let more = hosts.next();
        let host = host.and_then(|h| h.to_str().ok());
        let authority = uri.authority().map(|a| a.as_str());
        match (host, more) {
            (_, Some(_)) => Err(Problem::bad("several Host headers")),
            (None, None) if self.hosts.is_some() => {
                Err(Problem::bad("no Host header that can be read"))
            }
            (host, None)
                if host
                    .into_iter()
                    .chain(authority)
                    .all(|h| self.is_own_name(h)) =>
            {
                Ok(())
            }
            _ => Err(Problem::new(
                StatusCode::MISDIRECTED_REQUEST,
                "this server is not known by the name in the Host header; --allow-host NAME allows one",
            )),
        }
    }

    /// Another site's page may send any request, but it cannot hide its origin.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let foreign = match (headers.get("sec-fetch-site"), headers.get(header::ORIGIN)) {
            (Some(site), _) if site != "same-origin" && site != "none" => true,
            (_, Some(origin)) => {
                let origin = origin.to_str().unwrap_or("");
                let host = origin.split_once("://").map_or("", |(_, host)| host);
                Some(host) != headers.get(header::HOST).and_then(|h| h.to_str().ok())
            }
            _ => false,
        };
        if foreign {
            Err(Problem::new(
                StatusCode::FORBIDDEN,
                "a page of another server asks",
            ))
        } else {
            Ok(())
        }
    }

    fn check_token(&self, headers: &HeaderMap, method: &Method, peer: Peer) -> Result<(), Problem> {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        if (reads && (!self.token_to_read || login::has_cookie(self, headers)))
            || peer.uid.is_some_and(|uid| uid == 0 || uid == own_uid())
        {
            return Ok(());
        }
        let Some(token) = &self.token else {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "this changes something, and the server has no token; start it with --token-file, or ask through its unix socket",
            ));
        };
        if same(bearer(headers), token) {
            return Ok(());
        }
        Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "the token is missing or wrong: send Authorization: Bearer TOKEN",
        ))
    }
}

/// The token of the `Authorization` header; empty without one.
fn bearer(headers: &HeaderMap) -> &[u8] {
    let given = headers.get(header::AUTHORIZATION);
    let given = given.map(HeaderValue::as_bytes).unwrap_or_default();
    given.strip_prefix(b"Bearer ").unwrap_or_default()
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Compares in constant time.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if (!name.contains(':') || name.ends_with(']'))
                && port.bytes().all(|b| b.is_ascii_digit()) =>
        {
            name
        }
        _ => host,
    }
}

/// Every request passes here first.
pub async fn admit(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let peer: Peer = request.extensions().get().copied().unwrap_or_default();
    let answered = match check(&app, &request, peer) {
        Err(problem) => Err(problem),
        Ok(()) => match login::answer(&app.rules, request.uri()) {
            Some(response) => Ok(response),
            None => {
                let left_out = app.rules.left_out(peer, request.headers());
                LEFT_OUT
                    .scope(left_out, answered(&app, request, next))
                    .await
            }
        },
    };
    with_headers(answered.unwrap_or_else(Problem::into_response))
}

/// Serves the request. The response holds the request's place and counts as unread until the client has read it.
async fn answered(app: &App, mut request: Request, next: Next) -> Result<Response, Problem> {
    let traffic = request.extensions().get().cloned();
    let traffic: Arc<Traffic> = traffic.unwrap_or_else(|| Traffic::new(Client::Unknown));
    let may_be_of_fleet = page::may_be_of_fleet(request.headers(), request.uri());
    // The page of a fleet reads the store; every other page at `/` is sent from memory.
    let kind = if may_be_of_fleet && app.is_fleet().await {
        RequestKind::Heavy
    } else {
        routes::kind(request.uri().path())
    };
    request.extensions_mut().insert(kind);
    let place = app.places.enter(kind, &traffic)?;
    let response = tokio::time::timeout(app.time_limit_of(kind), next.run(request)).await;
    let response =
        response.map_err(|_| Problem::busy("this takes too long: ask for a shorter stretch"))?;
    // The response is short and must be sent even if other clients do not read theirs.
    if kind == RequestKind::Health {
        return Ok(response);
    }
    let unread = match kind {
        RequestKind::Metrics => &app.unread_metrics,
        _ => &app.unread,
    };
    let response = unread.counted(response, &app.places).await?;
    Ok(holding(response, place))
}

fn check(app: &App, request: &Request, peer: Peer) -> Result<(), Problem> {
    let headers = request.headers();
    let method = request.method();
    if !peer.is_socket {
        app.rules.check_host(headers, request.uri())?;
    }
    if !matches!(*method, Method::GET | Method::HEAD | Method::POST) {
        return Err(Problem::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET, HEAD and POST",
        ));
    }
    if *method == Method::POST {
        app.rules.check_origin(headers)?;
    }
    // Liveness is not secret, and probes of orchestrators carry no token. A login link has the token in its URL.
    let is_open = request.uri().path() == "/healthz" || login::is_link(request.uri());
    if is_open && *method != Method::POST {
        return Ok(());
    }
    app.rules.check_token(headers, method, peer)
}

/// Headers that restrict what browsers may do with a response.
fn with_headers(mut response: Response) -> Response {
    let fixed = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let headers = response.headers_mut();
    for (name, value) in fixed {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    headers.insert(
        "cross-origin-resource-policy",
        HeaderValue::from_static("same-origin"),
    );
    headers.insert(
        "cross-origin-opener-policy",
        HeaderValue::from_static("same-origin"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_without_the_port_and_addresses_are_no_names() {
        let of = |loopback| Rules {
            hosts: Some(vec!["localhost".to_owned(), "db1".to_owned()]),
            loopback,
            ..Rules::default()
        };
        let local = of(true);
        for own in [
            "localhost",
            "localhost:80",
            "LOCALHOST:9950",
            "127.0.0.1:9950",
            "[::1]:9950",
            "[::1]",
            "db1.",
            "127.0.0.1",
        ] {
            assert!(local.is_own_name(own), "{own}");
        }
        for foreign in [
            "evil.example",
            "evil.example:9950",
            "localhost.evil.example",
            "10.0.0.1",
            "",
            ":9950",
            "127.0.0.1.evil.example",
            "localhost:x",
        ] {
            assert!(!local.is_own_name(foreign), "{foreign}");
        }
        assert!(of(false).is_own_name("10.0.0.1:9950") && !of(false).is_own_name("evil.example"));
        assert!(Rules::default().is_own_name("whatever"));
    }

    #[test]
    fn tokens_are_compared_whole() {
        assert!(
            same(b"abc", b"abc")
                && !same(b"abc", b"abd")
                && !same(b"ab", b"abc")
                && !same(b"", b"abc")
        );
    }
}
