-- Keeps others from adding keys until the end of the transaction. They may still be read.
-- Needs no index.
lock table api_keys in share row exclusive mode
