-- Concurrency keys whose limit is not the default of one running job. A key that ends in `*` is
-- a pattern: the limit of each key that begins so and has none of its own.
create table taskq.concurrency_limits (
  key         text not null primary key,
  max_running int not null check (max_running >= 0),  -- 0 = closed
  updated_at  timestamptz not null
);

-- key_limits: the patterns.
create index concurrency_limits_pattern on taskq.concurrency_limits (key)
  where right(key, 1) = '*';
