"""SQL text: how names are written in it."""


def quoted_name(name: str) -> str:
    """Return the name of a column or table as SQL writes it.

    >>> print(quoted_name('the "key"'))
    "the ""key""\"
    """
    return '"' + name.replace('"', '""') + '"'
