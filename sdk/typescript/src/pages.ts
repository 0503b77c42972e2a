// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

import { RepeatedPageError } from "./errors.js";

/** One page of a list. */
export interface Page<T> {
  items: T[];
  next: string;
}

/** Turns a paged call into one sequence; a page is asked for when it is needed. */
export async function* pages<T>(token: string, fetch: (token: string) => Promise<Page<T>>): AsyncGenerator<T, void, undefined> {
  for (let at = token; ; ) {
    const page = await fetch(at);
    yield* page.items;
    if (page.next === "") {
      return;
    }
    if (page.next === at) {
      throw new RepeatedPageError();
    }
    at = page.next;
  }
}
