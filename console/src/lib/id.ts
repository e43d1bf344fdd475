// Ids of requests, and ids as people read them.

/** A key with which a changing request can be repeated safely. */
export function newIdempotencyKey(): string {
  return `console-${crypto.randomUUID()}`;
}

/** The end of a long id: its random part. */
export function shortId(id: string): string {
  return id.length <= 13 ? id : `${id.slice(0, 8)}…${id.slice(-4)}`;
}
