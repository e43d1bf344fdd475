// The commands of the console, compared with the reference of the command line.

import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { commands } from "../lib/commands";

const repository = resolve(import.meta.dirname, "../../..");
const reference = readFileSync(join(repository, "docs/reference/cli.md"), "utf8");
const sections = new Map(
  reference
    .split(/^## /m)
    .slice(1)
    .map((section) => [section.split("\n", 1)[0] ?? "", section]),
);

/** What the command line would refuse. */
function faults(command: string): string[] {
  const words = command.match(/'[^']*'|\S+/g) ?? [];
  const name = [3, 2].map((count) => words.slice(0, count).join(" ")).find((one) => sections.has(one));
  const section = sections.get(name ?? "");
  if (name === undefined || section === undefined) return [`${command}: no such command`];
  const given = words.slice(name.split(" ").length);
  const flags = given.filter((word) => word.startsWith("--"));
  const usage = (/^Usage: (.*)$/m.exec(section)?.[1] ?? "").replace(/\[[^\]]*\]/g, "");
  // `--name <NAME>` is required; of `<--role <ROLE>|--permissions <PERMISSION>>` one is.
  const choices = [...usage.matchAll(/<(--[^ ]+ <[^>]+>(?:\|--[^ ]+ <[^>]+>)+)>/g)].map((match) => match[1] ?? "");
  const alone = choices.reduce((rest, choice) => rest.replace(`<${choice}>`, ""), usage);
  const required = [...choices, ...(alone.match(/--\S+ <[^>]+>/g) ?? [])];
  const values = alone.replace(/--\S+ <[^>]+>/g, "").match(/<[A-Z]+>/g) ?? [];
  const free = given.filter((word, index) => !word.startsWith("--") && !given[index - 1]?.startsWith("--"));
  return [
    ...flags
      .filter((flag) => !new RegExp(`^ +(-\\w, )?${flag}\\b`, "m").test(section))
      .map((flag) => `${flag} is unknown`),
    ...required
      .filter((choice) => !flags.some((flag) => choice.includes(`${flag} <`)))
      .map((one) => `${one} is missing`),
    ...(free.length === values.length ? [] : [`${usage} has other values`]),
    ...free
      .filter((word) => /\.(ya?ml|json)$/.test(word) && !existsSync(join(repository, word)))
      .map((one) => `no ${one}`),
    // A workflow is started by its name.
    ...(name === "everstep start" && /[./]/.test(free[0] ?? "") ? [`${free[0]} is no name`] : []),
  ].map((fault) => `${command}: ${fault}`);
}

test("commands_to_copy_are_accepted_by_the_command_line", () => {
  const texts = Object.values(commands).map((one) => (typeof one === "string" ? one : one("workflow:view")));
  expect(texts.flatMap((text) => text.split("\n")).flatMap(faults)).toEqual([]);
});

test("a_command_that_fails_is_noticed", () => {
  expect(faults("everstep start examples/hello.yaml")).toEqual([
    "everstep start examples/hello.yaml: examples/hello.yaml is no name",
  ]);
  expect(faults("everstep keys create --permissions workflow:view")).toEqual([
    "everstep keys create --permissions workflow:view: --name <NAME> is missing",
  ]);
  expect(faults("everstep keys create --name a")).toHaveLength(1);
  expect(faults("everstep import no.yaml --force")).toHaveLength(2);
  expect(faults("everstep begin hello")).toEqual(["everstep begin hello: no such command"]);
});
