-- Note behind which jobs of a queue the next claims of the session may begin.
--
-- Each place has a time of its own: a walk that ends at one priority says nothing of those below.
--
-- Arguments: p_queue; p_last, the tid in ready of the last job of a claim; p_noted what was noted before;
--   p_hints, the places that the claim began behind, null = none; p_span for how long a priority that was
--   walked from its start need not be again, at most 5 s.
-- Returns: a jsonb object: by the queue an object of places, a list of [priority, scheduled_at, id, until],
--   and until, the first of their times.
-- Locks: none.
-- Raises: nothing.
-- Called by: claim_candidates, with the settings of claim.
create or replace function taskq.note_places(p_queue text, p_last tid, p_noted jsonb, p_hints jsonb, p_span interval)
returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_last   taskq.ready;
  v_until  jsonb;
  v_places jsonb;
begin
  select r.* into v_last from taskq.ready r where r.ctid = p_last;
  select e.place -> 3 into v_until
  from jsonb_array_elements(p_hints) as e (place)
  where (e.place ->> 0)::int = v_last.priority;
  v_until := coalesce(v_until, to_jsonb(taskq.clock() + least(p_span, interval '5 s')));

  select jsonb_build_object(
    'places', jsonb_agg(n.place order by n.priority desc), 'until', min((n.place ->> 3)::timestamptz))
  into v_places
  from (
    select v_last.priority::int as priority,
      jsonb_build_array(v_last.priority, v_last.scheduled_at, v_last.id, v_until) as place
    union all
    select (e.place ->> 0)::int, e.place
    from jsonb_array_elements(p_noted -> 'places') as e (place)
    where (e.place ->> 0)::int <> v_last.priority and (e.place ->> 3)::timestamptz > taskq.clock()
    limit 20
  ) n;
  return jsonb_build_object(p_queue, v_places);
end
$$;

comment on function taskq.note_places is
  'Note behind which jobs of a queue the next claims of the session may begin.';
