// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::path::PathBuf;
use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

use crate::address::Address;
use crate::api::openshell::v1::open_shell_client::OpenShellClient;
use crate::api::sandbox::v1::service_health_watch_client::ServiceHealthWatchClient;
use crate::discovery::read_bounded;
use crate::error::OptionError;
use crate::token::Token;

// A gateway refuses pings that come more often than every 20 s, or without a
// call under way.
const PING_AFTER: Duration = Duration::from_secs(25);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
const DIAL_TIMEOUT: Duration = Duration::from_secs(20);
// A page of 1,000 entries fits.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// How to reach a gateway.
#[derive(Clone, Debug, Default)]
pub struct Options {
    address: String,
    token: Token,
    ca_file: Option<PathBuf>,
    ca: Vec<u8>,
    insecure: bool,
    user_agent: String,
}

impl Options {
    /// `address` is `https://HOST:PORT` (TLS 1.2 or newer), or
    /// `http://HOST:PORT` for plain text, which is refused for a host other than
    /// localhost, 127.0.0.0/8 or ::1 unless [`insecure`](Options::insecure) is
    /// set. Without a port it is 443 or 80.
    pub fn new(address: impl Into<String>) -> Self {
        Options {
            address: address.into(),
            ..Options::default()
        }
    }

    /// The token that is sent with every call. Without one only
    /// [`health`](Client::health) works.
    pub fn token(mut self, token: impl Into<Token>) -> Self {
        self.token = token.into();
        self
    }

    /// The file (PEM) of the authorities that may sign the gateway's
    /// certificate. Without it, and without [`ca`](Options::ca), those of the
    /// system may; both together are an error.
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// The authorities (PEM) themselves.
    pub fn ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca = pem.into();
        self
    }

    /// Allows plain text to another machine. The token travels in plain text,
    /// too.
    pub fn insecure(mut self) -> Self {
        self.insecure = true;
        self
    }

    /// What goes before the library's own user agent, for example `tool/1.2`.
    pub fn user_agent(mut self, name: impl Into<String>) -> Self {
        self.user_agent = name.into();
        self
    }

    /// The address that was given.
    pub fn address(&self) -> &str {
        &self.address
    }

    #[cfg(test)]
    pub(crate) fn secrets(&self) -> (&str, Option<&PathBuf>) {
        (self.token.reveal(), self.ca_file.as_ref())
    }

    fn endpoint(&self) -> Result<Endpoint, OptionError> {
        let wrong = |why: &str| OptionError::new("address", why);
        let address = Address::parse(&self.address).map_err(wrong)?;
        if !address.secure && !address.is_loopback() && !self.insecure {
            return Err(wrong(
                "plain text (http) is for this machine only: use https",
            ));
        }
        let uri = address.uri().ok_or_else(|| wrong(crate::address::FORM))?;
        let mut endpoint = tuned(Endpoint::from(uri));
        if !self.user_agent.is_empty() {
            endpoint = endpoint
                .user_agent(self.user_agent.clone())
                .map_err(|_| OptionError::new("user_agent", "cannot be in a header"))?;
        }
        if !address.secure {
            return Ok(endpoint);
        }
        let tls = self.tls()?.domain_name(address.host);
        let endpoint = endpoint.tls_config(tls);
        endpoint.map_err(|err| OptionError::new(self.ca_option(), err))
    }

    fn ca_option(&self) -> &'static str {
        match self.ca_file {
            Some(_) => "ca_file",
            None => "ca",
        }
    }

    fn tls(&self) -> Result<ClientTlsConfig, OptionError> {
        let tls = ClientTlsConfig::new();
        let wrong = |why: &str| OptionError::new(self.ca_option(), why);
        let pem = match &self.ca_file {
            None if self.ca.is_empty() => return Ok(tls.with_native_roots()),
            None => self.ca.clone(),
            Some(_) if !self.ca.is_empty() => {
                return Err(wrong("is set together with ca: give one of them"));
            }
            Some(file) => read_bounded(file, AUTHORITIES)
                .map_err(|err| OptionError::new("ca_file", format!("{}: {err}", file.display())))?,
        };
        if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
            return Err(wrong("holds no PEM certificate"));
        }
        Ok(tls.ca_certificate(Certificate::from_pem(pem)))
    }
}

