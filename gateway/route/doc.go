// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package route serves the gateway's HTTP listener: by the host name a request
// goes to a service of a sandbox, or to the gateway's own pages.
//
// Deciding is pure: ParseHost says where a host name leads, Ask whose page a
// browser's request comes from and whether that page may send it. Everything
// else is httputil.ReverseProxy over a transport that dials relays: one relay
// for each request, none kept, so that no request ever meets a connection that
// has died since.
//
// Health is not asked: a service that is unhealthy is served like any other.
// The answers that are the gateway's own carry the header
// Sandbox-Gateway-Error with a word for the reason; texts are made of the
// reason, and of names that ParseHost has let through.
//
// A Router is safe for concurrent use. It starts a goroutine only within a
// request; Close ends all of them and returns when they have gone.
package route
