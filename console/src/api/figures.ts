// Figures over time.

import { useQuery } from "@tanstack/react-query";
import { DAY, HOUR } from "../lib/time";
import { call } from "./client";
import { POLL_MIN } from "./queries";

export type Span = "1h" | "24h" | "7d" | "30d";
export const SPANS: readonly Span[] = ["1h", "24h", "7d", "30d"];

const LENGTHS: Record<Span, { length: number; every: "1m" | "5m" | "1h" | "1d"; step: number }> = {
  "1h": { length: HOUR, every: "1m", step: HOUR / 60 },
  "24h": { length: DAY, every: "5m", step: HOUR / 12 },
  "7d": { length: 7 * DAY, every: "1h", step: HOUR },
  "30d": { length: 30 * DAY, every: "1d", step: DAY },
};

export function useStats(span: Span, workflow?: string) {
  const { length, every, step } = LENGTHS[span];
  return useQuery({
    queryKey: ["stats", span, workflow ?? null],
    queryFn: ({ signal }) => {
      const until = Math.ceil(Date.now() / step) * step;
      const query = {
        since: new Date(until - length).toISOString(),
        until: new Date(until).toISOString(),
        every,
        workflow,
      };
      return call("GET /v1/stats", { query, signal });
    },
    refetchInterval: span === "1h" ? POLL_MIN : 6 * POLL_MIN,
    placeholderData: (before) => before,
  });
}
