-- Enqueue one job.
--
-- Once the transaction commits, the job is PostgreSQL's: it is run at least once or ends in
-- a state that says why not. null for a policy means the queue's default.
--
-- Arguments: p_queue, p_task up to 120 bytes; p_payload a JSON object up to 64 KiB;
--   p_priority smallint, higher runs first, default 0; p_scheduled_at an instant or p_delay
--   from now, 0 to 366 days; p_unique_key up to 255 bytes: while a live job of this queue
--   holds it, no second one is made; p_concurrency_key up to 255 bytes: at most N (default 1)
--   jobs of it run at once; p_max_attempts 1 to 100000; p_backoff, p_backoff_max 0 to 366
--   days; p_lease 0.1 s to 1 day; p_ttl: not started this long after it was due, it is
--   cancelled; p_headers a JSON object up to 8 KiB; p_skip_wake true only on an autocommit
--   connection: NOTIFY is skipped when no sleeping worker needs it; p_unique_mode what a holder
--   that waits meets: `keep` (default) leaves it, `replace` gives it this request,
--   `replace_keep_schedule` all of it but the time; p_unique_scope `live` (default) = until
--   the holder has ended, `waiting` = until it is started; p_unique_for = until so long after
--   the holder was enqueued at least, 0 to 366 days; p_ordered true: it is started when no older
--   ordered job of its concurrency key is live, and older is whose producer committed before.
-- Returns: status `created`, `existed`, `replaced`, or `running` (a replace that came too late),
--   and the id of the new job or of the holder.
-- Locks: a unique key that is new or over waits for a transaction that takes or frees it; a replace for
--   one that moves or replaces its holder; with scope `waiting` the holder that waits is not
--   started before this transaction ends; an ordered job waits for other transactions that
--   enqueue one of its key.
-- Raises: TQ422 bad input; TQ001 no such queue, where queues are strict; TQ429 a full queue; 40001
--   in a repeatable read or serializable transaction, where a unique key has changed hands, or the
--   job that it would replace was started, since the first statement.
-- Called by: producers.
create or replace function taskq.enqueue(
  p_queue           text,
  p_task            text,
  p_payload         jsonb = '{}',
  p_priority        int = null,
  p_scheduled_at    timestamptz = null,
  p_delay           interval = null,
  p_unique_key      text = null,
  p_concurrency_key text = null,
  p_max_attempts    int = null,
  p_backoff         interval = null,
  p_backoff_max     interval = null,
  p_lease           interval = null,
  p_ttl             interval = null,
  p_headers         jsonb = null,
  p_skip_wake       boolean = false,
  p_unique_mode     text = null,
  p_unique_scope    text = null,
  p_unique_for      interval = null,
  p_ordered         boolean = null,
  out status        text,
  out job_id        bigint
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job constant taskq.new_job := row(
    p_task, p_payload, p_priority, p_scheduled_at, p_delay, p_unique_key, p_concurrency_key,
    p_max_attempts, p_backoff, p_backoff_max, p_lease, p_ttl, p_headers, p_unique_mode,
    p_unique_scope, p_unique_for, p_ordered)::taskq.new_job;
begin
  if p_unique_key is null and p_ordered is not true then
    enqueue.status := 'created';
    enqueue.job_id := taskq.store_job(p_queue collate "default", v_job, coalesce(p_skip_wake, false));
  elsif p_unique_mode is null or p_unique_mode = 'keep' then
    select s.status, s.job_id into enqueue.status, enqueue.job_id
    from taskq.store_jobs(p_queue collate "default", array[v_job], coalesce(p_skip_wake, false)) s;
  else
    select s.status, s.job_id into enqueue.status, enqueue.job_id
    from taskq.store_anew(p_queue collate "default", array[v_job], coalesce(p_skip_wake, false)) s;
  end if;
end
$$;

comment on function taskq.enqueue is
  'Enqueue one job.';
