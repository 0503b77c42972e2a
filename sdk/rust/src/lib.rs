// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

#![doc = include_str!("../README.md")]

mod address;
pub mod api;
mod calls;
mod client;
mod discovery;
mod error;
mod health;
mod pages;
mod retry;
#[cfg(feature = "testing")]
pub mod testing;
mod token;
mod wait;
mod watch;
mod watch_state;

pub use client::{Authenticated, Bearer, Client, Options};
pub use discovery::DiscoveryError;
pub use error::{Error, ErrorKind, OptionError};
pub use health::{Health, HealthState};
pub use pages::Pages;
pub use token::{Token, new_request_id};
pub use wait::{WaitCause, WaitError, WaitTarget, wait_request};
pub use watch::{ServiceUpdate, ServiceWatch};
pub use watch_state::{REASON_WATCH_STALE, WATCH_TIMEOUT, WatchedService};

pub use tokio_stream::Stream;
