// The run on screen: its model, kept up to date, and the entry at which it is shown.

import { readHeads } from "../../api/heads";
import { ApiProblem, toProblem } from "../../api/problem";
import { liveSocket, pauseBefore, type RunMessage } from "../../api/socket";
import type { Head } from "../../api/types";
import { createStore, type Store } from "../../lib/store";
import type { Fold } from "./model/fold";
import { RunModel } from "./model/runModel";

export interface RunView {
  /** The fold at the entry on screen. */
  fold: Fold;
  /** The entry on screen; null for the present. */
  at: number | null;
  /** The last entry. */
  last: number;
  phase: "loading" | "ready";
  problem: ApiProblem | null;
}

export class RunStore {
  readonly model = new RunModel();
  readonly view: Store<RunView>;
  /** Called when the run changed its status: its document is requested again. */
  onStatus: () => void = () => undefined;
  private at: number | null;
  private phase: RunView["phase"] = "loading";
  private problem: ApiProblem | null = null;
  private frame: number | null = null;
  private waiting: Head[] = [];
  private readonly stop = new AbortController();
  private leave: () => void = () => undefined;
  /** Whether the run had ended when its stream ended. */
  private isOver = false;
  /** Whether entries that were missed are being read, and whether others were missed since. */
  private isReading = false;
  private hasMissed = false;
  private pause: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly id: string,
    at: number | null,
  ) {
    this.at = at;
    this.view = createStore(this.current());
  }

  /** Reads the journal, then follows it. */
  async start(): Promise<void> {
    try {
      const append = (heads: readonly Head[]) => {
        const start = performance.now();
        this.model.append(heads);
        // Shown by the profilers of browsers.
        performance.measure("everstep:fold", { start });
      };
      await readHeads(this.id, this.model.last, append, this.stop.signal);
      this.phase = "ready";
      this.publish();
      if (this.stop.signal.aborted) return;
      const leave = this.leave;
      this.leave = liveSocket().followRun(this.id, {
        after: () => this.model.last,
        receive: (message) => this.receive(message),
        refused: (code, detail) => this.fail(new ApiProblem({ status: 0, code, detail, requestId: "" })),
      });
      leave();
    } catch (error) {
      if (!this.stop.signal.aborted) this.fail(toProblem(error));
    }
  }

  /** The document of the run has this version. A run that had ended may have been retried since. */
  notice(version: number): void {
    if (this.isOver && version > this.model.last) this.resume();
  }

  close(): void {
    this.stop.abort();
    this.leave();
    clearTimeout(this.pause);
    if (this.frame !== null) cancelAnimationFrame(this.frame);
  }

  setAt(at: number | null): void {
    if (at === this.at) return;
    this.at = at;
    this.publish();
  }

  private receive(message: RunMessage): void {
    if (message.event === "entry") {
      this.waiting.push(message.data as Head);
      this.frame ??= requestAnimationFrame(() => this.drain());
    } else {
      if (message.event === "end") this.awaitRetry();
      this.onStatus();
    }
  }

  /** The stream of an ended run is over. The feed of the workspace reports if a retry continues the run. */
  private awaitRetry(): void {
    this.isOver = true;
    const leave = this.leave;
    this.leave = liveSocket().followWorkspace((message) => {
      if (!this.isOver) return;
      const isChanged = message.workspace === "runs" && message.data.some((run) => run.id === this.id);
      if (isChanged) this.resume();
      // The document of the run shows whether a retry is among the changes that the feed does not list.
      else if (message.workspace === "many" || message.workspace === "gap") this.onStatus();
    });
    leave();
  }

  /** Reads the entries after the last one, and follows the run again. */
  private resume(): void {
    this.isOver = false;
    void this.start().then(() => this.onStatus());
  }

  /** Applies what arrived since the last frame. */
  private drain(): void {
    this.frame = null;
    const heads = this.waiting;
    this.waiting = [];
    const isWhole = this.model.append(heads);
    this.publish();
    this.onStatus();
    if (isWhole) return;
    this.hasMissed = true;
    if (!this.isReading) void this.readMissed(0);
  }

  /** Reads the entries that did not arrive. While the server does not reply, it is asked again after growing pauses. */
  private async readMissed(attempt: number): Promise<void> {
    this.isReading = true;
    try {
      while (this.hasMissed) {
        this.hasMissed = false;
        await readHeads(this.id, this.model.last, (missed) => this.model.append(missed), this.stop.signal);
        this.publish();
      }
      this.isReading = false;
    } catch (error) {
      if (this.stop.signal.aborted) return;
      this.hasMissed = true;
      const problem = toProblem(error);
      if (problem.isPassing) this.pause = setTimeout(() => void this.readMissed(attempt + 1), pauseOf(attempt));
      else this.fail(problem);
    }
  }

  private fail(problem: ApiProblem): void {
    this.problem = problem;
    this.publish();
  }

  private publish(): void {
    this.view.set(this.current());
  }

  private current(): RunView {
    const { model } = this;
    // While the journal is loading, the entry of the address may not be there yet.
    const isPast = this.at !== null && (this.phase === "loading" || this.at < model.last);
    const at = isPast ? Math.max(1, this.at ?? 1) : null;
    const fold = at === null ? model.fold : model.at(at);
    return { fold, at, last: model.last, phase: this.phase, problem: this.problem };
  }
}

const pauseOf = (attempt: number) => pauseBefore(attempt, Math.random());
