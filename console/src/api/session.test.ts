import { expect, test } from "vitest";
import { signInCodeStore } from "./session";

test("a_link_that_is_pasted_into_an_open_tab_gives_its_code_once", () => {
  expect(signInCodeStore.get()).toBeNull();
  window.history.replaceState(null, "", "/runs?status=failed#code=esc_1");
  window.dispatchEvent(new Event("hashchange"));
  expect(signInCodeStore.get()).toBe("esc_1");
  expect(window.location.href, "the code is removed from the address").toMatch(/\/runs\?status=failed$/);
  window.history.replaceState(null, "", "/runs#elsewhere");
  window.dispatchEvent(new Event("hashchange"));
  expect(signInCodeStore.get(), "another fragment is no code").toBe("esc_1");
});
