//! The origin of a page: browsers name it in each upgrade request, and send the cookies of a user along with
//! requests of any page. A login by cookie is therefore taken only from pages that are allowed.
//! Clients that are no browsers send no `Origin` and are not concerned.

use websocket::upgrade::Headers;

use super::cookie::has_login_cookie;

/// What a page's origin is compared by: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    scheme: Scheme,
    host: String,
    port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

impl Origin {
    /// Reads `http://host`, `https://host:port` and the like: no path, no user. `null` is no origin.
    pub(crate) fn parse(text: &str) -> Option<Origin> {
        let (scheme, authority) = text.split_once("://")?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let (host, port) = authority_of(authority, scheme)?;
        Some(Origin { scheme, host, port })
    }

    /// Whether a request with this `Host` goes where the page came from. Before a plain port a proxy may have
    /// ended the encryption, so that pages of both schemes are at home there.
    fn is_of(&self, host: &str, is_encrypted: bool) -> bool {
        if is_encrypted && self.scheme != Scheme::Https {
            return false;
        }
        authority_of(host, self.scheme)
            .is_some_and(|(host, port)| (host, port) == (self.host.clone(), self.port))
    }
}

/// Host in lower case and port.
fn authority_of(text: &str, scheme: Scheme) -> Option<(String, u16)> {
    // The colons of an address of IPv6 stand in brackets.
    let name_end = text.rfind(']').map_or(0, |at| at + 1);
    let (host, port) = match text[name_end..].find(':') {
        Some(at) => {
            let (host, port) = text.split_at(name_end + at);
            let digits = &port[1..];
            (host, digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())??)
        }
        None => (text, scheme.port()),
    };
    let is_host = |b: u8| b.is_ascii_alphanumeric() || b"-._~[]:%".contains(&b);
    (!host.is_empty() && host.bytes().all(is_host)).then(|| (host.to_ascii_lowercase(), port))
}

/// The pages that may log their user in by cookie: those of the server's own origin, and those listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins(Vec<Origin>);

impl Origins {
    /// Those of a configuration that was checked.
    pub(crate) fn new(listed: &[String]) -> Origins {
        Origins(listed.iter().filter_map(|text| Origin::parse(text)).collect())
    }

    /// Whether an upgrade may be accepted: it brings no login by cookie, no page made it, or an allowed one.
    pub(crate) fn allows(&self, headers: Headers<'_>, is_encrypted: bool) -> bool {
        !has_login_cookie(headers)
            || headers.all("Origin").all(|text| {
                let Some(origin) = Origin::parse(text) else { return false };
                self.0.contains(&origin)
                    || headers.one("Host").is_ok_and(|host| origin.is_of(host, is_encrypted))
            })
    }
}

#[cfg(test)]
mod tests {
    use websocket::upgrade::Head;

    use super::*;

    const TOKEN: &str = "Cookie: AuthToken=abc\r\n";

    fn allows(origins: &Origins, more: &str, is_encrypted: bool) -> bool {
        let head = format!("GET / HTTP/1.1\r\nHost: Quotes.example:15000\r\n{more}");
        origins.allows(Head::parse(head.as_bytes()).expect("it is good").headers, is_encrypted)
    }

    #[test]
    fn a_login_by_cookie_is_taken_from_pages_of_the_same_origin_and_from_no_page() {
        let nobody = Origins::default();
        assert!(allows(&nobody, TOKEN, false), "no browser");
        for (origin, plain, encrypted) in [
            ("http://quotes.example:15000", true, false),
            ("https://QUOTES.example:15000", true, true),
            ("http://quotes.example", false, false),
            ("https://quotes.example:15001", false, false),
            ("https://evil.example:15000", false, false),
            ("https://quotes.example.evil.example:15000", false, false),
            ("https://user@quotes.example:15000", false, false),
            ("https://quotes.example:15000/page", false, false),
            ("https://quotes.example:+15000", false, false),
            ("https://:15000", false, false),
            ("file://", false, false),
            ("null", false, false),
            ("", false, false),
        ] {
            let page = format!("Origin: {origin}\r\n");
            assert_eq!(allows(&nobody, &format!("{TOKEN}{page}"), false), plain, "{origin}");
            assert_eq!(allows(&nobody, &format!("{TOKEN}{page}"), true), encrypted, "{origin}");
            assert!(allows(&nobody, &page, false), "without a login by cookie: {origin}");
        }
        let two = format!("{TOKEN}Origin: http://quotes.example:15000\r\nOrigin: http://evil.example\r\n");
        assert!(!allows(&nobody, &two, false), "of two origins one is foreign");
    }

    #[test]
    fn ports_that_are_not_named_are_those_of_the_scheme() {
        let same = |origin: &str, host: &str| Origin::parse(origin).expect("it is one").is_of(host, false);
        assert!(same("https://h", "h:443"));
        assert!(same("https://h:443", "h"));
        assert!(same("http://h:80", "h"));
        assert!(same("http://[2001:DB8::1]:80", "[2001:db8::1]"));
        assert!(!same("http://[2001:db8::1]:81", "[2001:db8::1]"));
        assert!(!same("http://h", "h:443"));
    }

    #[test]
    fn pages_of_listed_origins_may_log_in_by_cookie() {
        let listed = Origins::new(&["https://App.example".to_owned()]);
        for (origin, expected) in [
            ("https://app.example", true),
            ("https://app.example:443", true),
            ("http://app.example", false),
            ("https://app.example:8443", false),
            ("https://other.example", false),
            ("http://quotes.example:15000", true),
        ] {
            assert_eq!(allows(&listed, &format!("{TOKEN}Origin: {origin}\r\n"), false), expected, "{origin}");
        }
    }
}
