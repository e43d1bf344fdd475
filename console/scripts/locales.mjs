// Checks the messages: every key that the sources use exists, every key is used, all locales have the same keys,
// placeholders, parts and plural forms, and no text in JSX is written directly.
// With --write it writes the pseudo locales from locales/en.json.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { findTexts } from "./jsxTexts.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const read = (name) => JSON.parse(readFileSync(join(root, `locales/${name}.json`), "utf8"));
const en = read("en");

const LETTERS = "ȧƀċḓḗƒɠħīĵķŀḿƞǿƥɋřşŧŭṽẇẋẏẑȦƁĊḒḖƑƓĦĪĴĶĿḾȠǾƤɊŘŞŦŬṼẆẊẎẐ";
const PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** Applies a function to the words of a message, not to its placeholders and parts. */
const onWords = (text, change) =>
  text
    .split(/(\{\w+\}|<\/?\w+>)/)
    .map((part, index) => (index % 2 === 1 ? part : change(part)))
    .join("");

/** Every letter replaced, in brackets: a text without brackets did not come from the messages. */
const replaced = (text) => {
  const letters = onWords(text, (part) => [...part].map((letter) => LETTERS[PLAIN.indexOf(letter)] ?? letter).join(""));
  return `⟦${letters}⟧`;
};

/** 40 % longer, as some languages are. */
const longer = (text) => {
  const words = onWords(text, (part) => part).replace(/\{\w+\}|<\/?\w+>/g, "").length;
  return `${text}${" ~".repeat(Math.ceil((words * 0.4) / 2))}`;
};

const pseudo = (change) => Object.fromEntries(Object.entries(en).map(([key, text]) => [key, change(text)]));
const generated = { xx: pseudo(replaced), yy: pseudo(longer) };

if (process.argv.includes("--write")) {
  for (const [name, messages] of Object.entries(generated)) {
    writeFileSync(join(root, `locales/${name}.json`), `${JSON.stringify(messages, null, 2)}\n`);
  }
}

const faults = [];
const sources = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name) && !entry.name.includes(".test."))
  .map((entry) => join(entry.parentPath, entry.name));

const FORMS = /_(zero|one|two|few|many|other)$/;
const known = new Set(Object.keys(en).map((key) => key.replace(FORMS, "")));
const used = new Set();
/** Keys with a part that is computed: `status.${status}` uses every key of this form. */
const families = [];

for (const path of sources) {
  const text = readFileSync(path, "utf8");
  const where = relative(root, path);
  for (const [, key] of text.matchAll(/["']([a-z][A-Za-z]*\.[A-Za-z0-9]+)["']/g)) {
    if (known.has(key)) used.add(key);
  }
  for (const [, , key] of text.matchAll(/\b(t|tParts)\(\s*"([^"]+)"/g)) {
    if (!known.has(key)) faults.push(`${where}: the message ${key} does not exist`);
  }
  for (const [, pattern] of text.matchAll(/\bt\(\s*`([^`]*)`/g)) families.push([pattern, where]);
  for (const [, prefix] of text.matchAll(/\btWord\("(\w+)"/g)) families.push([`${prefix}.\${word}`, where]);
  if (path.endsWith(".tsx"))
    for (const found of findTexts(text, path)) faults.push(`${where}: a text that is not a message: ${found}`);
}
for (const [pattern, where] of families) {
  const form = new RegExp(`^${pattern.replaceAll(".", "\\.").replace(/\$\{[^}]*\}/g, "[A-Za-z0-9]+")}$`);
  const found = [...known].filter((key) => form.test(key));
  if (found.length === 0) faults.push(`${where}: no message has the form ${pattern}`);
  for (const key of found) used.add(key);
}
for (const key of known) if (!used.has(key)) faults.push(`locales/en.json: ${key} is not used`);

const marks = (text) => (text.match(/\{\w+\}|<\/?\w+>/g) ?? []).sort().join(" ");
const forms = (name) =>
  new Intl.PluralRules(name === "xx" || name === "yy" ? "en" : name).resolvedOptions().pluralCategories;
for (const key of Object.keys(en).filter((one) => FORMS.test(one))) {
  const base = key.replace(FORMS, "");
  for (const form of forms("en"))
    if (!(`${base}_${form}` in en)) faults.push(`locales/en.json: ${base} lacks the form ${form}`);
}
for (const name of ["xx", "yy"]) {
  const messages = read(name);
  for (const key of Object.keys(en)) {
    if (!(key in messages)) faults.push(`locales/${name}.json: ${key} is missing`);
    else if (marks(messages[key]) !== marks(en[key]))
      faults.push(`locales/${name}.json: ${key} has other placeholders`);
    else if (messages[key] !== generated[name][key])
      faults.push(`locales/${name}.json is stale: node scripts/locales.mjs --write`);
  }
  for (const key of Object.keys(messages))
    if (!(key in en)) faults.push(`locales/${name}.json: ${key} is not in en.json`);
}

if (faults.length > 0) {
  console.error([...new Set(faults)].join("\n"));
  process.exit(1);
}
