-- Prevents other transactions from adding to the counts until the end of this one. Counts can still be read.
-- Needs no index.
lock table workflow_counts in share row exclusive mode
