// The one WebSocket of this tab, over which all live updates arrive.
//
// 1. It is open while a follower exists and the tab is visible; a hidden tab closes it after HIDDEN_TIMEOUT.
// 2. A lost connection is opened again after a pause that doubles from 1 s to 30 s, with jitter and a new ticket.
// 3. After that, each followed run continues after its last seq. Followers of the workspace learn of a gap with the first
//    message of every connection.

import { createStore } from "../lib/store";
import { call } from "./client";
import { sessionStore } from "./session";
import type { SocketMessage } from "./socketMessages";

export const HIDDEN_TIMEOUT = 60_000;
const IDLE_TIMEOUT = 2_000;
const PAUSE_MIN = 1_000;
const PAUSE_MAX = 30_000;
/** The time without a connection after which the page says that it is not live. */
export const STALE_AFTER = 5_000;

export interface LiveState {
  /** `off`: nothing is followed, or the server has no socket. */
  phase: "off" | "connecting" | "open" | "lost";
  /** When the connection was lost. */
  since: number | null;
}

export type RunMessage = Extract<SocketMessage, { run: string; event: string }>;
export type WorkspaceMessage = Extract<SocketMessage, { workspace: string }> | { workspace: "gap" };

export interface RunFollower {
  /** The last seq that the follower has. */
  after: () => number;
  receive: (message: RunMessage) => void;
  refused: (code: string, detail: string) => void;
}

/** The pause before the connection attempt of this number, counted from 0. `chance` is between 0 and 1. */
export function pauseBefore(attempt: number, chance: number): number {
  const longest = Math.min(PAUSE_MAX, PAUSE_MIN * 2 ** Math.min(attempt, 10));
  return Math.round(longest * (0.5 + chance / 2));
}

class LiveSocket {
  readonly state = createStore<LiveState>({ phase: "off", since: null });
  private readonly runs = new Map<string, Set<RunFollower>>();
  private readonly feed = new Set<(message: WorkspaceMessage) => void>();
  private socket: WebSocket | null = null;
  private attempt = 0;
  private pause: ReturnType<typeof setTimeout> | undefined;
  private hidden: ReturnType<typeof setTimeout> | undefined;
  private idle: ReturnType<typeof setTimeout> | undefined;
  private isSuspended = false;
  /** Whether the server has not confirmed yet that this connection follows the workspace. */
  private isFeedNew = true;
  private generation = 0;

  constructor() {
    document.addEventListener("visibilitychange", () => this.onVisibility());
    sessionStore.subscribe(() => this.close());
  }

  followRun(id: string, follower: RunFollower): () => void {
    const followers = this.runs.get(id) ?? new Set();
    followers.add(follower);
    this.runs.set(id, followers);
    if (followers.size === 1) this.sendFollowRun(id);
    this.wake();
    return () => {
      followers.delete(follower);
      if (followers.size > 0) return;
      this.runs.delete(id);
      this.send({ leave: "run", id });
      this.rest();
    };
  }

  followWorkspace(receive: (message: WorkspaceMessage) => void): () => void {
    this.feed.add(receive);
    if (this.feed.size === 1) this.sendFollow();
    this.wake();
    return () => {
      this.feed.delete(receive);
      if (this.feed.size > 0) return;
      this.send({ leave: "workspace" });
      this.rest();
    };
  }

  private get isWanted(): boolean {
    return (this.runs.size > 0 || this.feed.size > 0) && !this.isSuspended && sessionStore.get() !== null;
  }

  private wake(): void {
    if (this.isWanted && this.socket === null && this.pause === undefined) void this.open();
  }

  /** Closes the connection if nothing is followed for a while: the next screen follows something else at once. */
  private rest(): void {
    clearTimeout(this.idle);
    this.idle = setTimeout(() => {
      if (!this.isWanted) this.close();
    }, IDLE_TIMEOUT);
  }

  private close(): void {
    this.generation += 1;
    clearTimeout(this.pause);
    this.pause = undefined;
    this.socket?.close(1000);
    this.socket = null;
    this.attempt = 0;
    this.state.set({ phase: "off", since: null });
    // A new session follows again what is still shown.
    if (this.isWanted) this.wake();
  }

  private async open(): Promise<void> {
    const generation = ++this.generation;
    const since = this.state.get().since;
    this.state.set({ phase: since === null ? "connecting" : "lost", since });
    try {
      const { ticket } = await call("POST /v1/tickets", { body: {} });
      if (generation !== this.generation) return;
      const scheme = window.location.protocol === "https:" ? "wss" : "ws";
      const socket = new WebSocket(
        `${scheme}://${window.location.host}/v1/socket?ticket=${encodeURIComponent(ticket)}`,
      );
      this.socket = socket;
      socket.onopen = () => this.onOpen();
      socket.onmessage = (event) => this.onMessage(String(event.data));
      socket.onclose = () => generation === this.generation && this.onLost();
    } catch {
      if (generation === this.generation) this.onLost();
    }
  }

  private onOpen(): void {
    this.attempt = 0;
    this.state.set({ phase: "open", since: null });
    for (const id of this.runs.keys()) this.sendFollowRun(id);
    if (this.feed.size > 0) this.sendFollow();
  }

  private sendFollowRun(id: string): void {
    const followers = [...(this.runs.get(id) ?? [])];
    const after = Math.min(...followers.map((follower) => follower.after()));
    if (followers.length > 0) this.send({ follow: "run", id, after, view: "heads" });
  }

  private sendFollow(): void {
    this.isFeedNew = true;
    this.send({ follow: "workspace" });
  }

  private onMessage(text: string): void {
    const message = JSON.parse(text) as SocketMessage;
    if ("workspace" in message) {
      // Lists that were read before the server began to gather changes may lack some of them.
      if (this.isFeedNew) for (const receive of this.feed) receive({ workspace: "gap" });
      this.isFeedNew = false;
      for (const receive of this.feed) receive(message);
    } else if ("event" in message) {
      for (const follower of this.runs.get(message.run) ?? []) follower.receive(message);
    } else if ("error" in message && message.run !== undefined) {
      this.onRefused(message.run, message.error.code, message.error.detail);
    }
  }

  private onRefused(id: string, code: string, detail: string): void {
    const generation = this.generation;
    // The database did not reply. It may reply to the next request.
    if (code === "UNAVAILABLE") setTimeout(() => generation === this.generation && this.sendFollowRun(id), PAUSE_MIN);
    else for (const follower of this.runs.get(id) ?? []) follower.refused(code, detail);
  }

  private onLost(): void {
    this.socket = null;
    if (!this.isWanted) return;
    this.state.set({ phase: "lost", since: this.state.get().since ?? Date.now() });
    const pause = pauseBefore(this.attempt, Math.random());
    this.attempt += 1;
    this.pause = setTimeout(() => {
      this.pause = undefined;
      if (this.isWanted) void this.open();
    }, pause);
  }

  private onVisibility(): void {
    clearTimeout(this.hidden);
    if (document.visibilityState === "hidden") {
      this.hidden = setTimeout(() => {
        this.isSuspended = true;
        this.close();
      }, HIDDEN_TIMEOUT);
    } else if (this.isSuspended) {
      this.isSuspended = false;
      this.wake();
    }
  }

  private send(message: object): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}

let shared: LiveSocket | null = null;

export function liveSocket(): LiveSocket {
  shared ??= new LiveSocket();
  return shared;
}
