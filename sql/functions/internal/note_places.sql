-- Note behind which jobs of a queue the next claims of the session may begin.
--
-- A claim that began at the very start has seen that nothing is left of the higher priorities, and has not
-- looked at the lower ones: places in these are forgotten, or each such claim would make them last longer.
--
-- Arguments: p_queue; p_last, the tid in ready of the last job of a claim; p_noted what was noted before;
--   p_span for how long, where the claim began at the very start, null = as long as what was noted
--   before. At most 5 s.
-- Returns: a jsonb object: by the queue an object of until and places.
-- Locks: none.
-- Raises: nothing.
-- Called by: claim_candidates, with the settings of claim.
create or replace function taskq.note_places(p_queue text, p_last tid, p_noted jsonb, p_span interval)
returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_priority smallint;
  v_last     jsonb;
  v_places   jsonb;
begin
  select r.priority, jsonb_build_array(r.priority, r.scheduled_at, r.id) into v_priority, v_last
  from taskq.ready r
  where r.ctid = p_last;
  select jsonb_agg(n.place order by (n.place ->> 0)::int desc) into v_places
  from (
    select v_last as place
    union all
    select e.place
    from jsonb_array_elements(p_noted -> 'places') as e (place)
    where (e.place ->> 0)::int > v_priority or (p_span is null and (e.place ->> 0)::int < v_priority)
    limit 20
  ) n;
  return jsonb_build_object(p_queue, jsonb_build_object(
    'places', v_places,
    'until', coalesce(to_jsonb(taskq.clock() + least(p_span, interval '5 s')), p_noted -> 'until')));
end
$$;

comment on function taskq.note_places is
  'Note behind which jobs of a queue the next claims of the session may begin.';
