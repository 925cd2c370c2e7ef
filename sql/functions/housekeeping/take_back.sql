-- Take back the jobs whose lease ran out: queued again, or ended when it happened too often.
--
-- First in a row: queued at once; second: after a backoff; third: failed as poison. Burns one
-- of max_attempts each time. After an outage the owners come first: a pass more than 60 s
-- after the last one (or before it, after a clock that went back) takes only leases that had
-- ended before that last pass. A beat that slips in wins: the newest version of the row is
-- looked at again under its lock.
--
-- Arguments: p_limit 1 to 10,000 jobs.
-- Returns: one row per job taken back: job_id, attempt_id, result ok, status where it landed,
--   scheduled_at.
-- Locks: running rows by id, skipping locked ones; one pass at a time, another returns nothing.
-- Raises: TQ422 bad input.
-- Called by: workers every 5 s, housekeep.
create or replace function taskq.take_back(p_limit int = 1000)
returns table (job_id bigint, attempt_id bigint, result text, status text, scheduled_at timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now    constant timestamptz := taskq.clock();
  v_last   timestamptz;
  v_cutoff timestamptz := v_now;
  v_items  taskq.settlement[];
begin
  if not taskq.start_pass('take_back', p_limit) then
    return;
  end if;
  select p.last_at into v_last from taskq.passes p where p.name = 'take_back';
  if v_last < v_now - interval '60 s' or v_last > v_now then
    v_cutoff := least(v_last, v_now);
  end if;
  insert into taskq.passes as p (name, last_at) values ('take_back', v_now)
  on conflict (name) do update set last_at = excluded.last_at;

  with expired as materialized (
    select r.id, r.attempt_id
    from taskq.running r
    where r.lease_expires_at <= v_cutoff
    order by r.id
    limit p_limit
    for update skip locked
  )
  select array_agg(row(e.id, e.attempt_id, 'take_back', null, null, null, null, null,
    'the lease ran out', null, null, null)::taskq.settlement)
  into v_items
  from expired e;
  if v_items is not null then
    return query
    select s.job_id, s.attempt_id, s.result, s.status, s.scheduled_at
    from taskq.settle_attempts(null, v_items, true, true) s;
  end if;
end
$$;

comment on function taskq.take_back is
  'Take back the jobs whose lease ran out: queued again, or ended when it happened too often.';
