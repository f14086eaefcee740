"""A browser without scripts: signs in, reads forms as they are filled in, and sends them."""

import re
from html.parser import HTMLParser

import requests


class Form(HTMLParser):
    """What a page's form would send: a list of (name, value), as a browser gathers them."""

    def __init__(self, page: str, action: str):
        super().__init__()
        self.fields: list[tuple[str, str]] = []
        self._action, self._inside, self._text, self._select = action, False, None, None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        had = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = had.get("action", "").endswith(self._action)
        if not self._inside:
            return
        if tag == "input" and had.get("type") not in ("file", "checkbox", "radio") or tag == "input" and "checked" in had:
            self.fields.append((had["name"], had.get("value", "")))
        elif tag == "textarea":
            self._text = had["name"], ""
        elif tag == "select":
            self._select = [had["name"], None]
        elif tag == "option" and self._select and (self._select[1] is None or "selected" in had):
            self._select[1] = had.get("value", "")

    def handle_data(self, data):
        if self._text:
            self._text = self._text[0], self._text[1] + data

    def handle_endtag(self, tag):
        if tag == "textarea" and self._text:
            self.fields.append((self._text[0], self._text[1].removeprefix("\n")))
            self._text = None
        elif tag == "select" and self._select:
            self.fields.append(tuple(self._select))
            self._select = None
        elif tag == "form":
            self._inside = False


class Browser(requests.Session):
    """Somebody who looks at the pages of a server."""

    def __init__(self, url: str, language: str = "en"):
        super().__init__()
        self.url = url
        self.headers["Accept-Language"] = language

    def request(self, method, url, *args, **options):
        return super().request(method, self.url + url, *args, **{"timeout": 60} | options)

    def token(self) -> str:
        """The secret of this session's forms."""
        return re.search(r'name="csrf" value="([^"]+)"', self.get("/ui/sign-in").text)[1]

    def sign_in(self, key: str) -> "Browser":
        assert self.post("/ui/sign-in", {"csrf": self.token(), "key": key}).ok
        assert self.is_in()
        return self

    def is_in(self) -> bool:
        return self.get("/v1/jobs").status_code == 200 and self.get("/ui/", allow_redirects=False).status_code == 200

    def copy(self) -> "Browser":
        """A thief's: the same cookie."""
        other = Browser(self.url)
        other.cookies.update(self.cookies)
        return other

    def form(self, type_name: str, like: object = "") -> dict[str, str | list[str]]:
        """The form of a job type as it is filled in."""
        page = self.get(f"/ui/new/{type_name}", params={"like": like} if like else None)
        assert page.status_code == 200, page.text
        found: dict = {}
        for name, value in Form(page.text, f"/ui/new/{type_name}").fields:
            found[name] = [*found[name], value] if isinstance(found.get(name), list) else [found[name], value] if name in found else value
        return found

    def submit(self, type_name: str, form: dict, **changes):
        """Send it; the id of the job that came to be, or the page that says why there is none."""
        answer = self.post(f"/ui/new/{type_name}", data=form | changes, allow_redirects=False)
        if answer.status_code == 303:
            return answer.headers["Location"].rpartition("/")[2]
        assert answer.status_code == 422, answer.text
        return answer.text
