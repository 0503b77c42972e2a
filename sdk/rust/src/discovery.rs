// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::client::Options;
use crate::token::Token;

/// No file that is read is large; a pipe, which has no size, is bounded too.
const SMALL: usize = 64 << 10;

/// Why no gateway, or no token for it, was found. It says which source is at
/// fault.
#[derive(Debug)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// None is named, and none keeps its state in the directory.
    #[non_exhaustive]
    NoGateway {
        /// Where it would; nothing if there is no place to look.
        dir: Option<PathBuf>,
        /// Whether the environment was asked, and can name one.
        environment: bool,
    },
    /// There is no token for a gateway.
    #[non_exhaustive]
    NoToken {
        /// The gateway's address.
        address: String,
        /// Whether the environment was asked, and can name one.
        environment: bool,
    },
    /// A file cannot be used.
    File {
        /// Its name.
        file: PathBuf,
        /// What is wrong with it.
        why: io::Error,
    },
}

impl fmt::Display for DiscoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiscoveryError::NoGateway { dir, environment } => {
                match dir {
                    Some(dir) => write!(
                        f,
                        "no gateway found in {}: start one with `sandbox-gateway serve`",
                        dir.display()
                    )?,
                    None => f.write_str(
                        "no gateway is named, and without HOME there is no place to look for one",
                    )?,
                }
                // The environment is no help where nobody looks into it.
                f.write_str(match (environment, dir) {
                    (false, _) => "",
                    (true, Some(_)) => ", or name it with SANDBOX_GATEWAY",
                    (true, None) => ": name it with SANDBOX_GATEWAY",
                })
            }
            DiscoveryError::NoToken {
                address,
                environment,
            } => {
                let address = address.escape_debug();
                write!(f, "no token for the gateway at {address}")?;
                f.write_str(match environment {
                    false => "",
                    true => {
                        ": name a file that holds it with SANDBOX_TOKEN_FILE, or set SANDBOX_TOKEN"
                    }
                })
            }
            DiscoveryError::File { file, why } => write!(f, "{}: {why}", file.display()),
        }
    }
}

impl std::error::Error for DiscoveryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DiscoveryError::File { why, .. } => Some(why),
            _ => None,
        }
    }
}

/// Finding a gateway as the command line does.
impl Options {
    /// The gateway that the environment names (`SANDBOX_GATEWAY`,
    /// `SANDBOX_TOKEN` or `SANDBOX_TOKEN_FILE`, `SANDBOX_CA_FILE`), else the one
    /// of this machine, which says in the file `client.json` of its state
    /// directory how to reach it. The directory is `SANDBOX_GATEWAY_STATE_DIR`,
    /// `/var/lib/sandbox-gateway` for root, `sandbox-gateway` in
    /// `XDG_STATE_HOME`, or `~/.local/state/sandbox-gateway`.
    ///
    /// What `client.json` says of token and authority counts for its own address
    /// only, so that no other gateway is sent the token of this machine's.
    pub fn discover() -> Result<Self, DiscoveryError> {
        Sources {
            env: Some(&|name| std::env::var(name).ok().filter(|v| !v.is_empty())),
            root: is_root(),
            read: &read_small,
        }
        .find()
    }

    /// The gateway whose state directory this is, whatever the environment says.
    pub fn from_state_dir(dir: impl AsRef<Path>) -> Result<Self, DiscoveryError> {
        let sources = Sources {
            env: None,
            root: false,
            read: &read_small,
        };
        sources.options(sources.local(dir.as_ref())?)
    }
}

type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// What a gateway is found in.
struct Sources<'a> {
    /// Looks into the environment; nothing where nobody does.
    env: Option<&'a Environment<'a>>,
    root: bool,
    read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
}

/// What one place says; its files are not read yet.
#[derive(Default)]
struct Layer {
    address: String,
    token: Option<String>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
}

