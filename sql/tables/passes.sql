-- When each housekeeping pass last ran. take_back reads its own row: a pass that comes long
-- after the last one gives the owners of leases a chance to beat first.
create table taskq.passes (
  name    text not null primary key,
  last_at timestamptz not null
);
