// Starts the server and the browser that all scenarios share, and stops them at the end.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { launchBrowser } from "./browser";
import { Server } from "./server";

declare module "vitest" {
  export interface ProvidedContext {
    /** The address of the server. */
    url: string;
    /** Its first admin key. */
    key: string;
    /** Its data folder. */
    data: string;
    /** The URL of an empty PostgreSQL database for servers that share one; null if there is none. */
    database: string | null;
    /** The address at which the browser is controlled. */
    browser: string;
  }
}

export default async function setup(project: TestProject) {
  const folder = mkdtempSync(join(tmpdir(), "everstep-console-"));
  const data = join(folder, "data");
  const server = await Server.start(data);
  const browser = await launchBrowser();
  project.provide("url", server.url);
  project.provide("key", server.key);
  project.provide("data", data);
  project.provide("database", process.env.EVERSTEP_E2E_DATABASE ?? null);
  project.provide("browser", browser.wsEndpoint());
  return async () => {
    await browser.close();
    await server.kill();
    rmSync(folder, { recursive: true, force: true });
  };
}
