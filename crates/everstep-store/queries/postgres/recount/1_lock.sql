-- Keeps others from adding to the counts until the end of the transaction. They may still be read.
-- Needs no index.
lock table workflow_counts in share row exclusive mode
