"""Write the functions of the contract into docs/sql-api.md, from the headers of their files.

    python docs/sql_api.py            # write the page if it is not fresh
    python docs/sql_api.py --check    # change nothing; exit code 1 if it is not fresh

The page is written by hand but for what stands between `BEGIN` and `END`. A header is the comment on top of a
function's file: a sentence, more prose if need be, and the sections of `SECTIONS` in this order.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "sql-api.md"
FUNCTIONS = ROOT / "sql" / "functions"

#: The folders of the contract, in the order of the page. `internal` is no part of it.
GROUPS = ("producer", "worker", "operator", "observer", "housekeeping")

SECTIONS = ("Arguments", "Returns", "Locks", "Raises", "Called by")

BEGIN = "<!-- functions: written by docs/sql_api.py from sql/functions; edit the headers there -->"
END = "<!-- end of functions -->"

_SECTION = re.compile(rf"({'|'.join(SECTIONS)}): ?(.*)")
_DECLARATION = re.compile(r"^create or replace function taskq\.(\w+)", re.MULTILINE)
_COMMENT = re.compile(r"^comment on function taskq\.(\w+) is\s+'((?:[^']|'')*)';", re.MULTILINE)
_NAMES = re.compile(r"(?<![`\w])((?:p_|TQ)\w+)(?![`\w])")


@frozen(kw_only=True)
class Function:
    """One function as its file describes it.

    *sentence* and *prose* (paragraphs) are the head of the header, *sections* its named parts, each as one line.
    *signature* is the declaration without its body. *comments* are what the file sets by `comment on function`.
    *names* are those of all functions that the file creates.
    """

    path: Path
    sentence: str
    prose: tuple[str, ...]
    sections: Mapping[str, str]
    signature: str
    names: tuple[str, ...]
    comments: Mapping[str, str]

    @property
    def name(self) -> str:
        """The name that the file promises."""
        return self.path.stem

    @property
    def group(self) -> str:
        """The folder of the file."""
        return self.path.parent.name


def read_function(path: Path) -> Function:
    """Return the function that *path* defines; `ValueError` if the file does not begin with a header."""
    text = path.read_text(encoding="utf-8")
    head: list[str] = []
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        head.append(line.removeprefix("--").strip())
    paragraphs, sections = _split(head)
    if not paragraphs:
        raise ValueError(f"{path}: does not begin with a sentence")
    return Function(
        path=path,
        sentence=paragraphs[0],
        prose=tuple(paragraphs[1:]),
        sections=sections,
        signature=_signature(text),
        names=tuple(_DECLARATION.findall(text)),
        comments={name: comment.replace("''", "'") for name, comment in _COMMENT.findall(text)},
    )


def _split(lines: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Return the paragraphs and the sections of a header, each as one line."""
    paragraphs: list[str] = [""]
    sections: dict[str, str] = {}
    current = ""
    for line in lines:
        found = _SECTION.fullmatch(line)
        if found:
            current = found[1]
            sections[current] = found[2]
        elif current:
            sections[current] = f"{sections[current]} {line}".strip()
        elif line:
            paragraphs[-1] = f"{paragraphs[-1]} {line}".strip()
        else:
            paragraphs.append("")
    return [each for each in paragraphs if each], sections


def _signature(text: str) -> str:
    """Return the declaration from the name to the word before `language`, without the schema."""
    start = _DECLARATION.search(text)
    return "" if start is None else re.split(r"\nlanguage ", text[start.start(1) :])[0].rstrip()


def contract() -> dict[str, list[Function]]:
    """Return the functions of each group, groups in the order of the page, functions by name."""
    return {
        group: [read_function(each) for each in sorted((FUNCTIONS / group).glob("*.sql"))] for group in GROUPS
    }


def render(functions: Mapping[str, Iterable[Function]]) -> str:
    """Return the part of the page that is made from *functions*."""
    functions = {group: list(members) for group, members in functions.items()}
    overview = [
        f"| [{each.name}](#{each.name}) | {group} | {_marked(each.sentence)} |"
        for group, members in functions.items()
        for each in members
    ]
    parts = ["\n".join(["| function | for | what it does |", "|---|---|---|", *overview])]
    for group, members in functions.items():
        parts.append(f"## {group.capitalize()}")
        parts.extend(_render_one(each) for each in members)
    return "\n\n".join(parts)


def _render_one(function: Function) -> str:
    head = (function.sentence, *function.prose)
    return "\n\n".join(
        [
            f"### {function.name}",
            *(_filled(_marked(each)) for each in head),
            f"```text\n{function.signature}\n```",
            *(_section(name, function.sections[name]) for name in SECTIONS),
        ]
    )


def _section(name: str, text: str) -> str:
    """Return a section as a paragraph, or as a list where it tells of several parameters."""
    items = re.split(r"; (?=p_)", text.rstrip(".")) if name == "Arguments" else []
    if len(items) < 2:
        return _filled(f"**{name}:** {_marked(text)}")
    items = [textwrap.indent(_filled(_marked(each), 108), "  ") for each in items]
    return "\n".join([f"**{name}:**\n", *(f"- {each.lstrip()}" for each in items)])


def _marked(text: str) -> str:
    """Return *text* with parameters and error codes as code, and nothing that markdown would take for a tag."""
    return _NAMES.sub(r"`\1`", text).replace("<", "&lt;").replace("->", "→")


def _filled(text: str, width: int = 110) -> str:
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def fresh_page(page: str) -> str:
    """Return *page* with the part between the marks made anew; `ValueError` without the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has lost the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{render(contract())}\n\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` only look; returns the exit code."""
    page = PAGE.read_text(encoding="utf-8")
    fresh = fresh_page(page)
    if page == fresh:
        return 0
    if "--check" in arguments:
        sys.stderr.write("docs/sql-api.md is not fresh: run `python docs/sql_api.py`\n")
        return 1
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
