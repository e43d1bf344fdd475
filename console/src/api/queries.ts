// The reads of the console, as queries of one cache.

import { keepPreviousData, QueryClient, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { call } from "./client";
import { ApiProblem } from "./problem";
import type { WorkflowSummary } from "./types";

/** Nothing is polled faster than this. */
export const POLL_MIN = 10_000;
export const RUNS_PAGE = 100;
export const INBOX_PAGE = 200;
const PAGE_MAX = 500;

export function createQueryClient(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        refetchOnWindowFocus: true,
        // The client repeats a 503 by itself; a lost connection is worth another attempt, a refusal is not.
        retry: (count, error) => error instanceof ApiProblem && error.code === "UNREACHABLE" && count < 2,
      },
      mutations: { retry: false },
    },
  });
}

export const keys = {
  run: (id: string) => ["run", id] as const,
  runs: (query: string) => ["runs", query] as const,
  workflows: ["workflows"] as const,
  workflow: (name: string, version: number | null) => ["workflow", name, version] as const,
};

export function useRun(id: string) {
  return useQuery({
    queryKey: keys.run(id),
    queryFn: ({ signal }) => call("GET /v1/runs/{id}", { path: { id }, signal }),
  });
}

/** The runs that a query string selects, page by page. */
export function useRuns(query: string, options: { limit?: number; isPolled?: boolean } = {}) {
  const limit = options.limit ?? RUNS_PAGE;
  return useInfiniteQuery({
    queryKey: [...keys.runs(query), limit],
    queryFn: ({ pageParam, signal }) => {
      const params = new URLSearchParams(query);
      params.set("limit", String(limit));
      if (pageParam) params.set("cursor", pageParam);
      return call("GET /v1/runs", { query: params, signal });
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.nextCursor ?? undefined,
    placeholderData: keepPreviousData,
    refetchInterval: options.isPolled ? POLL_MIN : false,
    refetchOnWindowFocus: false,
    staleTime: 30_000,
  });
}

export function useWorkflows() {
  return useQuery({
    queryKey: keys.workflows,
    // A workspace has at most a few hundred workflows; the next page begins after the last name.
    queryFn: async ({ signal }) => {
      const all: WorkflowSummary[] = [];
      for (;;) {
        const page = await call("GET /v1/workflows", { query: { limit: PAGE_MAX, cursor: all.at(-1)?.name }, signal });
        all.push(...page);
        if (page.length < PAGE_MAX) return all;
      }
    },
    refetchInterval: POLL_MIN,
  });
}

export function useWorkflow(name: string, version: number | null) {
  return useQuery({
    queryKey: keys.workflow(name, version),
    queryFn: ({ signal }) =>
      call("GET /v1/workflows/{name}", { path: { name }, query: version === null ? {} : { version }, signal }),
    staleTime: version === null ? 5_000 : Number.POSITIVE_INFINITY,
  });
}

export function useWorkers() {
  return useQuery({
    queryKey: ["workers"],
    queryFn: ({ signal }) => call("GET /v1/workers", { signal }),
    refetchInterval: POLL_MIN,
  });
}

export function useNodes(isEnabled = true) {
  return useQuery({
    queryKey: ["nodes"],
    queryFn: ({ signal }) => call("GET /v1/nodes", { signal }),
    refetchInterval: POLL_MIN,
    enabled: isEnabled,
  });
}

export function useInbox(isEnabled: boolean) {
  return useQuery({
    queryKey: ["inbox"],
    queryFn: ({ signal }) => call("GET /v1/inbox", { query: { limit: INBOX_PAGE }, signal }),
    enabled: isEnabled,
    refetchInterval: POLL_MIN,
  });
}
