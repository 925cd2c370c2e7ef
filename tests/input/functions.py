"""The functions of the contract, as the catalog has them, so that a new one is covered by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from attrs import frozen

from kit.contract import Connection
from kit.sql_api import sql_api

_QUERY = """
select p.proname, p.provolatile <> 'v',
  array(select a.name from unnest(p.proargnames) with ordinality as a (name, n)
        where coalesce(p.proargmodes[a.n], 'i') = 'i' order by a.n),
  array(select pg_catalog.format_type(a.type, null) from unnest(p.proargtypes::oid[]) with ordinality as a (type, n)
        order by a.n),
  p.pronargdefaults
from pg_catalog.pg_proc p
where p.pronamespace = 'taskq'::regnamespace and p.prosecdef
order by p.proname
"""


@frozen
class Parameter:
    """One parameter: its name with `p_`, its type as the catalog writes it, whether it may be left out."""

    name: str
    type: str
    optional: bool


@frozen
class Function:
    """One function; *sqlstates* are those of which its header warns, *reads* says that it changes nothing."""

    name: str
    reads: bool
    parameters: tuple[Parameter, ...]
    sqlstates: frozenset[str]

    def call(self, names: Iterable[str], *, collation: str = "") -> str:
        """Return the statement that calls it with these parameters, each row of its answer as one text.

        Texts are given the *collation*, if there is one.
        """
        types = {each.name: each.type for each in self.parameters}
        collated = {"text": collation, "text[]": collation}
        given = ", ".join(
            f"{name} => %({name})s::{types[name]} {collated.get(types[name], '')}" for name in names
        )
        return f"select r::text from taskq.{self.name}({given}) as r"


def functions(conn: Connection) -> dict[str, Function]:
    """Return the functions of the contract by name."""
    headers = {each.name: each.sections["Raises"] for group in sql_api.contract().values() for each in group}
    return {
        name: Function(
            name,
            reads,
            tuple(
                Parameter(*pair, optional=n >= len(names) - defaults)
                for n, pair in enumerate(zip(names, types, strict=True))
            ),
            _sqlstates(name, headers),
        )
        for name, reads, names, types, defaults in conn.execute(_QUERY).fetchall()
    }


def _sqlstates(name: str, headers: Mapping[str, str]) -> frozenset[str]:
    """Return the codes in a header, and those of the functions it refers to: "as claim"."""
    text = headers[name]
    others = [each for each in re.findall(r"\bas (\w+)", text) if each in headers]
    return frozenset(re.findall(r"\bTQ\d{3}\b", text)).union(*(_sqlstates(each, headers) for each in others))
