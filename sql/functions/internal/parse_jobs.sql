-- Read the document of enqueue_many into an array, naming the ordinal of what is wrong.
--
-- The whole document is read at once; only when that fails are the objects tried one by one,
-- to name the first bad one. Nothing is written before or in between.
--
-- Arguments: p_jobs, a JSON array of objects whose properties are the fields of new_job;
--   intervals as PostgreSQL text or a number of seconds; null = absent.
-- Returns: array in input order.
-- Locks: none.
-- Raises: TQ422 not an array, too many, too large, an unknown property (a typo must not run
--   a job now), a value that cannot be read.
-- Called by: enqueue_many.
create or replace function taskq.parse_jobs(p_jobs jsonb)
returns taskq.new_job[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_known constant text[] := array[
    'task', 'payload', 'priority', 'scheduled_at', 'delay', 'unique_key', 'concurrency_key',
    'max_attempts', 'backoff', 'backoff_max', 'lease', 'ttl', 'headers', 'unique_mode',
    'unique_scope', 'unique_for', 'ordered'];
  v_jobs    taskq.new_job[];
  v_ordinal bigint;
  v_element jsonb;
  v_unknown text;
begin
  if p_jobs is null or jsonb_typeof(p_jobs) <> 'array' then
    raise exception using errcode = 'TQ422',
      message = format('p_jobs must be a JSON array of objects, not %s', coalesce(jsonb_typeof(p_jobs), 'null'));
  end if;
  if jsonb_array_length(p_jobs) > 10000 then
    raise exception using errcode = 'TQ422',
      message = format('%s jobs in one call are over the cap of 10000', jsonb_array_length(p_jobs)),
      hint = 'Split the list; TaskQ.enqueue_many does.';
  end if;
  if octet_length(p_jobs::text) > 8388608 then
    raise exception using errcode = 'TQ422',
      message = format('a document of %s bytes is over the cap of 8388608', octet_length(p_jobs::text)),
      hint = 'Split the list; TaskQ.enqueue_many does.';
  end if;

  begin
    select array_agg(j) into v_jobs
    from jsonb_populate_recordset(null::taskq.new_job, p_jobs) as j;
  exception when data_exception then
    for v_element, v_ordinal in
      select e.v, e.n - 1 from jsonb_array_elements(p_jobs) with ordinality as e (v, n)
    loop
      if jsonb_typeof(v_element) <> 'object' then
        raise exception using errcode = 'TQ422',
          message = format('the job at ordinal %s is a JSON %s, not an object', v_ordinal, jsonb_typeof(v_element)),
          detail = format('ordinal %s', v_ordinal);
      end if;
      begin
        perform jsonb_populate_record(null::taskq.new_job, v_element);
      exception when data_exception then
        raise exception using errcode = 'TQ422',
          message = format('the job at ordinal %s cannot be read: %s', v_ordinal, taskq.clip(sqlerrm, 500)),
          detail = format('ordinal %s', v_ordinal);
      end;
    end loop;
    raise;
  end;

  select e.n - 1, (select min(k) from jsonb_object_keys(e.v - v_known) as k)
  into v_ordinal, v_unknown
  from jsonb_array_elements(p_jobs) with ordinality as e (v, n)
  where e.v - v_known <> '{}'
  limit 1;
  if found then
    raise exception using errcode = 'TQ422',
      message = format('the job at ordinal %s has an unknown property "%s"', v_ordinal, taskq.clip(v_unknown, 120)),
      detail = format('ordinal %s', v_ordinal),
      hint = 'Known: ' || array_to_string(v_known, ', ') || '.';
  end if;

  return coalesce(v_jobs, '{}');
end
$$;

comment on function taskq.parse_jobs is
  'Read the document of enqueue_many into an array, naming the ordinal of what is wrong.';
