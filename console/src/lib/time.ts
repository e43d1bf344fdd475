// Times and durations as people read them.

import { formatNumber, intlLocale, t } from "./i18n";

export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** Milliseconds of an RFC 3339 time, with the microseconds as a fraction. */
export function toMs(time: string): number {
  const ms = Date.parse(time);
  // The server leaves out zeros at the end: .8831 is 883,100 µs.
  const micros = /\.\d{3}(\d{1,3})/.exec(time)?.[1];
  return micros ? ms + Number(micros.padEnd(3, "0")) / 1_000 : ms;
}

export function optionalMs(time: string | null | undefined): number | null {
  return time ? toMs(time) : null;
}

const UNITS: ReadonlyArray<[Intl.NumberFormatOptions["unit"] & string, number]> = [
  ["day", DAY],
  ["hour", HOUR],
  ["minute", MINUTE],
  ["second", SECOND],
];

function withUnit(value: number, unit: string, digits = 0): string {
  const options = { style: "unit", unit, unitDisplay: "narrow", maximumFractionDigits: digits } as const;
  return formatNumber(value, options);
}

/** A duration with at most two units: `240ms`, `3.2s`, `4m 5s`, `2d 3h`. */
export function formatDuration(ms: number): string {
  const total = Math.max(0, ms);
  if (total < 10) return withUnit(total, "millisecond", 1);
  if (total < SECOND) return withUnit(Math.round(total), "millisecond");
  if (total < 10 * SECOND) return withUnit(total / SECOND, "second", 1);
  const index = UNITS.findIndex(([, size]) => total >= size);
  const [unit, size] = UNITS[index] ?? ["second", SECOND];
  const next = UNITS[index + 1];
  if (!next) return withUnit(Math.floor(total / size), unit);
  const whole = Math.floor(total / size);
  const rest = Math.floor((total - whole * size) / next[1]);
  return rest === 0 ? withUnit(whole, unit) : `${withUnit(whole, unit)} ${withUnit(rest, next[0])}`;
}

/** `3 minutes ago`, `in 2 hours`. */
export function formatRelative(ms: number, now: number): string {
  const difference = ms - now;
  const size = Math.abs(difference);
  if (size < 5 * SECOND) return t("time.now");
  const format = new Intl.RelativeTimeFormat(intlLocale(), { numeric: "always", style: "narrow" });
  for (const [unit, length] of UNITS) {
    if (size >= length) return format.format(Math.trunc(difference / length), unit as Intl.RelativeTimeFormatUnit);
  }
  return t("time.now");
}

export function zoneName(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Date and time with the zone. */
export function formatAbsolute(ms: number): string {
  const options: Intl.DateTimeFormatOptions = {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    fractionalSecondDigits: 3,
    hourCycle: "h23",
  };
  return `${new Intl.DateTimeFormat(intlLocale(), options).format(ms)} ${zoneName()}`;
}

/** The time of day: `14:02:11`. */
export function formatClock(ms: number, withMs = false): string {
  const options: Intl.DateTimeFormatOptions = {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
    ...(withMs ? { fractionalSecondDigits: 3 } : {}),
  };
  return new Intl.DateTimeFormat(intlLocale(), options).format(ms);
}

/** The time of day; with the date if that is not today, and with the year if that is another one. */
export function formatMoment(ms: number, now: number): string {
  const [moment, today] = [new Date(ms), new Date(now)];
  if (moment.toDateString() === today.toDateString()) return formatClock(ms);
  const options: Intl.DateTimeFormatOptions = {
    year: moment.getFullYear() === today.getFullYear() ? undefined : "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hourCycle: "h23",
  };
  return new Intl.DateTimeFormat(intlLocale(), options).format(ms);
}

export function formatDay(ms: number): string {
  return new Intl.DateTimeFormat(intlLocale(), { month: "short", day: "numeric" }).format(ms);
}
