"""Where the server may send requests: how a URL must be written, and which addresses are public.

One strict parser reads a URL, and the connection is made from what it read; nothing parses the text a second time, so
two readers can never disagree about the host. Whatever is unusual (numbers for dotted addresses, percent signs or
backslashes in the host) is refused instead of being understood.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv4Network, IPv6Network, ip_address, ip_network
from urllib.parse import quote

import idna

from jobs.settings import SettingsError

Address = IPv4Address | IPv6Address
MAX_URL = 2048
_PORTS = {"http": 80, "https": 443}
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
# What a resolver in the style of inet_aton would take for the last part of a number: 127.1, 0x7f.1, 2130706433.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_URL = re.compile(r"(?P<scheme>https?)://(?P<authority>[^/?#]*)(?P<target>[^#]*)(?:#.*)?", re.IGNORECASE)
_UNWRITABLE = re.compile(r"[\s\x00-\x20\x7f-\x9f\\\ud800-\udfff]")
_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^\[\]:]*)(?::(?P<port>[0-9]{0,5}))?")

# IANA's special-purpose registries, and addresses on which clouds answer with credentials.
_REFUSED = [(ip_network(network), reason) for network, reason in (
    ("0.0.0.0/8", "an unspecified address"),
    ("127.0.0.0/8", "a loopback address"),
    ("10.0.0.0/8", "a private address"),
    ("172.16.0.0/12", "a private address"),
    ("192.168.0.0/16", "a private address"),
    ("169.254.0.0/16", "a link-local address"),
    ("100.64.0.0/10", "an address of a carrier's inner network"),
    ("168.63.129.16/32", "a cloud's metadata address"),
    ("192.0.0.0/24", "a reserved address"),
    ("192.0.2.0/24", "a documentation address"),
    ("192.88.99.0/24", "a 6to4 relay"),
    ("198.18.0.0/15", "a benchmarking address"),
    ("198.51.100.0/24", "a documentation address"),
    ("203.0.113.0/24", "a documentation address"),
    ("224.0.0.0/4", "a multicast address"),
    ("240.0.0.0/4", "a reserved address"),
    ("::/128", "an unspecified address"),
    ("::1/128", "a loopback address"),
    ("::ffff:0:0/96", "an IPv4-mapped address"),
    ("::/96", "an IPv4-compatible address"),
    ("64:ff9b::/96", "a NAT64 address"),
    ("64:ff9b:1::/48", "a NAT64 address"),
    ("2001::/32", "a Teredo address"),
    ("2001::/23", "a reserved address"),
    ("2001:db8::/32", "a documentation address"),
    ("2002::/16", "a 6to4 address"),
    ("3fff::/20", "a documentation address"),
    ("fc00::/7", "a private address"),
    ("fe80::/10", "a link-local address"),
    ("fec0::/10", "a site-local address"),
    ("ff00::/8", "a multicast address"),
)]
# Names that lead inside wherever they lead (RFC 6761, 6762, 8375; .internal is ICANN's private suffix).
_INNER = ("localhost", "localdomain", "local", "internal", "home.arpa", "metadata.goog")
_GLOBAL_IPV6 = ip_network("2000::/3")


class BadTarget(ValueError):
    """The URL cannot be used as a target; the message says why, in words for its author."""


@dataclass(frozen=True)
class Target:
    """A URL taken apart. `host` is lower-case ASCII without brackets or trailing dot; `path` holds the query too."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def literal(self) -> Address | None:
        """The address, if the host is one and not a name."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None

    @property
    def inner(self) -> bool:
        """Whether the name says by itself that it leads to an inner network."""
        return any(f".{self.host}".endswith(f".{name}") for name in _INNER)

    @property
    def origin(self) -> str:
        """`https://example.com`, with the port unless it is the scheme's own (RFC 6454, section 6.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _PORTS[self.scheme] else f":{self.port}")

    @property
    def url(self) -> str:
        return self.origin + self.path


