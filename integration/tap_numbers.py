"""A small tap on the Meltano SDK that resumes from its state: rows 1 to `last`, one STATE per hundred.

`bad`: that row's `value` is a text which is no number, as a source in trouble would send.
"""
from singer_sdk import Stream, Tap
from singer_sdk import typing as th


class Numbers(Stream):
    name = "numbers"
    primary_keys = ["id"]
    replication_key = "id"
    is_sorted = True
    check_sorted = True
    STATE_MSG_FREQUENCY = 100
    schema = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("value", th.NumberType),
        th.Property("at", th.DateTimeType),
    ).to_dict()

    def get_records(self, context):
        for i in range((self.get_starting_replication_key_value(context) or 0) + 1, self.config["last"] + 1):
            bad = i == self.config.get("bad")
            yield {"id": i, "value": "12,5" if bad else i / 8, "at": f"2026-01-{i % 28 + 1:02d}T00:00:00Z"}


class TapNumbers(Tap):
    name = "tap-numbers"
    config_jsonschema = th.PropertiesList(
        th.Property("last", th.IntegerType, required=True),
        th.Property("bad", th.IntegerType),
    ).to_dict()

    def discover_streams(self):
        return [Numbers(self)]


if __name__ == "__main__":
    TapNumbers.cli()
