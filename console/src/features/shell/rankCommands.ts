// Which commands match what a person wrote.

interface Labelled {
  label: string;
  group: string;
}

/** A beginning is better than a part, a part is better than letters in order; null is no match. */
export function score(label: string, text: string): number | null {
  const [where, what] = [label.toLowerCase(), text.toLowerCase()];
  if (what === "") return 0;
  if (where.startsWith(what)) return 3;
  if (where.includes(what)) return 2;
  let from = 0;
  for (const letter of what) {
    from = where.indexOf(letter, from) + 1;
    if (from === 0) return null;
  }
  return 1;
}

/** The matching commands, best first; the groups keep their order, and those of a group stay together. */
export function rankCommands<C extends Labelled>(commands: readonly C[], text: string): C[] {
  const found = commands
    .map((command) => ({ command, score: score(command.label, text) }))
    .filter((entry): entry is { command: C; score: number } => entry.score !== null);
  const best = new Map<string, number>();
  for (const { command, score } of found) best.set(command.group, Math.max(best.get(command.group) ?? 0, score));
  const order = [...best.keys()];
  const place = (group: string) => -(best.get(group) ?? 0) * 100 + order.indexOf(group);
  return found
    .sort((a, b) => place(a.command.group) - place(b.command.group) || b.score - a.score)
    .map((entry) => entry.command);
}
