// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::fmt;

/// A bearer token. It prints as `[redacted]`, however it is printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The token itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the token can travel in a header.
    pub(crate) fn is_valid(&self) -> bool {
        self.0.bytes().all(|b| b.is_ascii_graphic())
    }
}

impl<T: Into<String>> From<T> for Token {
    fn from(token: T) -> Self {
        Token(token.into())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// Random bytes of the operating system's.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::getrandom(&mut bytes).expect("the operating system has random numbers");
    bytes
}

/// A random UUID (version 4) for the `request_id` of a mutation: the gateway
/// carries out one id and payload once within 24 hours, however often it is
/// sent.
pub fn new_request_id() -> String {
    let mut b: [u8; 16] = random();
    b[6] = b[6] & 0x0f | 0x40;
    b[8] = b[8] & 0x3f | 0x80;
    let hex: String = b.iter().map(|b| format!("{b:02x}")).collect();
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_way_of_printing_shows_the_token() {
        let token = Token::from("s3cret");
        let options = crate::Options::new("https://h").token("s3cret");
        for shown in [
            format!("{token}"),
            format!("{token:?}"),
            format!("{token:#?}"),
            format!("{options:?}"),
        ] {
            assert!(shown.contains("[redacted]"), "{shown}");
            assert!(!shown.contains("s3cret"), "{shown}");
        }
        assert_eq!(token.reveal(), "s3cret");
    }

    #[test]
    fn only_what_fits_a_header_is_valid() {
        for (token, valid) in [
            ("", true),
            ("aZ09-_.~", true),
            ("a b", false),
            ("a\n", false),
            ("é", false),
            ("\u{7f}", false),
        ] {
            assert_eq!(Token::from(token).is_valid(), valid, "{token:?}");
        }
    }

    #[test]
    fn request_ids_are_version_4_and_differ() {
        let ids: std::collections::BTreeSet<_> = (0..100).map(|_| new_request_id()).collect();
        assert_eq!(ids.len(), 100);
        for id in ids {
            assert_eq!(id.len(), 36);
            assert_eq!(&id[14..15], "4", "{id}");
            assert!("89ab".contains(&id[19..20]), "{id}");
        }
    }
}