impl Sources<'_> {
    fn env(&self, name: &str) -> Option<String> {
        self.env?(name)
    }

    fn find(&self) -> Result<Options, DiscoveryError> {
        let mut found = Layer {
            address: self.env("SANDBOX_GATEWAY").unwrap_or_default(),
            token: self.env("SANDBOX_TOKEN"),
            token_file: self.env("SANDBOX_TOKEN_FILE").map(PathBuf::from),
            ca_file: self.env("SANDBOX_CA_FILE").map(PathBuf::from),
        };
        let local = self
            .state_dir()
            .ok_or_else(|| self.no_gateway(None))
            .and_then(|dir| self.local(&dir));
        match local {
            Err(err) if found.address.is_empty() => return Err(err),
            Err(_) => {}
            Ok(local) => found.add_local(local),
        }
        self.options(found)
    }

    fn no_gateway(&self, dir: Option<PathBuf>) -> DiscoveryError {
        DiscoveryError::NoGateway {
            dir,
            environment: self.env.is_some(),
        }
    }

    fn state_dir(&self) -> Option<PathBuf> {
        if let Some(dir) = self.env("SANDBOX_GATEWAY_STATE_DIR") {
            return Some(dir.into());
        }
        if self.root {
            return Some("/var/lib/sandbox-gateway".into());
        }
        if let Some(dir) = self.env("XDG_STATE_HOME") {
            return Some(Path::new(&dir).join("sandbox-gateway"));
        }
        let home = self.env("HOME")?;
        Some(Path::new(&home).join(".local/state/sandbox-gateway"))
    }

    /// Reads `client.json`, whose file names are relative to its directory.
    fn local(&self, dir: &Path) -> Result<Layer, DiscoveryError> {
        let file = dir.join("client.json");
        let content = match (self.read)(&file) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                return Err(self.no_gateway(Some(dir.to_owned())));
            }
            other => other,
        };
        let parsed = content.and_then(|content| {
            let wrong = |why: &str| {
                let text = format!("is not what a gateway writes: {why}");
                io::Error::new(io::ErrorKind::InvalidData, text)
            };
            let json: serde_json::Value =
                serde_json::from_slice(&content).map_err(|err| wrong(&err.to_string()))?;
            let text = |key: &str| {
                json.get(key)
                    .and_then(|v| v.as_str())
                    .filter(|v| !v.is_empty())
            };
            Ok(Layer {
                address: text("api")
                    .ok_or_else(|| wrong("it has no \"api\""))?
                    .to_owned(),
                token: None,
                token_file: text("token_file").map(|name| dir.join(name)),
                ca_file: text("ca_file").map(|name| dir.join(name)),
            })
        });
        parsed.map_err(|why| DiscoveryError::File { file, why })
    }

    /// Reads the files that a place names.
    fn options(&self, found: Layer) -> Result<Options, DiscoveryError> {
        let token = match (found.token, found.token_file) {
            (Some(token), _) => Token::from(token.trim()),
            (None, Some(file)) => match (self.read)(&file).and_then(token_of) {
                Ok(token) => token,
                Err(why) => return Err(DiscoveryError::File { file, why }),
            },
            (None, None) => {
                return Err(DiscoveryError::NoToken {
                    address: found.address,
                    environment: self.env.is_some(),
                });
            }
        };
        let options = Options::new(found.address).token(token);
        Ok(match found.ca_file {
            Some(file) => options.ca_file(file),
            None => options,
        })
    }
}

impl Layer {
    /// Fills what is not said from `client.json`, if it is of the same gateway.
    fn add_local(&mut self, local: Layer) {
        if self.address.is_empty() {
            self.address = local.address;
        } else if self.address.trim_end_matches('/') != local.address.trim_end_matches('/') {
            return;
        }
        if self.token.is_none() && self.token_file.is_none() {
            self.token_file = local.token_file;
        }
        if self.ca_file.is_none() {
            self.ca_file = local.ca_file;
        }
    }
}

fn token_of(content: Vec<u8>) -> io::Result<Token> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
    let text = String::from_utf8(content).map_err(|_| invalid("the token is no text"))?;
    match text.trim() {
        "" => Err(invalid("the token file is empty")),
        token => Ok(Token::from(token)),
    }
}

#[cfg(unix)]
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    // The files of a process belong to its effective user.
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

fn read_small(file: &Path) -> io::Result<Vec<u8>> {
    read_bounded(file, SMALL)
}

/// Reads a file, or a pipe, of at most so many bytes.
pub(crate) fn read_bounded(file: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(file)?
        .take(most as u64 + 1)
        .read_to_end(&mut content)?;
    if content.len() > most {
        let fault = format!("is larger than {} KiB", most >> 10);
        return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
    }
    Ok(content)
}

#[cfg(test)]
mod tests;
