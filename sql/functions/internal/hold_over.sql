-- Put aside, of what a look has found, the rows whose time to live is over; say what the others are.
--
-- Arguments: p_tids, places of rows in ready, of one queue and priority, in claim order.
-- Returns: tids, the other rows in claim order; keyed, whether any of them has a concurrency key;
--   named, a unique key; last_at and last_id, the place of the last row of p_tids in that order,
--   null where no time is over.
-- Locks: the rows, already the caller's; rows behind them, skipping locked ones.
-- Raises: nothing.
-- Called by: claim_candidates, with the settings of claim.
create or replace function taskq.hold_over(
  p_tids      tid[],
  out tids    tid[],
  out keyed   boolean,
  out named   boolean,
  out last_at timestamptz,
  out last_id bigint
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now  constant timestamptz := taskq.clock();
  v_over bigint[];
  v_keys text[];
begin
  with candidate as materialized (
    select t.n, r.ctid as tid, r.scheduled_at, r.id, r.concurrency_key, r.is_unique,
      coalesce(r.expires_at <= v_now, false) as over
    from taskq.ready r
    join unnest(p_tids) with ordinality as t (tid, n) on t.tid = r.ctid
    where r.ctid = any (p_tids)
  )
  select coalesce(array_agg(c.tid order by c.n) filter (where not c.over), '{}'),
    coalesce(bool_or(c.concurrency_key is not null) filter (where not c.over), false),
    coalesce(bool_or(c.is_unique) filter (where not c.over), false),
    array_agg(c.id order by c.n) filter (where c.over),
    array_agg(distinct c.concurrency_key) filter (where c.over and c.concurrency_key is not null),
    max(c.scheduled_at)
  into tids, keyed, named, v_over, v_keys, last_at
  from candidate c;
  if v_over is null then
    last_at := null;
    return;
  end if;

  select max(r.id) into last_id from taskq.ready r where r.ctid = any (p_tids) and r.scheduled_at = last_at;
  update taskq.ready r set hold = 'expired' where r.id = any (v_over);
  if tids = '{}' then
    v_keys := v_keys || taskq.hold_jam(v_over[cardinality(v_over)], null);
  end if;
  if cardinality(v_keys) > 0 then
    perform taskq.free_keys(v_keys);
  end if;
end
$$;

comment on function taskq.hold_over is
  'Put aside, of what a look has found, the rows whose time to live is over; say what the others are.';
