import { expect, test } from "vitest";
import { COLUMN_IDS, columnsFromView, readColumns, viewOfColumns, writeColumns } from "./columnModel";

test("the_columns_of_the_address_are_shown_in_their_order", () => {
  expect(columnsFromView("origin,status,workflow")).toEqual(["status", "workflow", "origin"]);
  expect(columnsFromView(viewOfColumns(COLUMN_IDS))).toEqual(COLUMN_IDS);
});

test("an_address_without_known_columns_shows_those_of_this_browser", () => {
  expect(columnsFromView(null)).toBeNull();
  expect(columnsFromView("colour")).toBeNull();
  expect(readColumns()).not.toContain("origin");
  writeColumns(["status", "origin"]);
  expect(readColumns()).toEqual(["status", "origin"]);
  writeColumns([]);
  expect(readColumns(), "an empty list selects the default columns").toContain("workflow");
});
