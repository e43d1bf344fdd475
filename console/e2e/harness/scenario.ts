// A scenario: a person in a browser with a workspace of their own.
//
// Every scenario also checks that the page made no request to another origin, did not violate its content security
// policy, and wrote no error or warning to the browser's console.

import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
  type Request,
} from "playwright-core";
import { inject, test } from "vitest";
import { Api } from "./api";
import { Server } from "./server";

const TIMEOUT = 20_000;
const WINDOW = { width: 1440, height: 900 };
/** Where the page of a failed scenario is drawn. */
const FAILURES = resolve(import.meta.dirname, "../../../target/console-failures");
/** Where screens are drawn, to be looked at. */
export const PICTURES = resolve(import.meta.dirname, "../../../target/console-pictures");

export interface Scene {
  /** Requests with an admin key of the scenario's own workspace. */
  api: Api;
  page: Page;
  /** Opens a path of the console, and signs in with the admin key, or another one. */
  open: (path: string, key?: string) => Promise<void>;
  /** A colleague: another browser context of the same server. */
  colleague: (options?: BrowserContextOptions) => Promise<Page>;
}

interface Options {
  /** Messages of the browser's console that belong to the scenario, such as a refused request. */
  expects?: readonly RegExp[];
  context?: BrowserContextOptions;
  /** In ms, for a scenario that visits many screens. */
  timeout?: number;
}

let browser: Promise<Browser> | null = null;

export function scenario(name: string, play: (scene: Scene) => Promise<void>, options: Options = {}): void {
  test(
    name,
    async () => {
      browser ??= chromium.connect(inject("browser"));
      const connected = await browser;
      const url = inject("url");
      const api = await newWorkspace(url, name);
      const contexts: BrowserContext[] = [];
      const problems: string[] = [];
      const newPage = async (own: BrowserContextOptions = {}) => {
        const context = await connected.newContext({ viewport: WINDOW, baseURL: url, ...options.context, ...own });
        context.setDefaultTimeout(TIMEOUT);
        contexts.push(context);
        watch(context, problems);
        return context.newPage();
      };
      const page = await newPage();
      try {
        await play({ api, page, open: (path, key = api.key) => openSignedIn(page, path, key), colleague: newPage });
        const unexpected = problems.filter((text) => !options.expects?.some((pattern) => pattern.test(text)));
        expectNone("requests to other origins, violations of the policy, errors of the page", unexpected);
      } catch (error) {
        mkdirSync(FAILURES, { recursive: true });
        await page.screenshot({ path: join(FAILURES, `${name}.png`) }).catch(() => undefined);
        const shown = await page.innerText("body", { timeout: 1_000 }).catch(() => "");
        const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
        throw new Error(`${text}\n-- ${page.url()} --\n${shown}\n-- problems --\n${problems.join("\n")}`);
      } finally {
        for (const context of contexts) await context.close();
      }
    },
    options.timeout,
  );
}

/** Fails with all findings in its message, if there are any. */
export function expectNone(what: string, findings: readonly string[]): void {
  if (findings.length > 0) throw new Error(`${what}:\n${findings.join("\n")}`);
}

/** Opens a path of the console and signs in, as a person does who pastes a key. */
export async function openSignedIn(page: Page, path: string, key: string): Promise<void> {
  await page.goto(path);
  await page.getByLabel("API key or token").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("navigation", { name: "Pages" }).waitFor();
}

/** Records what no page of the console may do. */
export function watch(context: BrowserContext, problems: string[]): void {
  context.on("request", (request) => {
    if (!isOwn(request)) problems.push(`a request to ${request.url()}`);
  });
  context.on("page", (page) =>
    page.on("websocket", (socket) => {
      if (new URL(socket.url()).host !== new URL(page.url()).host) problems.push(`a socket to ${socket.url()}`);
    }),
  );
  context.on("console", (message) => {
    if (message.type() !== "error" && message.type() !== "warning") return;
    problems.push(`${message.type()}: ${message.text()} (${message.location().url})`);
  });
  context.on("weberror", (error) => problems.push(`exception: ${error.error().stack ?? error.error().message}`));
}

/** Whether a page requests something of the server that it came from. A scenario opens pages of its own servers only. */
function isOwn(request: Request): boolean {
  const { protocol, origin } = new URL(request.url());
  if (protocol === "data:" || protocol === "blob:") return true;
  if (request.isNavigationRequest()) return origin === new URL(inject("url")).origin || Server.origins.has(origin);
  return origin === new URL(request.frame().url()).origin;
}

async function newWorkspace(url: string, name: string): Promise<Api> {
  const admin = new Api(url, inject("key"));
  const workspace = `w${name.length}-${crypto.randomUUID().slice(0, 8)}`;
  const made = await admin.ask<{ secret: string }>("POST", "/v1/workspaces", { name: workspace });
  return new Api(url, made.secret);
}