/// The largest file of authorities: of those a system has some hundred.
const AUTHORITIES: usize = 1 << 20;

/// Sets what is the same for every gateway.
pub(crate) fn tuned(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(DIAL_TIMEOUT)
        .http2_keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(false)
        .tcp_nodelay(true)
}

/// A channel that puts the token on every call.
pub type Authenticated = InterceptedService<Channel, Bearer>;

/// Puts a token on every call.
#[derive(Clone, Debug)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

impl Bearer {
    fn new(token: &Token) -> Result<Self, OptionError> {
        if token.is_empty() {
            return Ok(Bearer(None));
        }
        let why = "holds a character that no token has (space, control or not ASCII)";
        if !token.is_valid() {
            return Err(OptionError::new("token", why));
        }
        let mut value = MetadataValue::try_from(format!("Bearer {}", token.reveal()))
            .map_err(|_| OptionError::new("token", why))?;
        value.set_sensitive(true);
        Ok(Bearer(Some(value)))
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// A connection to one gateway. It is cheap to clone, and clones share the
/// connection; it ends with the last of them.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) api: OpenShellClient<Authenticated>,
    pub(crate) watch: ServiceHealthWatchClient<Authenticated>,
}

impl Client {
    /// Checks the options, reads the file of `ca_file` and returns a client. It
    /// does not wait for the gateway: the first call connects, and so does any
    /// call after the connection was lost.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect(options: Options) -> Result<Self, OptionError> {
        let endpoint = options.endpoint()?;
        Client::over(endpoint.connect_lazy(), &options.token)
    }

    /// A client over a channel of the caller's making, which decides how it is
    /// connected; `Options::token` is all that is left to say.
    pub fn over(channel: Channel, token: &Token) -> Result<Self, OptionError> {
        let bearer = Bearer::new(token)?;
        let channel = InterceptedService::new(channel, bearer);
        Ok(Client {
            api: OpenShellClient::new(channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES),
            watch: ServiceHealthWatchClient::new(channel)
                .max_decoding_message_size(MAX_ANSWER_BYTES),
        })
    }

    /// The generated client over the same connection. Its errors are gRPC's.
    pub fn api(&self) -> OpenShellClient<Authenticated> {
        self.api.clone()
    }

    /// As [`api`](Client::api) for `sandbox.v1`: watching, waiting, history.
    /// What its watch sends does not age by itself;
    /// [`watch_services`](Client::watch_services) is for that.
    pub fn watch_api(&self) -> ServiceHealthWatchClient<Authenticated> {
        self.watch.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(options: Options) -> String {
        Client::connect(options)
            .map(|_| ())
            .expect_err("an error")
            .to_string()
    }

    #[tokio::test]
    async fn options_that_cannot_be_used_are_named() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (options, want) in [
            (Options::new("h:1"), "option address: must be"),
            (Options::new("http://h:1"), "option address: plain text"),
            (
                Options::new("http://localhost:1").token("a b"),
                "option token: holds a character",
            ),
            (
                Options::new("https://h").ca_file("/none"),
                "option ca_file: /none: ",
            ),
            (
                Options::new("https://h").ca_file("/dev/zero"),
                "option ca_file: /dev/zero: is larger than 1024 KiB",
            ),
            (
                Options::new("https://h").ca_file(file),
                "option ca_file: holds no PEM certificate",
            ),
            (
                Options::new("https://h").ca("x"),
                "option ca: holds no PEM certificate",
            ),
            (
                Options::new("https://h").ca(pem).ca_file(file),
                "option ca_file: is set together with ca",
            ),
            (
                Options::new("https://h").user_agent("a\n"),
                "option user_agent: ",
            ),
        ] {
            let err = wrong(options);
            assert!(err.starts_with(want), "{err}, want {want}");
        }
    }

    #[tokio::test]
    async fn a_client_needs_no_gateway_to_be_made() {
        for options in [
            Options::new("http://localhost:1").token("t"),
            Options::new("http://h:1").insecure(),
            Options::new("https://[::1]:1").user_agent("tool/1.2"),
        ] {
            Client::connect(options).expect("a client");
        }
    }
}
