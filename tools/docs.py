"""`make docs`: writes what is generated in docs/ and README.md; `--check` fails, naming the page, when one is not what
the code gives.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools import (
    api_reference,
    bench_page,
    cli_reference,
    diagrams,
    engine_matrix,
    engine_pages,
    error_reference,
    layout,
    metrics_reference,
    readme,
    requirements,
    rest_reference,
    settings_reference,
)

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "README.md": readme.render_page,
    "docs/requirements.md": requirements.render_page,
    "docs/api.md": api_reference.render_page,
    "docs/rest.md": rest_reference.render_page,
    "docs/cli.md": cli_reference.render_page,
    "docs/settings.md": settings_reference.render_page,
    "docs/errors.md": error_reference.render_page,
    "docs/metrics.md": metrics_reference.render_page,
    "docs/catalog.md": metrics_reference.render_server_page,
    "docs/engine-matrix.md": engine_matrix.render_page,
    **engine_pages.pages(),
    "docs/architecture.md": layout.render_page,
    "docs/benchmarks.md": bench_page.render_page,
}


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = []
    files = {name: render() for name, render in PAGES.items()} | bench_page.plots() | diagrams.plots()
    for name, text in files.items():
        page = ROOT / name
        if check and (not page.exists() or page.read_text(encoding="utf-8") != text):
            stale.append(name)
        elif not check:
            page.parent.mkdir(exist_ok=True)
            page.write_text(text, encoding="utf-8")
    if stale:
        print(f"{', '.join(stale)}: not what the code gives; run `make docs` and commit the result")
        return 1
    print(f"docs: {len(files)} generated files are {'up to date' if check else 'written'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
