-- What is installed, and what holds for the whole schema. Exactly one row.
create table taskq.settings (
  only_row      boolean not null default true primary key check (only_row),
  version       text not null default '0',   -- written by the applier, read by schema_version
  min_client    text not null default '0',   -- a client below this version refuses to start
  fingerprint   text not null default '',    -- of the applied files; equal = nothing to do
  migration     int not null default 0,      -- the last numbered migration that the tables have; by the applier
  strict_queues boolean not null default false  -- true: enqueue refuses a queue without a row in queues
);

insert into taskq.settings default values;
