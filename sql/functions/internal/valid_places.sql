-- Say where the claims of a queue may begin, from what the session remembers.
--
-- Nowhere but at the very start where the queue is paused or signals may bring jobs back, and of a
-- priority once the time of its place is over, or where a clock was set back.
--
-- Arguments: p_noted, as note_places made it, null = nothing; p_queue.
-- Returns: a list of [priority, scheduled_at, id, until] from the highest priority down, null = none.
-- Locks: none.
-- Raises: nothing.
-- Called by: claim_candidates, with the settings of claim.
create or replace function taskq.valid_places(p_noted jsonb, p_queue text)
returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now constant timestamptz := taskq.clock();
begin
  if p_noted is null
    or exists (select from taskq.signals s where s.kind = 'key')
    or exists (select from taskq.queues q where q.name = p_queue and q.paused_at is not null)
  then
    return null;
  end if;
  if (p_noted ->> 'until')::timestamptz - v_now between interval '1 microsecond' and interval '5 s' then
    return p_noted -> 'places';
  end if;
  return (
    select jsonb_agg(e.place order by e.n)
    from jsonb_array_elements(p_noted -> 'places') with ordinality as e (place, n)
    where (e.place ->> 3)::timestamptz - v_now between interval '1 microsecond' and interval '5 s');
end
$$;

comment on function taskq.valid_places is
  'Say where the claims of a queue may begin, from what the session remembers.';
