// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::net::IpAddr;

use tonic::transport::Uri;

/// A parsed `Options::address`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Without brackets.
    pub host: String,
    pub port: u16,
    pub secure: bool,
}

pub(crate) const FORM: &str =
    "must be \"https://HOST:PORT\", or \"http://HOST:PORT\" on this machine";
pub(crate) const PORT: &str = "port must be a number from 1 to 65535";
pub(crate) const MORE: &str = "must end after the port: no user, path, query or fragment";

impl Address {
    /// Reads `https://HOST[:PORT]` or `http://HOST[:PORT]`; without a port it is
    /// 443 or 80. Its errors do not repeat the input.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or(FORM)?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(FORM),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '@']) {
            return Err(MORE);
        }
        let (host, port) = split_port(authority)?;
        let address = Address {
            host: host.to_owned(),
            port: match port {
                None if secure => 443,
                None => 80,
                Some(digits) => parse_port(digits)?,
            },
            secure,
        };
        address.uri().ok_or(FORM)?;
        Ok(address)
    }

    /// The same as a URI; none if the host can be in no URI.
    pub fn uri(&self) -> Option<Uri> {
        let scheme = if self.secure { "https" } else { "http" };
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        format!("{scheme}://{host}:{}", self.port).parse().ok()
    }

    /// Whether the host is this machine by its spelling alone; no name is
    /// looked up.
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self
                .host
                .parse::<IpAddr>()
                .is_ok_and(|ip| ip.to_canonical().is_loopback())
    }
}

/// Splits `HOST[:PORT]`; an IPv6 address is in brackets.
fn split_port(authority: &str) -> Result<(&str, Option<&str>), &'static str> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(bracketed) => {
            let (host, rest) = bracketed.split_once(']').ok_or(FORM)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| FORM)?;
            (host, rest)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if host.is_empty() {
        return Err(FORM);
    }
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Ok((host, None)),
        Some(port) => Ok((host, Some(port))),
        None => Err(FORM),
    }
}

fn parse_port(digits: &str) -> Result<u16, &'static str> {
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(PORT);
    }
    digits.parse().ok().filter(|n| *n != 0).ok_or(PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, host, port, secure) in [
            (
                "https://gateway.example:17670",
                "gateway.example",
                17670,
                true,
            ),
            ("https://gateway.example", "gateway.example", 443, true),
            ("http://localhost", "localhost", 80, false),
            ("http://[::1]:8080/", "::1", 8080, false),
            ("HTTPS://10.0.0.1:1", "10.0.0.1", 1, true),
        ] {
            let want = Address {
                host: host.into(),
                port,
                secure,
            };
            assert_eq!(Address::parse(text), Ok(want), "{text}");
        }
        for (text, why) in [
            ("", FORM),
            ("gateway.example:17670", FORM),
            ("127.0.0.1:17670", FORM),
            ("https://", FORM),
            ("https://:17670", FORM),
            ("https://[::1", FORM),
            ("https://[::1]x", FORM),
            ("https://[h]:1", FORM),
            ("https://a b", FORM),
            ("ftp://gateway.example", FORM),
            ("https://gateway.example:port", PORT),
            ("https://gateway.example:", PORT),
            ("https://gateway.example:+1", PORT),
            ("https://gateway.example:0", PORT),
            ("https://gateway.example:65536", PORT),
            ("https://::1:80", FORM),
            ("https://user@gateway.example", MORE),
            ("https://gateway.example/path", MORE),
            ("https://gateway.example?q", MORE),
            ("https://gateway.example#f", MORE),
        ] {
            assert_eq!(Address::parse(text), Err(why), "{text}");
        }
    }

    #[test]
    fn loopback() {
        for (host, want) in [
            ("localhost", true),
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("localhost.example", false),
            ("10.0.0.1", false),
            ("0.0.0.0", false),
            ("::", false),
            ("127.0.0.1.example", false),
        ] {
            let address = Address {
                host: host.into(),
                port: 1,
                secure: false,
            };
            assert_eq!(address.is_loopback(), want, "{host}");
        }
    }
}
