-- Close everything to PUBLIC: a login gets just the functions of its role, by name.
--
-- Applied after every function file, since a new function is open to PUBLIC by default.
revoke all on schema taskq from public;
revoke all on all tables in schema taskq from public;
revoke all on all sequences in schema taskq from public;
revoke all on all functions in schema taskq from public;
