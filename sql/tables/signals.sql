-- "Look again": append-only notes, consumed by whoever claims next.
--
-- kind 'key': a slot of this concurrency key may be free, or its next ordered job may go. Appended
-- by everything that takes a keyed job out of running, or out of ready other than by claim, by a
-- claim that puts one aside whose time to live is over, by a change of the limit, and by the
-- enqueue and the redrive of an ordered job; deleted by restore_keys under the key's try-lock.
create table taskq.signals (
  kind text not null,
  key  text not null,
  id   bigint generated always as identity,
  primary key (kind, key, id)
)
with (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
