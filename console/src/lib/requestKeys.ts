// Idempotency keys of the requests that one control sends.
//
// A request that is repeated after an unknown outcome has the key of its first attempt, so the server applies it once.
// A request with other content needs another key: with the same key, the server returns the first outcome and ignores the
// content.

import { useState } from "react";
import { newIdempotencyKey } from "./id";

export class RequestKeys {
  private readonly keys = new Map<string, string>();

  /** The key of a request: the same one for the same content, until its outcome is known. */
  keyOf(request: unknown): string {
    const content = contentOf(request);
    const key = this.keys.get(content) ?? newIdempotencyKey();
    this.keys.set(content, key);
    return key;
  }

  /** The outcome of a request is known: the next one with this content is another request. */
  settle(request: unknown): void {
    this.keys.delete(contentOf(request));
  }
}

const contentOf = (request: unknown): string => JSON.stringify(request) ?? "";

export function useRequestKeys(): RequestKeys {
  return useState(() => new RequestKeys())[0];
}
