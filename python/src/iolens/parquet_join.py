"""Joins Parquet files by copying their column chunks unchanged, and adds a column with one constant value for each of them.

Decoding and encoding all values costs many times as much. Only a file's footer is parsed: `FileMetaData` of parquet.thrift in
Thrift's compact protocol. The field numbers below are from there.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

_MAGIC = b"PAR1"

# Types of the compact protocol.
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)

# FileMetaData, RowGroup, ColumnChunk, ColumnMetaData, SchemaElement.
_SCHEMA, _NUM_ROWS, _ROW_GROUPS, _KEY_VALUES, _CREATED_BY, _COLUMN_ORDERS = 2, 3, 4, 5, 6, 7
_COLUMNS, _BYTES, _GROUP_ROWS, _GROUP_OFFSET, _COMPRESSED, _ORDINAL = 1, 2, 3, 5, 6, 7
_CHUNK_OFFSET, _META, _INDEXES = 2, 3, (4, 5, 6, 7)
_CHUNK_BYTES, _CHUNK_COMPRESSED, _DATA, _INDEX, _DICTIONARY, _STATISTICS, _BLOOM = 6, 7, 9, 10, 11, 12, (14, 15)
_CHILDREN = 5

# Structures on the path to a column's numbers, by the enclosing structure and the number of the field in it.
_OTHER, _WHOLE, _FILE, _GROUP, _COLUMN, _CHUNK = range(6)
_INSIDE = {(_FILE, _ROW_GROUPS): _GROUP, (_GROUP, _COLUMNS): _COLUMN, (_COLUMN, _META): _CHUNK}
_INSIDE |= {(_FILE, _SCHEMA): _WHOLE, (_FILE, _COLUMN_ORDERS): _WHOLE}
_MOVED = frozenset((_CHUNK_BYTES, _CHUNK_COMPRESSED, _DATA, _INDEX, _DICTIONARY))

# A structure: the type and value of each field. A list: the type of its elements, and the elements.
Fields = dict[int, tuple[int, Any]]


class _Raw(bytes):
    """A value that is copied in its encoded form."""

    def with_other(self, old: bytes, new: bytes) -> _Raw:
        """The same with other bytes."""
        return _Raw(self.replace(old, new))


class NotJoinableError(Exception):
    """These files cannot be joined this way, although they are valid."""


@dataclass(frozen=True)
class Part:
    """A file or its content, and the value that the added column has in its rows; `None`: it already has that column."""

    source: Path | bytes
    value: int | None

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    def read(self) -> bytes:
        """What the file holds."""
        return self.source if isinstance(self.source, bytes) else self.source.read_bytes()


def join(parts: Iterable[Part], column: str, to: Path, types: Mapping[str, pa.DataType] | None = None) -> int:
    """Writes the rows of `parts` into one file, with `column` before the other columns. Returns their number.

    Raises `NotJoinableError` if the files have different columns or writers, have columns other than those of `types`, or
    cannot be parsed.
    """
    try:
        return _join(parts, column, to, types)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, pa.ArrowException) as e:
        raise NotJoinableError(f"a footer is not understood: {e!r}") from e


def _join(parts: Iterable[Part], column: str, to: Path, types: Mapping[str, pa.DataType] | None) -> int:
    rows = 0
    groups: list[Fields] = []
    first: Fields | None = None
    with to.open("wb") as out:
        out.write(_MAGIC)
        for part in parts:
            data = part.read()
            footer = _footer(data)
            if footer[_NUM_ROWS][1] == 0:
                continue
            added: list[tuple[Fields, bytes]] = []
            if part.value is not None:
                counts = [group[_GROUP_ROWS][1] for group in footer[_ROW_GROUPS][1][1]]
                footer, added = _with_column(footer, column, part.value, counts)
            if first is None:
                if types is not None and _types(footer, column) != types:
                    raise NotJoinableError("it has other columns than the table")
                first = footer
            elif any(footer.get(of) != first.get(of) for of in (_SCHEMA, _CREATED_BY, _COLUMN_ORDERS)):
                raise NotJoinableError("a part has other columns or another writer")
            for number, group in enumerate(footer[_ROW_GROUPS][1][1]):
                groups.append(_copied(out, data, group, added[number] if added else None, len(groups)))
            rows += footer[_NUM_ROWS][1]
        if first is None:
            return 0
        kept = {of: first[of] for of in sorted(first) if of in (1, _SCHEMA, _CREATED_BY, _COLUMN_ORDERS)}
        kept |= {_NUM_ROWS: (_I64, rows), _ROW_GROUPS: (_LIST, (_STRUCT, groups))}
        end = _end(dict(sorted(kept.items())))
        out.write(end)
    # A parsing mistake is detected here, not when the file is read.
    try:
        found = pq.read_metadata(pa.BufferReader(_MAGIC + end))
    except OSError as e:
        raise NotJoinableError(f"a footer is not understood: {e}") from e
    if (found.num_rows, found.num_row_groups) != (rows, len(groups)):
        raise NotJoinableError(f"{to} would not have the rows that it is made of")
    return rows


def _end(footer: Fields) -> bytes:
    """The footer of a file."""
    encoded = _encode(footer)
    return encoded + struct.pack("<I", len(encoded)) + _MAGIC


def _types(footer: Fields, but: str) -> dict[str, pa.DataType]:
    """The columns of a file except one, with their types in Arrow."""
    kind, (of, pairs) = footer.get(_KEY_VALUES, (_LIST, (_STRUCT, [])))
    known = (kind, (of, [pair for pair in pairs if pair[1] == (_BINARY, b"ARROW:schema")]))
    empty = {
        1: footer[1],
        _SCHEMA: footer[_SCHEMA],
        _NUM_ROWS: (_I64, 0),
        _ROW_GROUPS: (_LIST, (_STRUCT, [])),
        _KEY_VALUES: known,
    }
    return {name: of for name, of in _types_of(_MAGIC + _end(empty)).items() if name != but}


@lru_cache(maxsize=64)
def _types_of(file: bytes) -> dict[str, pa.DataType]:
    """The columns of a file without rows."""
    schema = pq.read_schema(pa.BufferReader(file))
    return {field.name: field.type for field in schema}


def _footer(data: bytes) -> Fields:
    if len(data) < 12 or data[:4] != _MAGIC or data[-4:] != _MAGIC:
        raise NotJoinableError("no Parquet file with a plain footer")
    (length,) = struct.unpack("<I", data[-8:-4])
    if length > len(data) - 12:
        raise NotJoinableError("its footer is longer than the file")
    try:
        return _decoded(data[-8 - length : -8])
    except IndexError as e:
        raise NotJoinableError("its footer ends early") from e


@lru_cache(maxsize=8)
def _decoded(footer: bytes) -> Fields:
    """A parsed footer, not modified afterwards, so it can be cached: small files of a host often have the same one."""
    return _Decoder(footer).fields(_FILE)


def _with_column(footer: Fields, column: str, value: int, counts: list[int]) -> tuple[Fields, list[tuple[Fields, bytes]]]:
    """The footer with an additional column, and the chunk of that column for each row group."""
    chunks = []
    placeholder, wanted = struct.pack("<q", _PLACEHOLDER), struct.pack("<q", value)
    for count in counts:
        schema, chunk, data = _constant_column(column, count)
        meta: Fields = chunk[_META][1]
        kind, statistics = meta[_STATISTICS]
        changed_meta = {**meta, _STATISTICS: (kind, statistics.with_other(placeholder, wanted))}
        chunks.append(({**chunk, _META: (_STRUCT, changed_meta)}, data.replace(placeholder, wanted)))
    kind, (of, elements) = footer[_SCHEMA]
    root = _Decoder(elements[0]).fields()
    root[_CHILDREN] = (_I32, root[_CHILDREN][1] + 1)
    changed: Fields = {**footer, _SCHEMA: (kind, (of, [_Raw(_encode(root)), *schema, *elements[1:]]))}
    if _COLUMN_ORDERS in footer:
        kind, (of, orders) = footer[_COLUMN_ORDERS]
        changed[_COLUMN_ORDERS] = (kind, (of, [orders[0], *orders]))
    return changed, chunks


# Placeholder for the value of an added column, in its dictionary and statistics, which are encoded once for all values.
_PLACEHOLDER = 0x5AD1_C0DE_7E57_AB1E


@lru_cache(maxsize=64)
def _constant_column(column: str, count: int) -> tuple[list[_Raw], Fields, bytes]:
    """A column of equal values: its part of the schema, its chunk and the uncompressed file that contains it."""
    made = io.BytesIO()
    table = pa.table({column: pa.array([_PLACEHOLDER], pa.int64()).take(pa.nulls(count, pa.int64()).fill_null(0))})
    pq.write_table(table, made, compression="none", row_group_size=max(count, 1))
    data = made.getvalue()
    own = _footer(data)
    [group] = own[_ROW_GROUPS][1][1]
    [chunk] = group[_COLUMNS][1][1]
    return own[_SCHEMA][1][1][1:], chunk, data


def _copied(out: BinaryIO, data: bytes, group: Fields, added: tuple[Fields, bytes] | None, number: int) -> Fields:
    """Copies the chunks of a row group. Returns their entry in the new footer."""
    begin = out.tell()
    chunks = []
    sources = [(chunk, data) for chunk in group[_COLUMNS][1][1]]
    for chunk, source in [added, *sources] if added else sources:
        if 1 in chunk or _META not in chunk:
            raise NotJoinableError("its columns are in other files")
        meta: Fields = chunk[_META][1]
        offsets = [meta[of][1] for of in (_DATA, _INDEX, _DICTIONARY) if of in meta and meta[of][1] > 0]
        start, length = min(offsets), meta[_CHUNK_COMPRESSED][1]
        if not 4 <= start <= start + length <= len(source):
            raise NotJoinableError("a column is not inside its file")
        shift = out.tell() - start
        out.write(memoryview(source)[start : start + length])
        moved = {of: field for of, field in meta.items() if of not in _BLOOM}
        for of in (_DATA, _INDEX, _DICTIONARY):
            if of in moved and moved[of][1] > 0:
                moved[of] = (moved[of][0], moved[of][1] + shift)
        kept = {of: field for of, field in chunk.items() if of not in _INDEXES}
        chunks.append({**kept, _CHUNK_OFFSET: (_I64, start + shift), _META: (_STRUCT, moved)})
    sizes = {of: sum(c[_META][1][of][1] for c in chunks) for of in (_CHUNK_BYTES, _CHUNK_COMPRESSED)}
    joined: Fields = {
        _COLUMNS: (_LIST, (_STRUCT, chunks)),
        _BYTES: (_I64, sizes[_CHUNK_BYTES]),
        _GROUP_ROWS: group[_GROUP_ROWS],
        _GROUP_OFFSET: (_I64, begin),
        _COMPRESSED: (_I64, sizes[_CHUNK_COMPRESSED]),
    }
    # A 16-bit number, which is optional.
    return joined | ({_ORDINAL: (_I16, number)} if number < 1 << 15 else {})


class _Decoder:
    """Reads the compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def fields(self, structure: int = _OTHER) -> Fields:
        """A structure. Only the numbers of a column that change are decoded, because there are many columns."""
        found: Fields = {}
        data = self.data
        last = 0
        while True:
            head = data[self.at]
            self.at += 1
            kind = head & 15
            if kind == _STOP:
                return found
            last = last + (head >> 4) if head >> 4 else self.integer()
            if structure == _CHUNK and last not in _MOVED and kind not in (_TRUE, _FALSE):
                begin = self.at
                self.at = _behind(data, begin, kind)
                found[last] = (kind, _Raw(data[begin : self.at]))
            else:
                found[last] = (kind, self.value(kind, _INSIDE.get((structure, last), _OTHER)))

    def value(self, kind: int, structure: int = _OTHER) -> Any:
        """A value of a type. A boolean's value is in its type."""
        if kind in (_I16, _I32, _I64):
            return self.integer()
        if kind == _BINARY:
            length = self.varint()
            self.at += length
            if self.at > len(self.data):
                raise IndexError
            return self.data[self.at - length : self.at]
        if kind == _STRUCT and structure == _WHOLE:
            begin = self.at
            self.at = _behind(self.data, begin, kind)
            return _Raw(self.data[begin : self.at])
        if kind == _STRUCT:
            return self.fields(structure)
        if kind in (_LIST, _SET):
            of, size = self.head()
            if of in (_TRUE, _FALSE):
                # Each is a byte.
                self.at += size
                return of, list(self.data[self.at - size : self.at])
            return of, [self.value(of, structure) for _ in range(size)]
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            self.at += 1
            return self.data[self.at - 1]
        if kind == _DOUBLE:
            self.at += 8
            return self.data[self.at - 8 : self.at]
        raise NotJoinableError(f"its footer has a value of type {kind}")

    def head(self) -> tuple[int, int]:
        """The header of a list: the type of its elements, and their number."""
        head = self.data[self.at]
        self.at += 1
        return head & 15, head >> 4 if head >> 4 < 15 else self.varint()

    def varint(self) -> int:
        """An unsigned number."""
        value, self.at = _varint(self.data, self.at)
        return value

    def integer(self) -> int:
        """A signed number."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)


def _behind(data: bytes, at: int, kind: int) -> int:
    """The position after a value.

    This is most of the work on a footer, so numbers and texts of a structure are handled inline, without calls.
    """
    if kind == _STRUCT:
        while (head := data[at]) & 15 != _STOP:
            at += 1
            if head < 16:
                # The field's number is absolute, not a difference.
                at = _behind(data, at, _I64)
            kind = head & 15
            if kind in (_I16, _I32, _I64):
                while data[at] > 127:
                    at += 1
                at += 1
            elif kind == _BINARY and data[at] < 128:
                at += 1 + data[at]
            elif kind not in (_TRUE, _FALSE):
                at = _behind(data, at, kind)
        return at + 1
    if kind in (_I16, _I32, _I64):
        while data[at] > 127:
            at += 1
        return at + 1
    if kind == _BINARY:
        length, at = _varint(data, at)
        return at + length
    if kind in (_LIST, _SET):
        of, size = data[at] & 15, data[at] >> 4
        at += 1
        if size == 15:
            size, at = _varint(data, at)
        if of in (_TRUE, _FALSE):
            # Each is a byte.
            return at + size
        for _ in range(size):
            at = _behind(data, at, of)
        return at
    if kind == _BYTE:
        return at + 1
    if kind == _DOUBLE:
        return at + 8
    raise NotJoinableError(f"its footer has a value of type {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number, and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _encode(fields: Fields) -> bytes:
    out = bytearray()
    _put_fields(out, fields)
    return bytes(out)


def _put_fields(out: bytearray, fields: Fields) -> None:
    last = 0
    for of, (kind, value) in sorted(fields.items()):
        if kind in (_TRUE, _FALSE):
            kind = _TRUE if value else _FALSE
        delta = of - last
        if 0 < delta < 16:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            _put_varint(out, of << 1)
        last = of
        if kind not in (_TRUE, _FALSE):
            _put(out, kind, value)
    out.append(_STOP)


def _put(out: bytearray, kind: int, value: Any) -> None:
    if isinstance(value, _Raw):
        out += value
    elif kind in (_I16, _I32, _I64):
        _put_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)
    elif kind == _BINARY:
        _put_varint(out, len(value))
        out += value
    elif kind == _STRUCT:
        _put_fields(out, value)
    elif kind in (_LIST, _SET):
        of, elements = value
        if len(elements) < 15:
            out.append(len(elements) << 4 | of)
        else:
            out.append(15 << 4 | of)
            _put_varint(out, len(elements))
        for element in elements:
            _put(out, of, element)
    elif kind == _DOUBLE:
        out += value
    else:
        out.append(value)


def _put_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