def parse_url(url: str) -> Target:
    """Read an absolute http or https URL; BadTarget for anything that two readers could read differently."""
    if not isinstance(url, str) or len(url) > MAX_URL:
        raise BadTarget(f"A URL is a text of at most {MAX_URL} characters.")
    if _UNWRITABLE.search(url):
        raise BadTarget("A URL holds no white space, control characters or backslashes.")
    match = _URL.fullmatch(url)
    if not match:
        raise BadTarget("Only absolute http:// and https:// URLs can be used.")
    if "@" in match["authority"]:
        raise BadTarget("The URL may not carry a user name or password.")
    authority = _AUTHORITY.fullmatch(match["authority"])
    if not authority:
        raise BadTarget("The URL's host and port cannot be read.")
    scheme = match["scheme"].lower()
    port = int(authority["port"] or _PORTS[scheme])
    if not 1 <= port <= 65535:
        raise BadTarget("A port is a number from 1 to 65535.")
    target = match["target"]
    path = quote(target if target.startswith("/") else "/" + target, safe="%/?:[]@!$&'()*+,;=~")
    return Target(scheme, parse_host(authority["host"]), port, path)


def parse_host(text: str) -> str:
    """The one spelling of a host: an address as `ipaddress` writes it, or a lower-case ASCII name. Else BadTarget."""
    if text.startswith("["):
        try:
            address = IPv6Address(text[1:-1])
        except ValueError:
            raise BadTarget("The IPv6 address cannot be read.") from None
        if address.scope_id:
            raise BadTarget("An address with a zone cannot be used.")
        return str(address)
    name = _ascii(text).removesuffix(".")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise BadTarget("Write an IPv4 address as four decimal numbers without leading zeros.") from None
    if len(name) > 253 or not _NAME.fullmatch(name):
        raise BadTarget("The URL's host is not a valid name.")
    return name


def _ascii(text: str) -> str:
    """A name as DNS has it: IDNA 2008 with the mapping of UTS 46, which turns ① and wide letters into plain ones."""
    if text.isascii():
        return text.lower()
    try:
        return idna.encode(text, uts46=True).decode("ascii")
    except idna.IDNAError:
        raise BadTarget("The URL's host is not a valid international name.") from None


def refusal(address: Address) -> str | None:
    """Why an address is refused (`a loopback address`), or None for a public one."""
    for network, reason in _REFUSED:
        if address.version == network.version and address in network:
            return reason
    public = address.is_global if address.version == 4 else address in _GLOBAL_IPV6
    return None if public else "a reserved address"


class AllowList:
    """What the operator lets through although it is not public: `host`, `host:port`, `10.0.0.0/8`, `10.0.0.0/8:8080`,
    `192.0.2.7`, `[::1]:9000`, `[fd00::/8]:443`, `fd00::/8`. SettingsError names an entry that cannot be read."""

    def __init__(self, entries: Iterable[str] = ()):
        self._hosts: set[tuple[str, int | None]] = set()
        self._networks: list[tuple[IPv4Network | IPv6Network, int | None]] = []
        for entry in entries:
            self._add(entry)

    def host(self, host: str, port: int) -> bool:
        """Whether a name is listed: then it may lead anywhere."""
        return (host, port) in self._hosts or (host, None) in self._hosts

    def address(self, address: Address, port: int) -> bool:
        """Whether an address lies in a listed network."""
        return any(address.version == network.version and address in network and only in (None, port)
                   for network, only in self._networks)

    def _add(self, entry: str) -> None:
        bracketed = re.fullmatch(r"\[([^\[\]]+)\](?::([0-9]{1,5}))?", entry)
        plain = re.fullmatch(r"([^\[\]:]+?)(?::([0-9]{1,5}))?", entry)
        place, port = (bracketed or plain).groups() if bracketed or plain else (entry, None)
        try:
            number = int(port) if port else None
            if number is not None and not 1 <= number <= 65535:
                raise BadTarget("A port is a number from 1 to 65535.")
            if ":" in place or "/" in place or _NUMBER.fullmatch(place.rpartition(".")[2]):
                self._networks.append((ip_network(place), number))
            else:
                self._hosts.add((parse_host(place), number))
        except ValueError as error:
            raise SettingsError(f"ACCEPTED_ALLOWED_TARGETS: {entry!r} is no host and no network: {error}") from None
