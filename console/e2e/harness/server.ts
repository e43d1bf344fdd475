// An `everstep serve` as a separate process. It keeps its port and its data when it is started again.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { until } from "./until";

/** The server's binary: `$EVERSTEP_BINARY`, or the debug build of this checkout. */
export function binary(): string {
  const path = process.env.EVERSTEP_BINARY ?? resolve(import.meta.dirname, "../../../target/debug/everstep");
  if (!existsSync(path))
    throw new Error(`${path} does not exist; build it with: cargo build --workspace --bin everstep`);
  return path;
}

/** Many requests from one address; services of the scenarios are on this machine. */
const SETTINGS = { EVERSTEP_LOG: "warn", EVERSTEP_RATE_LIMIT: "0", EVERSTEP_ALLOW_ADDRESSES: "127.0.0.1" };

export class Server {
  /** The origins of the servers that this process has started. */
  static readonly origins = new Set<string>();
  private process: ChildProcess | null = null;
  private said = "";

  private constructor(
    readonly port: number,
    readonly data: string,
    private readonly settings: Record<string, string>,
  ) {}

  static async start(data: string, settings: Record<string, string> = {}): Promise<Server> {
    const server = new Server(await freePort(), data, settings);
    Server.origins.add(server.url);
    await server.begin();
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The first admin key. */
  get key(): string {
    return readFileSync(join(this.data, "admin.key"), "utf8").trim();
  }

  /** Starts the process, and waits until it can work. */
  async begin(): Promise<void> {
    const env = { ...environment(), ...SETTINGS, ...this.settings };
    const args = ["serve", "--listen", `127.0.0.1:${this.port}`, "--data", this.data];
    const child = spawn(binary(), args, { env, stdio: ["ignore", "ignore", "pipe"] });
    this.process = child;
    child.stderr.on("data", (chunk) => {
      this.said += String(chunk);
    });
    await until("the server to be ready", async () => {
      if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}:\n${this.said}`);
      const answer = await fetch(`${this.url}/readyz`).catch(() => null);
      return answer?.status === 200;
    });
  }

  /** Kills it at once: `kill -9`. */
  async kill(): Promise<void> {
    const child = this.process;
    this.process = null;
    if (child === null || child.exitCode !== null) return;
    const ended = new Promise((done) => child.once("exit", done));
    child.kill("SIGKILL");
    await ended;
  }
}

/** Executes a command of the binary, and returns its standard output. */
export async function everstep(args: string[], settings: Record<string, string> = {}): Promise<string> {
  const { stdout } = await promisify(execFile)(binary(), args, { env: { ...environment(), ...settings } });
  return stdout.trim();
}

/** The environment without the settings of a server. */
function environment(): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith("EVERSTEP_") && name !== "RUST_LOG");
  return Object.fromEntries(own);
}

function freePort(): Promise<number> {
  return new Promise((done, fail) => {
    const probe = createServer();
    probe.once("error", fail);
    probe.listen(0, "127.0.0.1", () => {
      const address = probe.address();
      probe.close(() => (address && typeof address === "object" ? done(address.port) : fail(new Error("no port"))));
    });
  });
}
