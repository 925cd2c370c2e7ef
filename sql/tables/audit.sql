-- What operators did: one row per call of an operator verb, deleted by prune after 90 days.
create table taskq.audit (
  id           bigint generated always as identity primary key,
  at           timestamptz not null,
  actor        text not null,
  session_role name not null,
  verb         text not null,
  target       text not null,     -- what it was done to: 'job 7', 'queue mail', 'key user:3'
  reason       text,
  detail       jsonb
);

create index audit_at on taskq.audit (at);
