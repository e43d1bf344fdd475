// The architecture of the console: which folder imports which, and where the controls come from.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const root = resolve(import.meta.dirname, "..");

interface Source {
  path: string;
  text: string;
}

const sources: Source[] = readdirSync(root, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name) && !/\.test\.tsx?$/.test(entry.name))
  .map((entry) => join(entry.parentPath, entry.name))
  .map((path) => ({ path: relative(root, path), text: readFileSync(path, "utf8") }));

/** What each folder may import besides itself. */
const TABLE: Record<string, readonly string[]> = {
  "main.tsx": ["routes", "lib"],
  routes: ["features", "api", "ui", "lib"],
  features: ["api", "ui", "lib"],
  api: ["lib"],
  ui: ["lib"],
  lib: [],
};

function imports(source: Source): string[] {
  return [...source.text.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map((match) => match[1] ?? "");
}

/** The path of an import inside the sources; null for a package. */
function target(source: Source, name: string): string | null {
  if (!name.startsWith(".")) return null;
  const path = relative(root, resolve(root, dirname(source.path), name));
  return path.startsWith("..") ? null : path;
}

const top = (path: string) => path.split("/")[0] ?? "";

test("imports_go_down", () => {
  const wrong = sources.flatMap((source) => {
    const allowed = [...(TABLE[top(source.path)] ?? []), top(source.path)];
    return imports(source)
      .map((name) => target(source, name))
      .filter((path) => path !== null && !allowed.includes(top(path)))
      .map((path) => `${source.path} must not import ${path}`);
  });
  expect(sources.length).toBeGreaterThan(80);
  expect(wrong).toEqual([]);
});

test("features_do_not_import_each_other", () => {
  const feature = (path: string) => path.split("/")[1];
  const wrong = sources
    .filter((source) => top(source.path) === "features")
    .flatMap((source) =>
      imports(source)
        .map((name) => target(source, name))
        .filter((path) => path !== null && top(path) === "features" && feature(path) !== feature(source.path))
        .map((path) => `${source.path} must not import ${path}`),
    );
  expect(wrong).toEqual([]);
});

test("libraries_of_components_stay_in_their_folders", () => {
  const homes: Record<string, string> = {
    "react-aria-components": "ui/",
    "@xyflow/react": "features/run/canvas/",
    "@dagrejs/dagre": "features/run/canvas/",
    uplot: "features/figures/",
  };
  const wrong = sources.flatMap((source) =>
    imports(source)
      .filter((name) => homes[name] !== undefined && !source.path.startsWith(homes[name]))
      .map((name) => `${source.path} must not import ${name}`),
  );
  expect(wrong).toEqual([]);
});

// package.json declares that modules have no side effects: the build drops those of a module that only re-exports.
test("the_entrance_of_ui_only_re_exports", () => {
  const entrance = sources.find((source) => source.path === "ui/index.ts")?.text ?? "";
  const lines = entrance.split("\n").filter((line) => line !== "" && !line.startsWith("//"));
  expect(lines.length).toBeGreaterThan(20);
  expect(lines.filter((line) => !line.startsWith("export {"))).toEqual([]);
});

test("native_controls_are_drawn_in_ui_only", () => {
  const wrong = sources
    .filter((source) => !source.path.startsWith("ui/"))
    .flatMap((source) =>
      [...source.text.matchAll(/<(input|select|textarea|button|dialog|a)[\s>/]/g)].map(
        (match) => `${source.path} draws <${match[1]}>`,
      ),
    );
  expect(wrong).toEqual([]);
});
