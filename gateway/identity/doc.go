// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package identity holds the gateway's own credentials and issues those of
// sandboxes.
//
// Open makes what is missing in the state directory at the first start and
// reads it afterwards: a local certificate authority and a server certificate
// (ECDSA P-256), the admin token of the API, and the Ed25519 key that signs
// sandbox tokens. Files are 0600 in a 0700 directory and written atomically.
//
// Sandbox tokens are JSON Web Tokens (RFC 7519, EdDSA, RFC 8037) bound to one
// gateway, one sandbox and one generation of it. An Identity is safe for
// concurrent use.
package identity
