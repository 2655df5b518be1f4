"""What the names in a launch can mean: sizes, matrices, leading dimensions, factors.

The names are common ones in public kernels. Each name has a list of possible meanings, the
likeliest first, so that a check can try the next one if the product is wrong.
"""

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

_MOST_NAMES = 4  # for up to so many names, all orders are tried
# The edges of C = A·B, where A is M×K and B is K×N.
SIZES = ("M", "N", "K")
MATRICES = ("A", "B", "C")
# Pairs of sizes that one number can be, and the third size.
EQUAL = {"MN": "K", "NK": "M"}
# Further pointers: the C of D = α·A·B + β·C, whose D is called C then, and memory for steps.
ADDEND, WORKSPACE = "ADDEND", "WORKSPACE"
FACTORS = ("ALPHA", "BETA")  # of A·B and of C
BATCH, FACTOR = "BATCH", "FACTOR"  # a number of products, and a factor of a size
ELEMENT = "float"  # element type if a template leaves it open
ELEMENT_TYPES = {ELEMENT, "double", "half", "__half", "nv_bfloat16", "__nv_bfloat16", "int"}
_MANY = r"(?:(?:n|num|no)_?(?:of_?)?)?"  # before the rows of a matrix, or its letter
_SIZE_NAMES = {
    "M": rf"m|{_MANY}(?:[ac]_?)?{_MANY}rows?(?:_?[ac])?|h(?:eight)?_?[ac]|[ac]_?h(?:eight)?|height|"
    r"m_?(?:size|dim|global|rows?)|(?:size|dim)_?m",
    "N": rf"n|{_MANY}(?:[bc]_?)?{_MANY}col(?:s|umns?)?(?:_?[bc])?|w(?:idth)?_?[bc]|"
    r"[bc]_?w(?:idth)?|n_?(?:size|dim|global|col(?:umn)?s?)|(?:size|dim)_?n|out(?:_?features)?",
    "K": rf"k|{_MANY}a_?{_MANY}col(?:s|umns?)?|{_MANY}b_?{_MANY}rows?|"
    rf"(?:{_MANY}col(?:s|umns?)?|w(?:idth)?)_?a|(?:{_MANY}rows?|h(?:eight)?)_?b|a_?w(?:idth)?|"
    r"b_?h(?:eight)?|inner|common|depth|shared_?dim|k_?(?:shared_?)?(?:size|dim|global)|(?:size|dim)_?k|"
    r"in(?:_?features)?",
}
_SQUARE = r"n|size|width|dim(?:ension)?|order|len(?:gth)?|mat(?:rix)?_?(?:size|dim|width)|edge|w|s"
LEADING = {
    f"LD{matrix}": rf"ld_?{matrix.lower()}|{matrix.lower()}_?ld|stride_?{matrix.lower()}"
    for matrix in "ABC"
}
# Names that mean a number of products (a batch) or of rows.
_COUNT = r"(?:n|num|no)?_?batch(?!\w*stride)\w*|b|bsz?"
_OTHERS = {"ALPHA": r"\w*alpha\w*", "BETA": r"\w*beta\w*", "STREAM": "stream"}
_DECORATION = re.compile(
    r"^(?:d|dev|device|g|gpu|h|in|mat(?:rix)?|p|ptr)_+|^d(?=[A-Z]$)|"
    r"_+(?:d|dev|device|gpu|mat(?:rix)?|ptr)$|(?<=^[A-D])(?:GPU|Gpu|Dev|Device)$|_*$|"
    r"^(?:gpu|dev|mat)_?(?=[A-D](?:_|$))|(?<=[A-Da-d])_*(?:[Ff][Pp]|[Bb][Ff]|f)\d+$|"
    r"(?<=[A-Da-d])(?:_+half|_+float|_+double|Half|Float|Double)$"
)


def plain(name: str) -> str:
    """Return a name in lower case without prefix or suffix: ``d_A`` and ``A_dev`` become ``a``."""
    before = None
    while before != name:
        before, name = name, _DECORATION.sub("", name)
    return name.lower()


def letter(name: str) -> str:
    """Return the letter of the matrix that a pointer's name suggests: C for ``d_C``."""
    return plain(name)[-1:].upper()


def meanings(
    names: Sequence[str],
    given: Mapping[str, str] | None = None,
    pointers: Mapping[str, str] | None = None,
) -> Iterator[dict[str, str]]:
    """Yield the possible meanings of numbers with these names, the likeliest first.

    `given` are numbers that need not be sizes: a `BATCH`, or a `FACTOR`. `pointers` are matrices
    by name, after whose letters numbers may be named.
    """
    fixed = {name: value for name in names if (value := meaning_of(name))}
    sizes = [name for name in names if name not in fixed]
    counts = {name: BATCH for name in sizes if is_count(name)} | dict(given or {})
    others = [name for name in sizes if name not in counts]
    choices = [(sizes, fixed), (others, fixed | counts)][: 1 + bool(counts)]
    is_batch = BATCH in (given or {}).values() or len(sizes) > len(SIZES)
    for free, meant in choices[:: -1 if is_batch else 1]:
        for sizes_of in _size_choices({name: size_of(name, pointers or {}) for name in free}):
            choice = {name: (meant | sizes_of)[name] for name in names}
            yield _with_strides(choice) if BATCH in choice.values() else choice


