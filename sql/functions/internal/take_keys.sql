-- Take the unique keys of new jobs, or find who holds them.
--
-- Insert, on conflict do nothing, then a plain read; again for a key whose holder vanished
-- in between. The insert waits for a transaction that is inserting or freeing the same key;
-- an existing row is never locked, so that a caller that met `existed` and stays open does
-- not block the settle of that job. Keys are inserted in one order, so two calls cannot
-- deadlock on them.
--
-- Arguments: p_queue; p_ids the ids drawn for the new jobs; p_keys of equal length, null = none.
-- Returns: bigint[] of equal length: the own id where the job has no key or took it, else the
--   holder's id.
-- Locks: inserts unique_keys rows in order of key.
-- Raises: TQ500 when a key changed hands on every one of twenty looks; 40001 in a caller's
--   repeatable read or serializable transaction.
-- Called by: store_jobs.
create or replace function taskq.take_keys(p_queue text, p_ids bigint[], p_keys text[])
returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_keys       text[];          -- still to be taken or found
  v_ids        bigint[];        -- the first job that asks for each
  v_held_keys  text[] := '{}';
  v_holder_ids bigint[] := '{}';
  v_more_keys  text[];
  v_more_ids   bigint[];
begin
  select array_agg(w.key order by w.key collate "C"), array_agg(w.id order by w.key collate "C")
  into v_keys, v_ids
  from (
    select t.key, min(t.id) as id
    from unnest(p_ids, p_keys) as t (id, key)
    where t.key is not null
    group by t.key
  ) w;

  for v_look in 1 .. 20 loop
    exit when v_keys is null;

    insert into taskq.unique_keys (queue, key, job_id)
    select p_queue, w.key, w.id
    from unnest(v_keys, v_ids) as w (key, id)
    on conflict (queue, key) do nothing;

    -- one index probe per key: a join here would scan all keys once they are many
    select
      array_agg(h.key) filter (where h.holder is not null),
      array_agg(h.holder) filter (where h.holder is not null),
      array_agg(h.key order by h.n) filter (where h.holder is null),
      array_agg(h.id order by h.n) filter (where h.holder is null)
    into v_more_keys, v_more_ids, v_keys, v_ids
    from (
      select w.n, w.key, w.id,
        (select u.job_id from taskq.unique_keys u where u.queue = p_queue and u.key = w.key) as holder
      from unnest(v_keys, v_ids) with ordinality as w (key, id, n)
    ) h;
    v_held_keys := v_held_keys || v_more_keys;
    v_holder_ids := v_holder_ids || v_more_ids;
  end loop;
  if v_keys is not null then
    raise exception using errcode = 'TQ500',
      message = format('unique key "%s" of queue "%s" changed hands on twenty looks', v_keys[1], p_queue),
      hint = 'Call again.';
  end if;

  return array(
    select coalesce(h.holder, t.id)
    from unnest(p_ids, p_keys) with ordinality as t (id, key, n)
    left join unnest(v_held_keys, v_holder_ids) as h (key, holder) on h.key = t.key
    order by t.n);
end
$$;

comment on function taskq.take_keys is
  'Take the unique keys of new jobs, or find who holds them.';
