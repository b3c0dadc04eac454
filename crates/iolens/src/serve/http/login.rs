//! Browser login: a link with the token, as other local servers print it, sets a cookie.

use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context as _, Result};
use axum::extract::Query;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};

use super::guard::{Rules, same};
use super::problem::Problem;

/// The query parameter of the link.
const PARAMETER: &str = "token";
/// The token is this long in hexadecimal, that is twice as many characters.
const RANDOM_BYTES: u64 = 16;

/// Creates a random token.
///
/// # Errors
/// The system cannot provide random numbers.
pub fn new_token() -> Result<Vec<u8>> {
    let place = "/dev/urandom";
    let mut random = Vec::new();
    let source = std::fs::File::open(place).context(place)?;
    source
        .take(RANDOM_BYTES)
        .read_to_end(&mut random)
        .context(place)?;
    Ok(hex(&random).into_bytes())
}

/// The login link of a server that listens on `at`.
pub fn link(at: SocketAddr, token: &[u8]) -> String {
    // A server on the unspecified address also listens on loopback; a browser cannot connect to the unspecified
    // address itself.
    let mut called = at;
    match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => called.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => called.set_ip(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    let mut encoded = String::new();
    for byte in token {
        match byte.is_ascii_alphanumeric() {
            true => encoded.push(char::from(*byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("http://{called}/?{PARAMETER}={encoded}")
}

/// The token in the URL of a login link.
fn token_of(uri: &Uri) -> Option<String> {
    if uri.path() != "/" {
        return None;
    }
    let Query(given) = Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?;
    let (_, token) = given.into_iter().find(|(name, _)| name == PARAMETER)?;
    Some(token)
}

/// Whether the URL is a login link. [`answer`] checks its token.
pub fn is_link(uri: &Uri) -> bool {
    token_of(uri).is_some()
}

/// The response to a login link; `None` for other requests. It redirects, so that the token leaves the URL, which
/// people copy.
pub fn answer(rules: &Rules, uri: &Uri) -> Option<Response> {
    let given = token_of(uri)?;
    let Some(token) = rules.token.as_ref().filter(|t| same(given.as_bytes(), t)) else {
        let problem = Problem::new(
            StatusCode::UNAUTHORIZED,
            "the token of this link is not this server's; print a new link",
        );
        return Some(problem.into_response());
    };
    let rest = uri.query().unwrap_or_default().split('&');
    let rest = rest.filter(|part| !part.starts_with("token="));
    let rest: Vec<&str> = rest.collect();
    let location = match rest.is_empty() {
        true => "/".to_owned(),
        false => format!("/?{}", rest.join("&")),
    };
    let cookie = format!(
        "{}={}; Path=/; HttpOnly; SameSite=Strict",
        rules.cookie,
        hex(token)
    );
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_str(&location).ok()?);
    headers.insert(header::SET_COOKIE, HeaderValue::from_str(&cookie).ok()?);
    Some(response)
}

/// Whether the request comes from a logged-in browser.
pub fn has_cookie(rules: &Rules, headers: &HeaderMap) -> bool {
    let Some(token) = &rules.token else {
        return false;
    };
    let expected = format!("{}={}", rules.cookie, hex(token));
    let lines = headers.get_all(header::COOKIE).iter();
    lines.filter_map(|line| line.to_str().ok()).any(|line| {
        line.split(';')
            .any(|cookie| same(cookie.trim().as_bytes(), expected.as_bytes()))
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rules() -> Rules {
        Rules {
            token: Some(b"0123456789ab&d=f".to_vec()),
            cookie: "iolens-1".to_owned(),
            ..Rules::default()
        }
    }

    #[test]
    fn the_link_becomes_a_cookie_and_an_address_without_the_token() {
        let at = "127.0.0.1:9950".parse().unwrap();
        let link = link(at, b"0123456789ab&d=f");
        assert!(link.starts_with("http://127.0.0.1:9950/?"), "{link}");
        let uri: Uri = format!("{link}&host=h&from=-5m").parse().unwrap();
        let response = answer(&rules(), &uri).unwrap();
        assert_eq!(response.status(), 303);
        assert_eq!(response.headers()[header::LOCATION], "/?host=h&from=-5m");
        let cookie = response.headers()[header::SET_COOKIE].to_str().unwrap();
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        let mut headers = HeaderMap::new();
        assert!(!has_cookie(&rules(), &headers));
        let given = cookie.split(';').next().unwrap();
        let line = format!("other=1; {given}");
        headers.insert(header::COOKIE, HeaderValue::from_str(&line).unwrap());
        assert!(has_cookie(&rules(), &headers));
        let other = Rules {
            token: Some(b"another token...".to_vec()),
            ..rules()
        };
        assert!(!has_cookie(&other, &headers));
    }

    #[test]
    fn a_server_at_all_addresses_is_called_by_loopback() {
        let called = |at: &str| link(at.parse().unwrap(), b"0123456789abcdef");
        let v4 = called("0.0.0.0:9950");
        assert_eq!(v4, "http://127.0.0.1:9950/?token=0123456789abcdef");
        let v6 = called("[::]:9950");
        assert_eq!(v6, "http://[::1]:9950/?token=0123456789abcdef");
        let other = called("192.0.2.1:80");
        assert_eq!(other, "http://192.0.2.1:80/?token=0123456789abcdef");
    }

    #[test]
    fn a_wrong_link_is_refused_and_other_requests_are_none() {
        let status = |uri: &str| answer(&rules(), &uri.parse().unwrap()).map(|r| r.status());
        assert_eq!(status("/?token=wrong"), Some(StatusCode::UNAUTHORIZED));
        assert_eq!(status("/?token="), Some(StatusCode::UNAUTHORIZED));
        assert_eq!(status("/"), None);
        assert_eq!(status("/api/v1/report?token=wrong"), None);
    }

    #[test]
    fn tokens_are_long_and_differ() {
        let token = new_token().unwrap();
        assert_eq!(token.len(), 32);
        assert_ne!(token, new_token().unwrap());
    }
}
