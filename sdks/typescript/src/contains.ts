// Whether a value contains a pattern, as the match of a wait is compared.

/** Whether a value contains a pattern, as PostgreSQL's `@>` has it. */
export function contains(value: unknown, pattern: unknown): boolean {
  if (Array.isArray(pattern)) return Array.isArray(value) && pattern.every((wanted) => value.some((one) => contains(one, wanted)));
  if (typeof pattern !== "object" || pattern === null) return value === pattern;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.entries(pattern).every(([key, wanted]) => Object.hasOwn(value, key) && contains((value as Record<string, unknown>)[key], wanted));
}
