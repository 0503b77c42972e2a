// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package forward serves sandbox.v1.ServiceForward: one call of it is one
// connection to a service, for tools that are no browser.
//
// A call is carried by two loops, one for each direction, that end with the
// call; both directions end one by one, as those of a TCP connection do. The
// texts of its errors are those of package route. A Server is safe for
// concurrent use; Close ends all calls and returns when they have gone.
package forward
