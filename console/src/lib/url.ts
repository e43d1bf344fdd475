// What the URL says, and how it changes.

import { useCallback, useMemo } from "react";
import { useLocation, useSearch } from "wouter";

export interface SearchState {
  params: URLSearchParams;
  /** Changes parameters; null and the empty text remove one. A push adds an entry to the history. */
  set: (changes: Record<string, string | null>, how?: "push" | "replace") => void;
}

export function useSearchState(): SearchState {
  const search = useSearch();
  const [path, navigate] = useLocation();
  const params = useMemo(() => new URLSearchParams(search), [search]);
  const set = useCallback(
    (changes: Record<string, string | null>, how: "push" | "replace" = "replace") => {
      const next = new URLSearchParams(window.location.search);
      for (const [name, value] of Object.entries(changes)) {
        if (value === null || value === "") next.delete(name);
        else next.set(name, value);
      }
      const text = next.toString();
      navigate(text === "" ? path : `${path}?${text}`, { replace: how === "replace" });
    },
    [navigate, path],
  );
  return { params, set };
}

export function withQuery(path: string, query: Record<string, string | number | null | undefined>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") params.set(name, String(value));
  }
  const text = params.toString();
  return text === "" ? path : `${path}?${text}`;
}

export const paths = {
  run: (id: string) => `/runs/${encodeURIComponent(id)}`,
  diff: (a: string, b: string) => `/runs/${encodeURIComponent(a)}/diff/${encodeURIComponent(b)}`,
  workflow: (name: string) => `/workflows/${encodeURIComponent(name)}`,
  runs: (query: Record<string, string | null | undefined> = {}) => withQuery("/runs", query),
};
