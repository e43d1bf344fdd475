// Keys of steps: `each[3].inner[0].fetch`.

/** The loop or scope around a step, and the iteration; null for a step outside of any. */
export interface Enclosing {
  loop: string;
  iteration: number;
}

export function enclosing(key: string): Enclosing | null {
  const match = /^(.*)\[(\d+)\]\.[^[\]]*$/.exec(key);
  return match?.[1] !== undefined && match[2] !== undefined ? { loop: match[1], iteration: Number(match[2]) } : null;
}

/** The part of a key after the last iteration. */
export function lastName(key: string): string {
  return key.slice(key.lastIndexOf("].") === -1 ? 0 : key.lastIndexOf("].") + 2);
}

/** The loops around a step, outermost first. */
export function ancestors(key: string): string[] {
  const found: string[] = [];
  for (let around = enclosing(key); around !== null; around = enclosing(around.loop)) found.unshift(around.loop);
  return found;
}
