"""Makes landing files: what the functions and classes of Python's standard library say of themselves, a file a module.

python landing.py --modules heapq,json,shutil
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

MODULES = (
    "argparse,base64,bisect,calendar,collections,contextlib,copy,csv,datetime,difflib,email.message,fractions,functools,"
    "glob,gzip,heapq,html,http.client,imaplib,inspect,ipaddress,json,locale,logging,mailbox,mimetypes,operator,os,pathlib,"
    "pickle,pprint,queue,random,re,sched,secrets,shelve,shlex,shutil,smtplib,socket,ssl,statistics,string,subprocess,"
    "tarfile,tempfile,textwrap,threading,timeit,tokenize,trace,traceback,types,urllib.parse,urllib.request,uuid,wave,"
    "weakref,webbrowser,xml.etree.ElementTree,zipfile"
)


def documented(module: str) -> Iterator[dict[str, str]]:
    """Each function and class of a module with the first paragraph of its docstring; nothing is imported."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return
    yield from _members(ast.parse(Path(spec.origin).read_text("utf-8")).body, module, module)


def _members(body: list[ast.stmt], prefix: str, module: str) -> Iterator[dict[str, str]]:
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        name, text = f"{prefix}.{node.name}", ast.get_docstring(node)
        if text:
            yield {"name": name, "module": module, "text": " ".join(text.partition("\n\n")[0].split())}
        if isinstance(node, ast.ClassDef):
            yield from _members(node.body, name, module)


def write_module(folder: Path, module: str) -> int:
    """The file of a module, which appears whole or not at all; gives how many rows it has."""
    rows = {row["name"]: row for row in documented(module)}  # a function that is defined twice is there once
    path = folder / f"{module}.jsonl"
    part = path.with_name(f"_{path.name}")  # hidden from pipelines until it is whole
    part.write_text("".join(json.dumps(row) + "\n" for row in rows.values()), "utf-8")
    part.rename(path)
    return len(rows)


def main() -> None:
    """Writes landing/."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", default=MODULES, help="names with commas; about sixty unless given")
    folder = Path(__file__).parent / "landing"
    folder.mkdir(exist_ok=True)
    modules = parser.parse_args().modules.split(",")
    rows = sum(write_module(folder, module) for module in modules)
    files = "1 file" if len(modules) == 1 else f"{len(modules)} files"
    print(f"{rows:,} rows in {files} of {folder}")


if __name__ == "__main__":
    main()
