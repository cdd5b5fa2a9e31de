#!/usr/bin/env python3
"""Shows the Delta tables below a folder as an independent engine sees them: deltalake (delta-rs and DataFusion).

  python read_back.py LAKE

Prints, per table, its version, rows, schema and first rows. Exit 1 where there is no table.
"""
import os
import sys

from deltalake import DeltaTable, QueryBuilder

FIRST = 3


def shown(value):
    text = "null" if value is None else str(value)
    return text if len(text) <= 40 else text[:39] + "…"


def show(path):
    table = DeltaTable(path)
    query = QueryBuilder().register("t", table)
    (rows,) = query.execute("SELECT count(*) AS rows FROM t").read_all().to_struct_array().to_pylist()
    print(f"\n{os.path.basename(path)}: {rows['rows']:,} rows, version {table.version()}")
    names = [field.name for field in table.schema().fields]
    print("  " + ", ".join(f"{field.name} {field.type.type}" if hasattr(field.type, "type") and isinstance(field.type.type, str) else f"{field.name} {field.type}"
                           for field in table.schema().fields))
    for row in query.execute(f"SELECT * FROM t LIMIT {FIRST}").read_all().to_struct_array().to_pylist():
        print("  " + " | ".join(shown(row[name]) for name in names))


def main(lake):
    tables = [os.path.join(lake, name) for name in sorted(os.listdir(lake)) if os.path.isdir(os.path.join(lake, name, "_delta_log"))]
    if not tables:
        sys.exit(f"no Delta table in {lake}")
    for path in tables:
        show(path)


if __name__ == "__main__":
    main(sys.argv[1])
