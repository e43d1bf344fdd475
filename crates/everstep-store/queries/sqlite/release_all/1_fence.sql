-- Fences every node: the process that opens a data folder is its only user.
-- Reads the whole table: it has one row per node.
update nodes
set fenced = 1
where fenced = 0
