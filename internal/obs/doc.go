// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package obs is what both daemons share to be observed: the logger, the
// metrics registry and the operators' HTTP listener.
//
// Logs are slog records with constant messages; steady state logs nothing at
// info, and what one fault does to every request is logged sparingly. Metrics
// live in a registry that is passed around, never in a global one. The
// operators' handler must not be reachable by users: it shows metrics, errors
// and profiles.
package obs
