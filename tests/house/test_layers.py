"""Packages stand in layers: none imports a higher one, and no two import each other.

Where the source does not keep to this yet, the place is in a list of exceptions. Each exception must still be needed,
so the lists can only become shorter.
"""

from collections import Counter

import house

LAYERS = (  # from the lowest to the highest; those on one line may import each other in one direction
    ("errors", "interrupts", "lazy"),
    ("extras",),
    ("exact",),
    ("balls", "definitions", "privacy", "sql"),
    ("files",),
    ("scheme",),
    ("estimators",),  # they know schemes alone; a private total, in accounting, is answered with an `Estimate`
    ("accounting",),
    ("ledger",),
    ("release", "comparison"),
    ("presentation",),
    ("answers",),
    ("planning",),
    ("private",),
    ("cli", "spark", "testing"),
    ("__init__", "__main__"),
)
HEIGHT = {package: height for height, packages in enumerate(LAYERS) for package in packages}

LATE = {  # a module, and how often it imports another package inside a function, at most; 20 in all would be right
    "__main__": 1,  # signals are watched before modules are imported
    "private.sources.key_types": 1,
}


def test_every_package_has_a_layer() -> None:
    assert {house.package_of(module) for module in house.sources()} <= HEIGHT.keys()


def test_no_package_imports_a_higher_one() -> None:
    upward = {
        (one.package, one.imported): one.module for one in house.imports() if HEIGHT[one.package] < HEIGHT[one.imported]
    }
    assert upward == {}


def test_no_two_packages_import_each_other() -> None:
    """Both directions would be needed to understand either; one of the two is upward, or both are of one layer."""
    pairs = {(one.package, one.imported) for one in house.imports()}
    mutual = {(low, high) for low, high in pairs if (high, low) in pairs and HEIGHT[low] <= HEIGHT[high]}
    assert mutual == set()


def test_packages_are_imported_at_the_top_of_a_module() -> None:
    """Inside functions, an import hides what a module needs."""
    late = Counter(one.module for one in house.imports() if one.in_function)
    assert {module: times for module, times in late.items() if times > LATE.get(module, 0)} == {}
    assert LATE.keys() <= late.keys(), "remove from LATE what has no such import any more"
