"""The fixed input of the benchmarks: a Singer stream of flat events, 20 columns, about 616 bytes a record.

The same count and seed give the same bytes on every machine; the hash of the file names it in a result.

    python3 benches/events.py OUT.jsonl [--rows 500000] [--bare]

`--bare` leaves the Singer envelope away (one JSON object a line), for peers that read plain JSON.
"""

import argparse
import hashlib
import json
import random

SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "ts": {"type": "string", "format": "date-time"},
        "user_id": {"type": ["null", "integer"]},
        "session": {"type": "string"},
        "event": {"type": "string"},
        "url": {"type": "string"},
        "title": {"type": "string"},
        "referrer": {"type": ["null", "string"]},
        "country": {"type": "string"},
        "device": {"type": "string"},
        "os": {"type": "string"},
        "browser": {"type": "string"},
        "duration_ms": {"type": "integer"},
        "scroll": {"type": "number"},
        "revenue": {"type": ["null", "number"]},
        "currency": {"type": ["null", "string"]},
        "is_bot": {"type": "boolean"},
        "day": {"type": "string", "format": "date"},
        "score": {"type": "number"},
        "note": {"type": ["null", "string"]},
    },
}

WORDS = "lake river delta stone cloud paper green silver quiet early north water light small round table house garden".split()


def records(rows, seed=20261201):
    rng = random.Random(seed)
    start = 1_700_000_000
    for i in range(rows):
        second = start + i * 3
        minute, s = divmod(second % 86_400, 60)
        h, m = divmod(minute, 60)
        days = second // 86_400 - 19_675  # days since 2023-11-14
        month_day = 14 + days
        day = f"2023-11-{month_day:02d}" if month_day <= 30 else f"2023-12-{month_day - 30:02d}"
        bought = rng.random() < 0.1
        yield {
            "id": i,
            "ts": f"{day}T{h:02d}:{m:02d}:{s:02d}.{rng.randrange(1_000_000):06d}Z",
            "user_id": rng.randrange(2_000_000) if rng.random() < 0.9 else None,
            "session": f"{rng.getrandbits(128):032x}",
            "event": rng.choice(["view", "click", "scroll", "buy", "leave"]),
            "url": "https://shop.example.com/" + "/".join(rng.choices(WORDS, k=4)) + f"?item={rng.randrange(100_000)}",
            "title": " ".join(rng.choices(WORDS, k=9)).capitalize(),
            "referrer": rng.choice(["https://search.example.org/", "https://mail.example.net/", None]),
            "country": rng.choice(["DE", "FR", "US", "IN", "BR", "JP", "ZA", "NO"]),
            "device": rng.choice(["phone", "tablet", "desktop"]),
            "os": rng.choice(["Android", "iOS", "Linux", "macOS", "Windows"]),
            "browser": rng.choice(["Firefox", "Chrome", "Safari", "Edge"]),
            "duration_ms": rng.randrange(600_000),
            "scroll": round(rng.random(), 2),
            "revenue": round(rng.random() * 300, 2) if bought else None,
            "currency": rng.choice(["EUR", "USD"]) if bought else None,
            "is_bot": rng.random() < 0.03,
            "day": day,
            "score": rng.random(),
            "note": rng.choice(["first visit", "returning", None, None, None]),
        }


def write(path, rows, bare):
    digest = hashlib.sha256()
    with open(path, "wb") as out:
        def line(message):
            data = (json.dumps(message, separators=(",", ":")) + "\n").encode()
            digest.update(data)
            out.write(data)

        if not bare:
            line({"type": "SCHEMA", "stream": "events", "schema": SCHEMA, "key_properties": ["id"]})
        for i, record in enumerate(records(rows)):
            line(record if bare else {"type": "RECORD", "stream": "events", "record": record})
            if not bare and (i + 1) % 50_000 == 0:
                line({"type": "STATE", "value": {"bookmarks": {"events": {"id": i}}}})
    return digest.hexdigest()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--bare", action="store_true")
    arguments = parser.parse_args()
    print(write(arguments.out, arguments.rows, arguments.bare), arguments.out)
