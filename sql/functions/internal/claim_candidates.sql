-- Lock what a claim may take: the first step of claim.
--
-- Per queue and priority present one range of the claim index, so the cost depends neither on
-- the backlog nor on future-dated rows of a higher priority: one query that filters on
-- scheduled_at walks all of those on PostgreSQL 15. The planner is held to the index, since
-- statistics taken while the table was small would make it sort. A row without its request
-- is passed over (check_integrity reports it), so that it can neither be dropped nor stop
-- the queue.
--
-- Arguments: p_queues in the order to serve; p_limit.
-- Returns: ids in claim order; keyed, whether any has a concurrency key; named, a unique key.
-- Locks: the ready rows for update, skipping locked ones.
-- Raises: nothing.
-- Called by: claim.
create or replace function taskq.claim_candidates(
  p_queues  text[],
  p_limit   int,
  out ids   bigint[],
  out keyed boolean,
  out named boolean
)
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off  -- before PostgreSQL 18 a forbidden scan costs so much that it would be compiled
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
  v_now      constant timestamptz := taskq.clock();
  v_queue    text;
  v_priority int;
  v_ids      bigint[];
  v_keyed    boolean;
  v_named    boolean;
begin
  ids := '{}';
  keyed := false;
  named := false;
  foreach v_queue in array p_queues loop
    continue when exists (
      select from taskq.queues q where q.name = v_queue and q.paused_at is not null);
    v_priority := 32768;
    while cardinality(ids) < p_limit loop
      select r.priority into v_priority
      from taskq.ready r
      where r.queue = v_queue and r.hold is null and r.priority < v_priority
      order by r.priority desc
      limit 1;
      exit when not found;

      with candidate as materialized (
        select r.id, r.concurrency_key, r.is_unique
        from taskq.ready r
        where r.queue = v_queue and r.hold is null and r.priority = v_priority
          and r.scheduled_at <= v_now
          and (r.expires_at is null or r.expires_at > v_now)
          and (select true from taskq.jobs j where j.id = r.id)
        order by r.scheduled_at, r.id
        limit p_limit - cardinality(ids)
        for update of r skip locked
      )
      select array_agg(c.id), bool_or(c.concurrency_key is not null), bool_or(c.is_unique)
      into v_ids, v_keyed, v_named
      from candidate c;
      if v_ids is not null then
        ids := ids || v_ids;
        keyed := keyed or v_keyed;
        named := named or v_named;
      end if;
    end loop;
  end loop;
end
$$;

comment on function taskq.claim_candidates is
  'Lock what a claim may take: the first step of claim.';
