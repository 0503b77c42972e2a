// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::fmt;

use tonic::{Code, ConnectError, Status};

/// What a failed call amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such sandbox or service.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// A field breaks a rule; the message names it.
    InvalidArgument,
    /// Not in this state.
    FailedPrecondition,
    /// Somebody else's change came first; read, then try again.
    Aborted,
    /// No token, or not this gateway's.
    Unauthenticated,
    /// The token is not for this.
    PermissionDenied,
    /// Not reachable, not trusted (TLS), or going away.
    Unavailable,
    /// The time is over.
    Timeout,
    /// The gateway has left the call.
    Canceled,
    /// A limit of the gateway is reached.
    ResourceExhausted,
    /// A gateway without this call.
    Unimplemented,
    /// A list whose gateway answered a page with the token that asked for it:
    /// following it would never end.
    RepeatedPage,
    /// A fault of the gateway, and whatever else.
    Internal,
}

impl ErrorKind {
    fn of(code: Code) -> Self {
        match code {
            Code::NotFound => ErrorKind::NotFound,
            Code::AlreadyExists => ErrorKind::AlreadyExists,
            Code::InvalidArgument => ErrorKind::InvalidArgument,
            Code::FailedPrecondition => ErrorKind::FailedPrecondition,
            Code::Aborted => ErrorKind::Aborted,
            Code::Unauthenticated => ErrorKind::Unauthenticated,
            Code::PermissionDenied => ErrorKind::PermissionDenied,
            Code::Unavailable => ErrorKind::Unavailable,
            Code::DeadlineExceeded => ErrorKind::Timeout,
            Code::Cancelled => ErrorKind::Canceled,
            Code::ResourceExhausted => ErrorKind::ResourceExhausted,
            Code::Unimplemented => ErrorKind::Unimplemented,
            _ => ErrorKind::Internal,
        }
    }

    fn words(self) -> &'static str {
        match self {
            ErrorKind::NotFound => "not found",
            ErrorKind::AlreadyExists => "already exists",
            ErrorKind::InvalidArgument => "invalid argument",
            ErrorKind::FailedPrecondition => "failed precondition",
            ErrorKind::Aborted => "aborted",
            ErrorKind::Unauthenticated => "unauthenticated",
            ErrorKind::PermissionDenied => "permission denied",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Timeout => "timed out",
            ErrorKind::Canceled => "canceled",
            ErrorKind::ResourceExhausted => "resource exhausted",
            ErrorKind::Unimplemented => "unimplemented",
            ErrorKind::RepeatedPage => "repeated page",
            ErrorKind::Internal => "internal",
        }
    }
}

/// A call that failed. It prints with unprintable characters escaped.
#[derive(Clone, Debug)]
pub struct Error {
    op: &'static str,
    kind: ErrorKind,
    status: Box<Status>,
}

impl Error {
    pub(crate) fn new(op: &'static str, status: Status) -> Self {
        Error {
            op,
            kind: ErrorKind::of(status.code()),
            status: Box::new(status),
        }
    }

    pub(crate) fn repeated_page(op: &'static str) -> Self {
        let status = Status::internal("the gateway's next page is the same page");
        Error {
            kind: ErrorKind::RepeatedPage,
            ..Error::new(op, status)
        }
    }

    /// What it amounts to.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What was asked: `get service`.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// The gateway's words, or the connection's; may hold any character.
    pub fn message(&self) -> &str {
        self.status.message()
    }

    /// gRPC's error, with its code and details.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Whether a call that failed so may succeed when it is repeated: the
    /// gateway was not reached, was stopping, or failed.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(
            self.status.code(),
            Code::Unavailable
                | Code::Internal
                | Code::Unknown
                | Code::Aborted
                | Code::DeadlineExceeded
                | Code::Cancelled
        )
    }

    /// Whether there was no connection to make the call on.
    pub(crate) fn is_unreached(&self) -> bool {
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(self.status.as_ref());
        while let Some(err) = next {
            if err.is::<ConnectError>() {
                return true;
            }
            next = err.source();
        }
        false
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: ", self.op, self.kind.words())?;
        write_escaped(f, self.message())?;
        if let Some(cause) = innermost(self) {
            f.write_str(": ")?;
            write_escaped(f, &cause)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.status.as_ref())
    }
}

