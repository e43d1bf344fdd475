// A layered map against a plain one.

import { expect, test } from "vitest";
import { LayeredMap } from "./layeredMap";

test("copies_keep_their_entries_and_their_order", () => {
  const plain = new Map<string, number>();
  const layered = new LayeredMap<string, number>();
  const copies: Array<[Map<string, number>, LayeredMap<string, number>]> = [];
  let random = 7;
  for (let n = 0; n < 3_000; n += 1) {
    random = (Math.imul(random, 1_103_515_245) + 12_345) & 0x7fffffff;
    // New keys, and keys that were set long before.
    const key = `k${(random >> 8) % (n + 1)}`;
    plain.set(key, n);
    layered.set(key, n);
    if (n % 100 === 99) copies.push([new Map(plain), layered.copy()]);
  }
  copies.push([plain, layered]);
  for (const [expected, copy] of copies) {
    expect([...copy]).toEqual([...expected]);
    expect([...copy.values()]).toEqual([...expected.values()]);
    const keys = [...expected.keys(), "none"];
    expect(keys.map((key) => copy.get(key))).toEqual(keys.map((key) => expected.get(key)));
  }
});

test("a_copy_is_changed_alone", () => {
  const first = new LayeredMap<string, number>();
  first.set("a", 1);
  const second = first.copy();
  second.set("a", 2);
  first.set("b", 3);
  expect([...first]).toEqual([
    ["a", 1],
    ["b", 3],
  ]);
  expect([...second]).toEqual([["a", 2]]);
});
