"""Hash the code that a stage runs: its module and every project module that it imports.

The serialisation is our own, because `ast.dump` differs between Python versions. Docstrings,
comments, layout and positions do not count.
"""

import ast
import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from pipeline.errors import AssayError
from pipeline.plan.project import CODE

PACKAGE = "pipeline"
UNCOUNTED = {"ctx", "kind", "type_comment", "type_ignores"}
Remember = Callable[[str, Callable[[], str]], str]


def source(module: str) -> Path | None:
    """Return the file of a project module or package, None for anything else."""
    if module.split(".")[0] != PACKAGE:
        return None
    base = CODE / Path(*module.split("."))
    return next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)


def serialise(node: object) -> str:
    """Write a syntax tree as text: node names and non-empty fields, docstrings left out."""
    if isinstance(node, ast.AST):
        fields = [(name, value) for name, value in ast.iter_fields(node) if name not in UNCOUNTED]
        inner = ",".join(
            f"{name}={serialise(_without_docstring(node, name, value))}"
            for name, value in fields
            if value is not None and value != []
        )
        return f"{type(node).__name__}({inner})"
    if isinstance(node, list):
        return "[" + ",".join(serialise(item) for item in node) + "]"
    return f"{type(node).__name__}:{node!r}"


def _without_docstring(node: ast.AST, field: str, value: object) -> object:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    if field != "body" or not isinstance(node, documented) or ast.get_docstring(node, clean=False) is None:
        return value
    return node.body[1:]


def import_names(module: str, tree: ast.Module, is_package: bool) -> Iterator[str]:
    """Yield what `module` imports of the project as `base` or `base:name:line`, relative imports resolved."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE)
        elif isinstance(node, ast.ImportFrom):
            base = _base(module, node, is_package)
            if base.split(".")[0] == PACKAGE:
                yield from (f"{base}:{alias.name}:{node.lineno}" for alias in node.names)


def _base(module: str, node: ast.ImportFrom, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parents = module.split(".") if is_package else module.split(".")[:-1]
    return ".".join([*parents[: len(parents) - node.level + 1], *([node.module] if node.module else [])])


def resolve(module: str, name: str) -> str | None:
    """Return the project module that an import name stands for, None where there is no file.

    Raises AssayError for a name taken from a package's `__init__`: that file is not hashed, so
    code imports the leaf module.
    """
    base, _, rest = name.partition(":")
    path = source(base)
    if path is None:
        return None
    if not rest and path.name == "__init__.py":
        raise AssayError(
            f"{module}: import {base}: a package's __init__ is in no fingerprint; import a module of it"
        )
    if not rest:
        return base
    if path.name != "__init__.py":
        return base
    attribute, _, line = rest.partition(":")
    if source(leaf := f"{base}.{attribute}") is None:
        raise AssayError(
            f"{module}, line {line}: {attribute!r} comes from the package {base}, whose __init__ is not part "
            f"of any fingerprint; import it from its own module"
        )
    return leaf


@cache
def _own_version() -> str:
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]


class Fingerprints:
    """Fingerprints of modules, parsed once; `remember(name, make)` may keep them between runs."""

    def __init__(self, remember: Remember | None = None) -> None:
        self._remember = remember or (lambda _, make: make())
        self._own: dict[str, tuple[str, list[str]]] = {}
        self._closures: dict[str, str] = {}

    def module(self, module: str) -> tuple[str, list[str]]:
        """Return the hash of one module's tree and the project modules that it imports."""
        if module not in self._own:
            path = source(module)
            if path is None:
                raise AssayError(f"no project module {module}: it is named in the stage table or a registry")
            data = path.read_bytes()
            name = f"tree:{_own_version()}:{module}:{hashlib.sha256(data).hexdigest()}"
            text = self._remember(name, lambda: _describe(module, data, path))
            digest, *names = text.split(" ")
            modules = {resolve(module, name) for name in names}
            self._own[module] = (digest, sorted(name for name in modules if name))
        return self._own[module]

    def closure(self, module: str) -> list[str]:
        """Return `module` and all project modules that it reaches, sorted."""
        seen: set[str] = set()
        todo = [module]
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += self.module(name)[1]
        return sorted(seen)

    def fingerprint(self, module: str) -> str:
        """Return 12 hex digits for the code behind `module`."""
        if module not in self._closures:
            parts = [f"{name} {self.module(name)[0]}" for name in self.closure(module)]
            self._closures[module] = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
        return self._closures[module]


def _describe(module: str, data: bytes, path: Path) -> str:
    try:
        tree = ast.parse(data, filename=str(path))
    except SyntaxError as error:
        raise AssayError(
            f"{path}, line {error.lineno}: {error.msg}; the code of a stage cannot be read"
        ) from None
    digest = hashlib.sha256(serialise(tree).encode()).hexdigest()[:16]
    names = sorted(set(import_names(module, tree, path.name == "__init__.py")))
    return " ".join([digest, *names])
