// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

// Package arch holds the house rules that a compiler does not: which package
// may import which (and which outside module), how long a file may be, what
// must not be called, how a package is documented, which words stay out of
// the tree. It has tests only; nothing imports it.
//
// A rule is a pure function from a parsed tree to findings. TestRules applies
// every rule to this repository, TestEveryRuleFires applies each to small
// samples: one that breaks it and one that looks alike and does not. A finding
// says where, what, and why the rule exists.
//
// Names are resolved by the imports of a file, without type checking, so the
// whole run takes a second or two and covers the files of every platform.
// Generated files answer for their imports alone.
package arch
