-- Fences. Cache 1 and one sequence: a later attempt of a job always has a greater fence, so
-- user code can hand it to a system that refuses older ones.
create sequence taskq.fence as bigint cache 1;
