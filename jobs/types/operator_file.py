"""The TOML files in which the operator declares what job types offer."""

import tomllib
from pathlib import Path
from typing import Any

from jobs.settings import PREFIX, SettingsError


def tables_of(setting: str, path: Path) -> dict[str, Any]:
    """What stands in the file that `setting` (`COMMANDS`) names. SettingsError when it cannot be read or is no TOML."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"{PREFIX}{setting}: {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{PREFIX}{setting}: {path} is no TOML: {error}.") from None
