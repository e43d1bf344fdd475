// Checks how many bytes a browser loads, compressed, against the budgets.
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

const dist = join(dirname(fileURLToPath(import.meta.url)), "../dist");
const KB = 1_000;
const BUDGETS = { first: 210 * KB, run: 120 * KB, all: 1_200 * KB };

const text = (file) => gunzipSync(readFileSync(join(dist, `${file}.gz`))).toString();
const bytes = (file) => statSync(join(dist, `${file}.gz`)).size;
const exists = (file) => existsSync(join(dist, `${file}.gz`));

/** A script with the scripts that it imports, and those that must be there before. */
function closure(files) {
  const found = new Set();
  const queue = [...files];
  for (let file = queue.pop(); file !== undefined; file = queue.pop()) {
    if (found.has(file) || !exists(file)) continue;
    found.add(file);
    if (!file.endsWith(".js")) continue;
    for (const [, name] of text(file).matchAll(/(?:from|import)\s*"\.\/([^"]+)"/g)) queue.push(`assets/${name}`);
  }
  return found;
}

const sum = (files) => [...files].reduce((total, file) => total + bytes(file), 0);
const page = [...text("index.html").matchAll(/(?:src|href)="\/(assets\/[^"]+\.(?:js|css))"/g)].map((match) => match[1]);
const first = closure(page);
const names = readdirSync(join(dist, "assets")).map((name) => `assets/${name.replace(/\.gz$/, "")}`);
const part = (prefix) => names.filter((name) => name.startsWith(`assets/${prefix}`) && /\.(js|css)$/.test(name));
const run = new Set(
  [...closure([...part("RunPage-"), ...part("run-"), ...part("GraphCanvas-"), ...part("layout.worker-")])].filter(
    (file) => !first.has(file),
  ),
);
const figures = { first: sum(first), run: sum(run), all: sum(names) };

for (const [name, size] of Object.entries(figures)) {
  const budget = BUDGETS[name];
  console.log(`${name.padEnd(6)} ${(size / KB).toFixed(1).padStart(7)} kB of ${budget / KB} kB`);
  if (size > budget) {
    console.error(`the budget of ${name} is exceeded`);
    process.exitCode = 1;
  }
}
