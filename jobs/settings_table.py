"""The settings, to be read by people: on the terminal and in docs/settings.md."""

import re

from jobs.settings import PREFIX, TABLE, Settings


def listing(settings: Settings) -> str:
    """One paragraph for each setting; `*` marks those given in the environment. Passwords are not shown."""
    lines = []
    for row in TABLE:
        given = PREFIX + row.name in settings.environment
        value = settings.environment.get(PREFIX + row.name, row.default)
        shown = covered(row.name, value) or "(empty)"
        lines += [f"{'*' if given else ' '} {PREFIX + row.name} = {shown}", f"      {row.help}"]
        if given and row.default:
            lines[-1] += f" Default: {row.default}."
    return "\n".join(lines)


def markdown() -> str:
    """The table of docs/settings.md."""
    rows = []
    for row in TABLE:
        default = f"`{row.default}`" if row.default else ""
        rows.append(f"| `{PREFIX}{row.name}` | {default} | {row.help.replace('|', '&#124;')} |")
    return "\n".join(["| setting | default | what it means |", "|---|---|---|", *rows])


def covered(name: str, value: str) -> str:
    """A setting's value without what must stay secret."""
    if value and name in ("ADMIN_KEY", "SECRET_KEY"):
        return "•••"
    return re.sub(r"(?<=:)[^:/@]+(?=@)", "•••", value)      # the password of a URL
