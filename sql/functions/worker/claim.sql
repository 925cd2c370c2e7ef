-- Take up to p_limit due jobs under a lease, each with a fence of its own.
--
-- candidates, admit, move: three internal functions; a queue that uses no keys calls none
-- of theirs. It may return fewer jobs than there are: poll_hint then says `ready`. The fence
-- is drawn here and must never be drawn twice, so the commit is synchronous whatever the
-- role's setting. Meant for up to about 20 priorities in use per queue.
--
-- Arguments: p_queues 1 to 100 names, served in this order; p_worker_id up to 255 bytes;
--   p_limit 1 to 1000; p_lease 0.1 s to 1 day, null = each job's own.
-- Returns: claimed_job rows in claim order: queues as given, then priority (higher first),
--   scheduled_at, id.
-- Locks: ready rows, skipping locked ones; the advisory locks of at most 128 concurrency
--   keys, tried. Waits for nobody.
-- Raises: TQ422 bad input; TQ409 outside read committed, where a key cannot be counted.
-- Called by: workers.
create or replace function taskq.claim(
  p_queues    text[],
  p_worker_id text,
  p_limit     int = 1,
  p_lease     interval = null
)
returns setof taskq.claimed_job
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ids   bigint[];
  v_keyed boolean;
  v_named boolean;
begin
  perform taskq.check_claim(p_queues collate "default", p_worker_id collate "default", p_limit, p_lease);
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception using errcode = 'TQ409',
      message = format('claim was called in a %s transaction', current_setting('transaction_isolation')),
      hint = 'Call it at read committed: a concurrency key is counted in a statement after its lock.';
  end if;
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;

  if exists (select from taskq.signals s where s.kind = 'key') then
    perform taskq.restore_keys();
  end if;
  select c.ids, c.keyed, c.named into v_ids, v_keyed, v_named
  from taskq.claim_candidates(p_queues collate "default", p_limit) c;
  if v_keyed then
    v_ids := taskq.admit_keys(v_ids);
  end if;
  if v_named then
    -- a key that counts only until the start is now for whoever asks next; one that is free
    -- already, of a job that came back without it, may be locked by who takes it
    update taskq.unique_keys u set free = true where u.job_id = any (v_ids) and u.waiting and not u.free;
  end if;
  if cardinality(v_ids) > 0 then
    return query
    select * from taskq.claim_move(v_ids, p_queues collate "default", p_worker_id collate "default", p_lease);
  end if;
end
$$;

comment on function taskq.claim is
  'Take up to p_limit due jobs under a lease, each with a fence of its own.';
