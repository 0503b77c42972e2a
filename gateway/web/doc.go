// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package web serves the status page: what is up, at a glance, in a browser.
//
// The page asks nothing that other clients could not ask. Each viewer is one
// watch of services, in this process, whose messages are passed on as
// server-sent events, with each service's latest transitions; so the page, get,
// list and watch have one judge. The events are state and not history: the full
// state first, then changes, and a heartbeat at least every five seconds.
// Whoever reads slowly gets the newest state later and delays nobody else;
// whoever does not read for writePatience is dropped.
//
// The page and its scripts are embedded, ask no other host for anything, and
// show no bytes that a sandbox has chosen. They hold no data, so that they are
// served to anyone; /page/events is for signed-in viewers: the admin token was
// exchanged for a cookie, or the gateway, the browser and the name by which it
// asks are all of the loopback. Every request must come from the page itself,
// or from no page at all.
//
// A Server is safe for concurrent use. It starts no goroutine; its requests end
// when their clients leave, when their watches do, and when their cookies
// expire.
package web
