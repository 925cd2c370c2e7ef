-- The schema that holds everything: tables, types, views and functions.
--
-- Nothing in it is open to PUBLIC; grants.sql closes the functions, and a login gets
-- just the functions of its role.
create schema if not exists taskq;

comment on schema taskq is
  'taskq_sync: a job queue. Its functions and views are the interface; its tables are private.';
