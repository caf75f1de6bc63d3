"""The modules of website/, which is no package: MkDocs loads them by their paths, and so do tests."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent


def load(name: str) -> ModuleType:
    """A module of website/, loaded anew."""
    spec = spec_from_file_location(f"website_{name}", ROOT / "website" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
