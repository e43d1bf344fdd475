-- Prevents other transactions from adding keys until the end of this one. Keys can still be read.
-- Needs no index.
lock table api_keys in share row exclusive mode
