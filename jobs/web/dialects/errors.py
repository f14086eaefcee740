"""Errors as each dialect's clients read them: the problem document with a member `error` added, and its own status."""

import json
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, request

from jobs.web.problems import MEDIA_TYPE

Shape = Callable[[dict[str, Any]], dict[str, Any]]
"""From a problem document to the same with `error`; its `status` is what goes over the wire."""


def speak(blueprint: Blueprint, shape: Shape, owns: Callable[[str], object]) -> None:
    """Shape every problem under this dialect's routes, and those of paths that no route takes but which it `owns`."""

    @blueprint.after_app_request
    def translate(response: Response) -> Response:
        of_dialect = request.blueprint == blueprint.name or (request.blueprint is None and owns(request.path))
        if response.mimetype == MEDIA_TYPE and of_dialect:
            members = json.loads(response.get_data())
            if "error" not in members:
                shaped = shape(members)
                response.status_code = shaped["status"]
                response.set_data(json.dumps(shaped, ensure_ascii=False))
        return response
