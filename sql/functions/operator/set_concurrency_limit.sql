-- Set how many jobs of a concurrency key may run at once, over all queues and workers.
--
-- A lowered limit ends nothing that runs; it only lets nothing new start. A raised one lets
-- held jobs back at the next claim.
--
-- Arguments: p_key up to 255 bytes; one that ends in `*` is a pattern, for each key that begins so
--   and has no limit of its own or of a longer pattern; p_max_running 0 (closed) to 1,000,000,
--   null = no limit of its own: that of the longest pattern, else 1; p_actor, null = the
--   session's role; p_reason.
-- Returns: key; max_running as it is now.
-- Locks: the key's limit row, waits. A pattern waits for claims of jobs with a key that are under
--   way, and until this transaction ends claims put no jobs on hold.
-- Raises: TQ422 bad input; TQ409 a pattern outside read committed, where what claims have put on
--   hold meanwhile cannot be seen.
-- Called by: operators.
create or replace function taskq.set_concurrency_limit(
  p_key           text,
  p_max_running   int,
  p_actor         text = null,
  p_reason        text = null,
  out key         text,
  out max_running int
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
  v_now constant timestamptz := taskq.clock();
begin
  if p_key is null or p_key = '' or octet_length(p_key) > 255 then
    raise exception using errcode = 'TQ422', message = 'p_key must be 1 to 255 bytes';
  end if;
  if p_max_running not between 0 and 1000000 then
    raise exception using errcode = 'TQ422',
      message = format('max_running %s of key "%s" is outside 0 to 1000000', p_max_running, p_key);
  end if;

  if right(p_key, 1) = '*' then
    if current_setting('transaction_isolation') <> 'read committed' then
      raise exception using errcode = 'TQ409',
        message = format('the limit of pattern "%s" was set in a %s transaction', p_key, current_setting('transaction_isolation')),
        hint = 'Call it at read committed: it looks for held jobs after it has waited for claims.';
    end if;
    perform pg_advisory_xact_lock(taskq.limits_lock());
  end if;
  set_concurrency_limit.key := p_key;
  if p_max_running is null then
    delete from taskq.concurrency_limits l where l.key = p_key collate "default";
  else
    insert into taskq.concurrency_limits as l (key, max_running, updated_at)
    values (p_key, p_max_running, v_now)
    on conflict (key) do update set max_running = excluded.max_running, updated_at = v_now;
  end if;
  select k.max_running into set_concurrency_limit.max_running from taskq.key_limits(array[p_key collate "default"]) k;
  if right(p_key, 1) = '*' then
    perform taskq.free_keys(array(
      with recursive held (key) as (
        (select min(r.concurrency_key) from taskq.ready r where r.hold = 'key')
        union all
        select (select min(r.concurrency_key) from taskq.ready r where r.hold = 'key' and r.concurrency_key > h.key)
        from held h
        where h.key is not null
      )
      select h.key from held h where starts_with(h.key, left(p_key collate "default", -1))));
  end if;
  perform taskq.free_keys(array[p_key collate "default"]);
  perform taskq.write_audit('set_concurrency_limit', 'key ' || p_key, p_actor, p_reason,
    jsonb_build_object('max_running', p_max_running));
end
$$;

comment on function taskq.set_concurrency_limit is
  'Set how many jobs of a concurrency key may run at once, over all queues and workers.';