def _with_strides(choice: Mapping[str, str]) -> dict[str, str]:
    """Return meanings in which strides are the distances between the matrices of a batch."""
    of_batch = {name: re.fullmatch(r"(?:batch_*)?stride_*([abc])", plain(name)) for name in choice}
    strides = {name: f"STRIDE{match[1].upper()}" for name, match in of_batch.items() if match}
    return {**choice, **strides}


def meaning_of(name: str) -> str | None:
    """Return the meaning of a leading dimension, a factor or a stream; None for other names."""
    for patterns in (_OTHERS, LEADING):
        for value, pattern in patterns.items():
            if re.fullmatch(pattern, plain(name)):
                return value
    return None


def size_of(name: str, pointers: Mapping[str, str]) -> str | None:
    """Return the size that a name suggests: K for ``col_X`` if X is the matrix A, else None."""
    for pointer, role in pointers.items():
        mark = letter(pointer)
        renamed = re.sub(rf"(?<=[a-z]){mark}$|(?<=_){mark}\b|\b{mark}(?=_)", role, name)
        if _size(name) is None and mark not in MATRICES and _size(renamed):
            return _size(renamed)
    return _size(name)


def _size_choices(size_of: Mapping[str, str | None]) -> Iterator[dict[str, str]]:
    """Yield which sizes the numbers may be: first by their names, different or the same."""
    names, by_name = list(size_of), list(size_of.values())
    if {plain(name) for name in names} == {"m", "n", "p"}:  # A is m×n and B is n×p, in any order
        yield dict(zip(names, "MKN", strict=True))
    likeliest = {1: "N", 2: "KNM"}.get(len(names), SIZES)
    is_short = len(names) <= _MOST_NAMES
    possible = [likeliest if is_short or not size else [size] for size in by_name]
    choices = itertools.product(*possible) if by_name.count(None) <= _MOST_NAMES else ()
    different = [sizes for sizes in choices if len({*sizes}) == min(len(names), len(SIZES))]
    pairs = [(place, size) for place, size in enumerate(by_name) if size]
    for sizes in sorted(different, key=lambda sizes: any(sizes[n] != size for n, size in pairs)):
        yield dict(zip(names, sizes, strict=True))
    if len(names) == 2 and None in by_name:
        for both, other in EQUAL.items():
            yield from ({a: both, b: other} for a, b in itertools.permutations(names))
    if {*by_name} == {"N"} or len(names) == 1:
        yield dict.fromkeys(names, "N")


def size_named(name: str) -> str | None:
    """Return which of M, N and K a number of this name is; None if it is no size."""
    return None if meaning_of(name) else _size(name)


def is_number_name(name: str) -> bool:
    """Return whether the name of a number suggests a size, a leading dimension or a factor."""
    return bool(meaning_of(name) or _size(name))


def _size(name: str) -> str | None:
    for size, pattern in _SIZE_NAMES.items():
        if re.fullmatch(pattern, plain(name)):
            return size
    return "N" if re.fullmatch(_SQUARE, plain(name)) else None


def is_count(name: str) -> bool:
    """Return whether the name of a number suggests the number of products in a batch."""
    return re.fullmatch(_COUNT, plain(name)) is not None


def is_bias(name: str) -> bool:
    """Return whether the name of a vector suggests that it is added to the product."""
    return "bias" in name.lower()


def matrices(
    pointers: Mapping[str, str], allocated: Collection[str] = ()
) -> Iterator[dict[str, str]]:
    """Yield which of some pointers are A, B and C, by name and type, the likeliest first.

    One of four pointers is the `ADDEND`. Those that are `allocated` may be a `WORKSPACE`.
    """
    names = list(pointers)
    letters = {letter(name): name for name in names}
    others = [name for name in names if name not in allocated]
    has_d = sorted(letters) == ["A", "B", "C", "D"]
    if len(names) > len(MATRICES) and allocated and not has_d:
        if set(MATRICES) <= set(letters):
            others = [letters[matrix] for matrix in MATRICES]
        work = dict.fromkeys(set(names) - set(others), WORKSPACE)
        for roles in matrices({name: pointers[name] for name in others}):
            yield roles | work
        return
    if sorted(letters) == list(MATRICES) and len(names) == len(MATRICES):
        yield {name: matrix for matrix, name in letters.items()}
        return
    written = [name for name, kind in pointers.items() if not re.search(r"\bconst\b", kind)]
    outputs = written if len(written) == 1 else [*names[-1:], *names[:1]]
    order = (*MATRICES[:2], ADDEND)
    if has_d:
        outputs, names = [letters["D"]], [letters[each] for each in "ABCD"]
    for output in outputs:
        inputs = [name for name in names if name != output]
        roles = dict(zip(inputs, order, strict=False)) | {output: "C"}
        if len(roles) == len(pointers) and len(inputs) in (2, 3):
            yield {name: roles[name] for name in pointers}
