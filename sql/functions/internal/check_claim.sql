-- Refuse the arguments of a claim that are outside the bounds.
--
-- Arguments: those of claim.
-- Returns: nothing.
-- Locks: none.
-- Raises: TQ422.
-- Called by: claim, poll_hint, sleep_until.
create or replace function taskq.check_claim(
  p_queues    text[],
  p_worker_id text,
  p_limit     int,
  p_lease     interval
)
returns void
language plpgsql
as $$
declare
  v_fault text := case
    when p_queues is null or cardinality(p_queues) not between 1 and 100
      then 'p_queues must name 1 to 100 queues'
    when array_ndims(p_queues) <> 1 or array_position(p_queues, null) is not null
      then 'p_queues must be one list of names without null'
    when p_worker_id is null or p_worker_id = '' or octet_length(p_worker_id) > 255
      then 'p_worker_id must be 1 to 255 bytes'
    when p_limit is null or p_limit not between 1 and 1000
      then format('p_limit %s is outside 1 to 1000', coalesce(p_limit::text, 'null'))
    when not taskq.fits(p_lease, '0.1 s', '1 day')
      then format('lease %s is outside 0.1 s to 1 day', p_lease)
  end;
begin
  if cardinality(p_queues) > 1 and v_fault is null then  -- a sub-query would make a statement of every expression
    if (select count(distinct q) from unnest(p_queues) as q) < cardinality(p_queues) then
      v_fault := 'p_queues must not name a queue twice';
    end if;
  end if;
  if v_fault is not null then
    raise exception using errcode = 'TQ422', message = v_fault;
  end if;
end
$$;

comment on function taskq.check_claim is
  'Refuse the arguments of a claim that are outside the bounds.';
