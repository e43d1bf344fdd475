// Durations as people write them: "500ms", "1s", "5m", "1h30m", "7d".

/** Milliseconds, or text such as "500ms", "1s", "5m", "1h30m", "7d", "2w". */
export type Duration = number | string;

const UNITS_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const DURATION = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+$/;
const AMOUNT_AND_UNIT = /(\d+(?:\.\d+)?)(ms|s|m|h|d|w)/g;

/** A hundred years: a longer duration is a mistake. */
const DURATION_MAX_MS = 100 * 365 * 86_400_000;

/** Milliseconds of a duration. Throws a TypeError that names `what` if the value is not a duration. */
export function milliseconds(duration: Duration, what: string): number {
  const found = typeof duration === "string" ? parse(duration) : duration;
  if (typeof found !== "number" || !Number.isFinite(found) || found < 0) {
    throw new TypeError(`${what} is ${JSON.stringify(duration)}: write milliseconds, or "500ms", "1s", "5m", "1h30m", "7d"`);
  }
  if (found > DURATION_MAX_MS) {
    throw new TypeError(`${what} is ${JSON.stringify(duration)}: that is more than a hundred years`);
  }
  return Math.ceil(found);
}

function parse(text: string): number {
  const compact = text.replaceAll(" ", "");
  if (!DURATION.test(compact)) return Number.NaN;
  let sum = 0;
  for (const [, amount, unit] of compact.matchAll(AMOUNT_AND_UNIT)) {
    sum += Number(amount) * (UNITS_MS[unit as string] as number);
  }
  return sum;
}

/** Whole days of a retention: a number of days, or "30d". */
export function days(retention: Duration, what: string): number {
  const found = typeof retention === "number" ? retention : milliseconds(retention, what) / 86_400_000;
  if (!Number.isFinite(found) || found <= 0 || found > 36_500) {
    throw new TypeError(`${what} is ${JSON.stringify(retention)}: write a number of days, or "30d"`);
  }
  return Math.ceil(found);
}

const RFC_3339 = /^(\d{4}-\d\d-\d\d)[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)$/;

/** Epoch milliseconds of a moment: a Date, RFC 3339 text, or epoch milliseconds. */
export function moment(when: Date | string | number, what: string): number {
  const found = typeof when === "number" ? when : typeof when === "string" ? parseMoment(when) : when.getTime();
  if (!Number.isFinite(found)) {
    throw new TypeError(`${what} is ${JSON.stringify(when)}: write a Date, RFC 3339 text ("2030-01-01T00:00:00Z") or epoch milliseconds`);
  }
  return Math.ceil(found);
}

/** `Date.parse` alone would accept "order 7", turn 31 February into March, and read a time without an offset as local time. */
function parseMoment(text: string): number {
  const day = RFC_3339.exec(text)?.[1];
  if (day === undefined) return Number.NaN;
  const midnight = new Date(`${day}T00:00:00Z`);
  const isDay = !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day);
  return isDay ? Date.parse(text) : Number.NaN;
}
