// Which row a key leads to, in tables, trees and lists.

/** The index of the row after a key; null if the key does not move. */
export function rowAfterKey(key: string, index: number, count: number, page: number): number | null {
  if (count === 0) return null;
  const clamp = (next: number) => Math.max(0, Math.min(count - 1, next));
  switch (key) {
    case "ArrowDown":
      return clamp(index + 1);
    case "ArrowUp":
      return clamp(index - 1);
    case "PageDown":
      return clamp(index + page);
    case "PageUp":
      return clamp(index - page);
    case "Home":
      return 0;
    case "End":
      return count - 1;
    default:
      return null;
  }
}
