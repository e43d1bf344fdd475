// Compares values with the expectations of a scenario.
//
// A plain value must be equal. Instead of it, an expectation may be:
//   {"$contains": "text"}  a text with all of it, or with each of a list of texts
//   {"$atLeast": 2}  {"$atMost": 3}
//   {"$one": [a, b]}       one of these
//   {"$has": {…}}          an object that has at least these members
//   {"$any": true}         any value that exists

/** Returns the difference, or nothing. */
export function mismatch(expected, actual, where) {
  const wrong = () => `${where}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(actual)}`;
  const rule = ruleOf(expected);
  if (rule) return RULES[rule](expected[rule], actual, where) ? undefined : wrong();
  if (expected === null || typeof expected !== 'object') return Object.is(expected, actual) ? undefined : wrong();
  if (actual === null || typeof actual !== 'object' || Array.isArray(expected) !== Array.isArray(actual)) return wrong();
  const names = new Set([...Object.keys(expected), ...Object.keys(actual)]);
  for (const name of names) {
    if (!(name in expected) || !(name in actual)) return wrong();
    const found = mismatch(expected[name], actual[name], `${where}.${name}`);
    if (found) return found;
  }
  return undefined;
}

const RULES = {
  $contains: (texts, actual) => typeof actual === 'string' && [texts].flat().every((text) => actual.includes(text)),
  $atLeast: (least, actual) => typeof actual === 'number' && actual >= least,
  $atMost: (most, actual) => typeof actual === 'number' && actual <= most,
  $one: (choices, actual, where) => choices.some((choice) => mismatch(choice, actual, where) === undefined),
  $has: (members, actual, where) =>
    actual !== null &&
    typeof actual === 'object' &&
    Object.entries(members).every(([name, value]) => mismatch(value, actual[name], `${where}.${name}`) === undefined),
  $any: (_, actual) => actual !== undefined && actual !== null,
};

function ruleOf(value) {
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return undefined;
  const names = Object.keys(value);
  if (!names.some((name) => name.startsWith('$'))) return undefined;
  if (names.length === 1 && names[0] in RULES) return names[0];
  throw new Error(`${JSON.stringify(value)} is no expectation; there are ${Object.keys(RULES).join(', ')}`);
}
