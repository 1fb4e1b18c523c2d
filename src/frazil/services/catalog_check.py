"""The check of `catalog.uri`: whether something answers there, whether it is an Iceberg REST catalog, and whose."""

from __future__ import annotations

import base64
import http.client
import json
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from frazil.config import Settings, redact_url
from frazil.served import FILE_NAME, read_served

TIMEOUT_SECONDS = 2.0
LONGEST_ANSWER = 1 << 20


@dataclass(frozen=True)
class CatalogAnswer:
    """What was found at `catalog.uri`; `problem` says why it is of no use."""

    detail: str
    problem: bool = False
    fix: str | None = None
    chosen: bool = False  # the user has named this address: the default one may well be silent


def ask_catalog(settings: Settings) -> CatalogAnswer:
    """Asks the catalog of the settings for its configuration. Changes nothing, and waits for two seconds at most."""
    source = settings.source_of("catalog.uri")
    where = f"{redact_url(settings.catalog.uri)} ({source})"
    chosen = source != "default" and not source.endswith(FILE_NAME)
    warehouse = settings.catalog.warehouse
    path = "/v1/config" + (f"?warehouse={quote(warehouse, safe='')}" if warehouse else "")
    try:
        config = json.loads(_get(settings, path))
        overrides = {**config["defaults"], **config["overrides"]}
    except urllib.error.HTTPError as exc:
        return CatalogAnswer(f"{where} answers {exc.code} {exc.reason}", True, _fix(exc.code), chosen)
    except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError):
        detail = f"{where} answers, and is not an Iceberg REST catalog"
        return CatalogAnswer(detail, True, "correct catalog.uri: frazil config shows where it is set", chosen)
    except (OSError, ValueError, http.client.HTTPException) as exc:
        reason = getattr(exc, "reason", None) or exc
        detail = f"{where} does not answer: {redact_url(str(reason))}"
        return CatalogAnswer(
            detail, True, "start one with: frazil serve (or frazil up), or correct catalog.uri", chosen
        )
    return CatalogAnswer(f"{where}: {_version(settings)}, {_warehouse(settings, overrides)}", chosen=chosen)


def _fix(status: int) -> str:
    if status in (401, 403):
        return "set catalog.token, or correct it"
    return "correct catalog.uri or catalog.warehouse: frazil config shows where they are set"


def _version(settings: Settings) -> str:
    """Frazil's own server says its version in its metrics; other catalogs do not say theirs."""
    try:
        build = re.search(r'frazil_build_info\{[^}]*version="([^"]+)"', _get(settings, "/metrics"))
    except (OSError, ValueError, http.client.HTTPException):
        build = None
    return f"Frazil {build[1]}" if build else "an Iceberg REST catalog that does not say its version"


def _warehouse(settings: Settings, overrides: dict[str, str]) -> str:
    """The warehouse, its place, and the process that serves it, as far as they are known."""
    name = overrides.get("prefix") or settings.catalog.warehouse or "default"
    served = read_served(settings.stack.folder.absolute())
    if served is None or served.uri != settings.catalog.uri:
        return f"warehouse {name}"
    place = served.warehouses.get(name)
    return f"warehouse {name}{f' in {place}' if place else ''}, served by 'frazil {served.command}' (pid {served.pid})"


def _without_credentials(uri: str) -> tuple[str, dict[str, str]]:
    """The address without `user:password@`, and the header that sends them: urllib takes them for a part of the host.

    >>> _without_credentials("http://me:p%40ss@127.0.0.1:8181/lake")
    ('http://127.0.0.1:8181/lake', {'Authorization': 'Basic bWU6cEBzcw=='})
    >>> _without_credentials("http://127.0.0.1:8181")
    ('http://127.0.0.1:8181', {})
    """
    parts = urlsplit(uri)
    credentials, at, host = parts.netloc.rpartition("@")
    if not at:
        return uri, {}
    encoded = base64.b64encode(unquote(credentials).encode()).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {encoded}"}


def _get(settings: Settings, path: str) -> str:
    uri, headers = _without_credentials(settings.catalog.uri)
    if token := settings.catalog.token:
        headers = {"Authorization": f"Bearer {token.get_secret_value()}"}
    if not uri.startswith(("http://", "https://")):
        raise ValueError("it is not an http:// or https:// address")
    request = urllib.request.Request(uri.rstrip("/") + path, headers=headers)  # noqa: S310  # http only, see above
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310
        answer: bytes = response.read(LONGEST_ANSWER)
    return answer.decode()
