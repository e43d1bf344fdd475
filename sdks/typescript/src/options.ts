// Checks of options, and of the names of topics.

/** Throws a TypeError unless all options are known. The compiler ensures that `known` names every option. */
export function checkOptions<T extends object>(options: T | undefined, known: { readonly [K in keyof Required<T>]: true }, whose: string): void {
  for (const name of Object.keys(options ?? {})) {
    if (!Object.hasOwn(known, name)) throw new TypeError(`${whose} has no option ${JSON.stringify(name)}; the options are ${Object.keys(known).join(", ")}`);
  }
}

const SEGMENT = /^[A-Za-z0-9_:/-]{1,64}$/;
const SEGMENTS_MAX = 16;
const CHARACTERS_MAX = 255;
/** Topics of the server begin so. */
const RESERVED = "everstep.";

/** Throws a TypeError that names `what` unless the value is a topic. */
export function checkTopic(topic: string, what: string): void {
  if (isTopic(topic, (segment) => SEGMENT.test(segment))) return;
  throw new TypeError(`${what} is ${JSON.stringify(topic)}: a topic has 1 to ${SEGMENTS_MAX} segments, separated by dots, of letters, digits, _, :, / and -, and does not begin with ${RESERVED}`);
}

/** Throws a TypeError that names `what` unless the value is a topic or a pattern of topics. */
export function checkPattern(pattern: string, what: string): void {
  if (isTopic(pattern, (segment) => segment === "*" || segment === "#" || SEGMENT.test(segment))) return;
  throw new TypeError(`${what} is ${JSON.stringify(pattern)}: write a topic such as "user.signup", or a pattern in which "*" is one segment and "#" is any number of segments`);
}

function isTopic(text: unknown, isSegment: (segment: string) => boolean): boolean {
  if (typeof text !== "string" || text.length > CHARACTERS_MAX || text.startsWith(RESERVED) || text === "everstep") return false;
  const segments = text.split(".");
  return segments.length <= SEGMENTS_MAX && segments.every(isSegment);
}
