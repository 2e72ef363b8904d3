#!/usr/bin/env python3
"""Looks for a secret below files and folders: find_secret.py --env NAME PATH...

The secret is the value of a variable, so that it stands in no argv. It is looked for as it is, in base64 and in hex, in
files, in compressed ones, and in every column of a database. Exits 1 and names the places where a piece of it was found, 2
where there was nothing to look into.
"""

import argparse
import base64
import gzip
import os
import pathlib
import sqlite3
import sys
import zlib


def forms_of(secret):
    """The secret as it may have been written down, without what its neighbours would change."""
    forms = [secret, secret.hex().encode(), secret[::-1], secret[len(secret) // 2 :]]
    for shift in range(3):
        coded = base64.b64encode(b"\0" * shift + secret).decode().rstrip("=")
        forms.append(coded[4 if shift else 0 : -2].encode())
    return forms


def readings_of(data):
    """The data, and what it is without compression."""
    yield data
    for unpack in (gzip.decompress, zlib.decompress, lambda packed: zlib.decompress(packed, -15)):
        try:
            yield unpack(data)
        except (OSError, EOFError, zlib.error):
            continue


def values_of(path):
    """Every value of a database, with its place."""
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    database.text_factory = bytes
    for (table,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
        table = table.decode()
        rows = database.execute(f'select * from "{table}"')
        columns = [column[0] for column in rows.description]
        for row in rows:
            for column, value in zip(columns, row):
                yield f"{path}: {table}.{column}", value if isinstance(value, bytes) else str(value).encode()


def places_of(path):
    """Every place below a path, with what is there."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    for file in files:
        data = file.read_bytes()
        yield str(file), data
        if data.startswith(b"SQLite format 3\0"):
            yield from values_of(file)


def main():
    parser = argparse.ArgumentParser(description="Looks for a secret.")
    parser.add_argument("--env", required=True, help="the variable that holds it")
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    forms = forms_of(os.environ[options.env].encode())
    looked, found = 0, []
    for path in options.paths:
        for place, data in places_of(path):
            looked += 1
            if any(form in reading for reading in readings_of(data) for form in forms):
                found.append(place)
    for place in found:
        print(f"the secret is in {place}", file=sys.stderr)
    if not looked:
        print("there was nothing to look into", file=sys.stderr)
        return 2
    if not found:
        print(f"looked into {looked} places: the secret is in none")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
