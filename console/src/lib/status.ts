// The statuses of runs and steps.

export type RunStatus = "pending" | "running" | "waiting" | "paused" | "completed" | "failed" | "cancelled";
export type StepStatus = "pending" | "running" | "waiting" | "completed" | "failed" | "skipped" | "cancelled";
export type AnyStatus = RunStatus | StepStatus;

export const RUN_STATUSES: readonly RunStatus[] = [
  "pending",
  "running",
  "waiting",
  "paused",
  "completed",
  "failed",
  "cancelled",
];

export function isRunStatus(text: string): text is RunStatus {
  return RUN_STATUSES.some((status) => status === text);
}

export function hasEnded(status: AnyStatus): boolean {
  return status === "completed" || status === "failed" || status === "cancelled" || status === "skipped";
}

export type ControlName = "retry" | "cancel" | "pause" | "resume";

/** Whether a run with this status can be controlled so. */
export function canControl(control: ControlName, status: RunStatus): boolean {
  switch (control) {
    case "retry":
      return status === "failed";
    case "resume":
      return status === "paused";
    case "pause":
      return status !== "paused" && !hasEnded(status);
    case "cancel":
      return !hasEnded(status);
  }
}
