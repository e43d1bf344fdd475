// A list of the access pages, page by page.

import { useInfiniteQuery } from "@tanstack/react-query";

export function useList<Page extends { nextCursor: string | null }, Row>(
  key: readonly unknown[],
  read: (cursor: string | undefined, signal: AbortSignal) => Promise<Page>,
  rowsOf: (page: Page) => readonly Row[],
) {
  const query = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) => read(pageParam === "" ? undefined : pageParam, signal),
    initialPageParam: "",
    getNextPageParam: (page) => page.nextCursor ?? undefined,
  });
  const rows = query.data?.pages.flatMap(rowsOf) ?? [];
  const onEnd = () => {
    if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
  };
  return {
    rows,
    onEnd,
    error: query.isLoadingError ? query.error : null,
    isPending: query.isPending,
    refetch: query.refetch,
  };
}
