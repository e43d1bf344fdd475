// The system's Chromium.

import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { type BrowserServer, chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/** `$CHROME`, or the first browser on the path. */
export function browserPath(): string {
  const { CHROME, PATH = "" } = process.env;
  if (CHROME) return CHROME;
  const paths = NAMES.flatMap((name) => PATH.split(delimiter).map((folder) => join(folder, name)));
  const found = paths.find(isExecutable);
  if (!found) throw new Error("Chromium is missing: scripts/browser.sh installs it, or set CHROME to its path");
  return found;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export function launchBrowser(): Promise<BrowserServer> {
  const isRoot = process.getuid?.() === 0;
  return chromium.launchServer({
    executablePath: browserPath(),
    // Chromium's own sandbox does not start as root; pages of the scenarios come from our server only.
    args: ["--disable-gpu", "--disable-dev-shm-usage", ...(isRoot ? ["--no-sandbox"] : [])],
  });
}
