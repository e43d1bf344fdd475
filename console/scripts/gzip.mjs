// Compresses every file of dist: the server stores and sends the compressed form.
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const dist = join(dirname(fileURLToPath(import.meta.url)), "../dist");

for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
  const path = join(entry.parentPath, entry.name);
  if (!entry.isFile() || entry.name.startsWith(".")) continue;
  if (entry.name.endsWith(".gz")) continue;
  writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
  // The plain file has no reader: only the compressed one is included in the server.
  rmSync(path);
}
writeFileSync(join(dist, ".keep"), "");