/// What the connection's error, which says little, rests on.
fn innermost(err: &Error) -> Option<String> {
    let mut last = std::error::Error::source(err.status.as_ref())?;
    while let Some(next) = last.source() {
        last = next;
    }
    let text = last.to_string();
    (!err.message().contains(&text)).then_some(text)
}

pub(crate) fn write_escaped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    for c in text.chars() {
        match c {
            '\\' | '"' | '\'' => write!(f, "{c}")?,
            // Escapes control characters, separators and invisible ones.
            c => write!(f, "{}", c.escape_debug())?,
        }
    }
    Ok(())
}

/// Which of the [`Options`](crate::Options) cannot be used, and why.
#[derive(Debug)]
pub struct OptionError {
    pub(crate) option: &'static str,
    pub(crate) why: Box<dyn std::error::Error + Send + Sync>,
}

impl OptionError {
    pub(crate) fn new(
        option: &'static str,
        why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        OptionError {
            option,
            why: why.into(),
        }
    }

    /// Name of the option: `address`, `token`, `ca_file`, `ca`, `user_agent`.
    pub fn option(&self) -> &'static str {
        self.option
    }
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "option {}: {}", self.option, self.why)
    }
}

impl std::error::Error for OptionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.why.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_was_asked_and_escape_what_was_answered() {
        let err = Error::new(
            "get service",
            Status::not_found("no \"web\"\u{1b}[2J\u{202e}"),
        );
        assert_eq!(err.kind(), ErrorKind::NotFound);
        assert_eq!(
            err.to_string(),
            "get service: not found: no \"web\"\\u{1b}[2J\\u{202e}"
        );
        assert_eq!(err.message(), "no \"web\"\u{1b}[2J\u{202e}");
        assert!(!err.is_transient() && !err.is_unreached());
    }

    #[test]
    fn every_code_has_a_kind() {
        for (code, kind, transient) in [
            (Code::NotFound, ErrorKind::NotFound, false),
            (Code::AlreadyExists, ErrorKind::AlreadyExists, false),
            (Code::InvalidArgument, ErrorKind::InvalidArgument, false),
            (
                Code::FailedPrecondition,
                ErrorKind::FailedPrecondition,
                false,
            ),
            (Code::Aborted, ErrorKind::Aborted, true),
            (Code::Unauthenticated, ErrorKind::Unauthenticated, false),
            (Code::PermissionDenied, ErrorKind::PermissionDenied, false),
            (Code::Unavailable, ErrorKind::Unavailable, true),
            (Code::DeadlineExceeded, ErrorKind::Timeout, true),
            (Code::Cancelled, ErrorKind::Canceled, true),
            (Code::ResourceExhausted, ErrorKind::ResourceExhausted, false),
            (Code::Unimplemented, ErrorKind::Unimplemented, false),
            (Code::Internal, ErrorKind::Internal, true),
            (Code::Unknown, ErrorKind::Internal, true),
            (Code::DataLoss, ErrorKind::Internal, false),
        ] {
            let err = Error::new("x", Status::new(code, ""));
            assert_eq!(
                (err.kind(), err.is_transient()),
                (kind, transient),
                "{code:?}"
            );
        }
    }

    #[test]
    fn a_failed_dial_is_unreached() {
        let dial = ConnectError("refused".into());
        assert!(Error::new("x", Status::from_error(Box::new(dial))).is_unreached());
        assert!(!Error::new("x", Status::unavailable("stopping")).is_unreached());
    }
}
