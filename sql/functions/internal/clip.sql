-- Cut a diagnostic text to a number of bytes, never through a character.
--
-- Arguments: p_text, null stays null; p_bytes the cap.
-- Returns: text of at most p_bytes bytes.
-- Locks: none.
-- Raises: nothing.
-- Called by: settle_attempts (error, reason), finish_ready, cancel_job, stop_worker, write_audit;
--   job_fault, parse_jobs, parse_settlements, heartbeat, list_jobs for what they show of bad input.
create or replace function taskq.clip(p_text text, p_bytes int)
returns text
language plpgsql
immutable
parallel safe
set search_path = pg_catalog, pg_temp
as $$
declare
  v_text text := left(p_text, p_bytes);
begin
  -- a character has at most 4 bytes, so each round keeps what surely fits and ends soon
  while octet_length(v_text) > p_bytes loop
    v_text := left(v_text, -greatest(1, (octet_length(v_text) - p_bytes) / 4));
  end loop;
  -- a database in SQL_ASCII takes each byte for a character: go back to where one of UTF-8 begins
  if getdatabaseencoding() = 'SQL_ASCII' then
    for v_step in 1 .. 3 loop
      exit when ascii(substr(p_text, octet_length(v_text) + 1, 1)) not between 128 and 191;
      v_text := left(v_text, -1);
    end loop;
  end if;
  return v_text;
end
$$;

comment on function taskq.clip is
  'Cut a diagnostic text to a number of bytes, never through a character.';
