-- Read a settle document into an array; an element that cannot be read carries its fault.
--
-- The document is read at once; only when that fails are the elements tried one by one, so
-- that one bad element rejects itself and not its neighbours.
--
-- Arguments: p_settlements a JSON array of at most 10,000 objects.
-- Returns: array in input order.
-- Locks: none.
-- Raises: TQ422 when the document itself is no such array.
-- Called by: settle.
create or replace function taskq.parse_settlements(p_settlements jsonb)
returns taskq.settlement[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_known constant text[] := array[
    'job_id', 'attempt_id', 'verb', 'result', 'error', 'retryable', 'retry_after', 'delay',
    'reason', 'cause', 'progress'];
  v_items   taskq.settlement[];
  v_item    taskq.settlement;
  v_element jsonb;
begin
  if p_settlements is null or jsonb_typeof(p_settlements) <> 'array' then
    raise exception using errcode = 'TQ422',
      message = format('p_settlements must be a JSON array of objects, not %s',
                       coalesce(jsonb_typeof(p_settlements), 'null'));
  end if;
  if jsonb_array_length(p_settlements) > 10000 then
    raise exception using errcode = 'TQ422',
      message = format('%s settlements in one call are over the cap of 10000',
                       jsonb_array_length(p_settlements));
  end if;

  begin
    if not exists (
      select from jsonb_array_elements(p_settlements) as e (v)
      where jsonb_typeof(e.v) <> 'object' or e.v - v_known <> '{}'
    ) then
      select array_agg(s) into v_items
      from jsonb_populate_recordset(null::taskq.settlement, p_settlements) as s;
      return coalesce(v_items, '{}');
    end if;
  exception when data_exception then
    null;  -- read them one by one
  end;

  v_items := '{}';
  for v_element in select e.v from jsonb_array_elements(p_settlements) as e (v) loop
    v_item := null;
    if jsonb_typeof(v_element) <> 'object' then
      v_item.fault := format('a JSON %s, not an object', jsonb_typeof(v_element));
    else
      begin
        v_item := jsonb_populate_record(null::taskq.settlement, v_element - 'fault');
        if v_element - v_known <> '{}' then
          v_item.fault := format('unknown property "%s"',
            (select taskq.clip(min(k), 120) from jsonb_object_keys(v_element - v_known) as k));
        end if;
      exception when data_exception then
        v_item.fault := taskq.clip(sqlerrm, 500);
        begin
          v_item.job_id := (v_element ->> 'job_id')::bigint;
          v_item.attempt_id := (v_element ->> 'attempt_id')::bigint;
        exception when data_exception then
          null;  -- the answer stands at its place in the order all the same
        end;
      end;
    end if;
    v_items := v_items || v_item;
  end loop;
  return v_items;
end
$$;

comment on function taskq.parse_settlements is
  'Read a settle document into an array; an element that cannot be read carries its fault.';
