-- Note behind which jobs of a queue the next claims of the session may begin.
--
-- Arguments: p_queue; p_last, the place in ready of the last job of a claim; p_noted what was noted before;
--   p_span for how long, null = as long as what was noted before. At most 5 s.
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
  v_places jsonb;
begin
  select jsonb_agg(jsonb_build_array(n.priority, n.scheduled_at, n.id) order by n.priority desc) into v_places
  from (
    select r.priority, r.scheduled_at, r.id from taskq.ready r where r.ctid = p_last
    union all
    select o.priority, (o.place ->> 1)::timestamptz, (o.place ->> 2)::bigint
    from (select (e.place ->> 0)::smallint as priority, e.place from jsonb_array_elements(p_noted -> 'places') as e (place)) o
    where o.priority <> (select r.priority from taskq.ready r where r.ctid = p_last)
    limit 20
  ) n;
  return jsonb_build_object(p_queue, jsonb_build_object(
    'places', v_places,
    'until', coalesce(to_jsonb(taskq.clock() + least(p_span, interval '5 s')), p_noted -> 'until')));
end
$$;

comment on function taskq.note_places is
  'Note behind which jobs of a queue the next claims of the session may begin.';
