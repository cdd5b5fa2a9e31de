"""Five independent engines that read a Delta table, and the comparison of what they see.

`rows(engine, table)` gives the rows in one normalised form, sorted:

  decimal      exact text, as many digits after the point as the scale says
  timestamp    '2026-01-02T03:04:05.123456Z'; without the Z for timestamp_ntz
  date         '2026-01-02'
  float        repr() of the number, 'nan', 'inf', '-inf'
  binary       'hex:00ff'
  struct, map  dict; list: list; null: None

`compare(table)` asserts that all engines give the same rows and types, and that filters on every column with
statistics in the log find what the rows say they must find (wrong statistics make an engine skip a file).

What ClickHouse (chDB) lacks is written here rather than in each test: it has no null struct, array or map
(`as_seen`), and its date types begin at 1900 (`fits`). Its bare count() ignores deletion vectors, so no check
rests on one.
"""
import collections
import contextlib
import datetime
import decimal
import glob
import json
import os
import sys
import tempfile
import time

import pyarrow as pa
import pyarrow.compute as pc

import delta_log

UTC = datetime.timezone.utc
ALL = ("spark", "duckdb", "polars", "deltalake", "chdb")
# the tests of `Column` that need every bound once; Spark takes a quarter of a second for each
FILTERS_OF_SPARK = ("= min", "= max", "is null", "is not null")


# ---------------------------------------------------------------- Spark

_spark = None

QUIET = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""


def spark():
    """The one Spark session of this process, with Delta; started by the first call."""
    global _spark
    if _spark is not None:
        return _spark
    jars = sorted(glob.glob(os.path.join(jar_folder(), "*.jar")))
    if not jars:
        raise RuntimeError(f"no Delta jars in {jar_folder()}: run integration/setup.sh")
    # without it collect() and toArrow() would show the zone of this machine
    os.environ["TZ"] = "UTC"
    time.tzset()
    from pyspark.sql import SparkSession

    scratch = tempfile.mkdtemp(prefix="delta-load-spark-")
    logging = os.path.join(scratch, "log4j2.properties")
    with open(logging, "w", encoding="utf-8") as f:
        f.write(QUIET)
    settings = {
        "spark.driver.extraClassPath": ":".join(jars),
        # one compiler stage starts faster, but comes with a code cache that a long test run fills
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -Dlog4j2.configurationFile={logging}",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": os.path.join(scratch, "warehouse"),
        "spark.local.dir": os.path.join(scratch, "local"),
        "spark.databricks.delta.snapshotPartitions": "2",
        # VACUUM lists with 10,000 tasks otherwise
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        # each read is to see the newest version, also of a table that was deleted and made again at the same path
        "spark.databricks.delta.stalenessLimit": "0",
    }
    builder = SparkSession.builder.master("local[2]").appName("delta-load integration")
    for name, value in settings.items():
        builder = builder.config(name, value)
    # VACUUM prints to the JVM's stdout, which the JVM inherits at its start
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        _spark = builder.getOrCreate()
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
    return _spark


def jar_folder():
    return os.environ.get("DELTA_LOAD_JARS", os.path.join(os.path.dirname(sys.prefix), "jars"))


def sql(statement):
    """Runs one statement in Spark and gives its rows."""
    return spark().sql(statement).collect()


class Spark:
    def __init__(self, table):
        self.name = f"delta.`{table}`"

    def arrow(self):
        return spark().sql(f"SELECT * FROM {self.name}").toArrow()

    def types(self):
        """Column types as DESCRIBE prints them."""
        out = {}
        for row in spark().sql(f"DESCRIBE TABLE {self.name}").collect():
            if not row.col_name or row.col_name.startswith("#"):
                break
            out[row.col_name] = row.data_type
        return out

    def counts(self, pairs):
        # a scan costs half a second when it is a query of its own; a filtered scan also is no count that Delta
        # may answer from the statistics alone
        found = []
        for start in range(0, len(pairs), 20):
            scans = [f"SELECT {i} AS i, count(*) AS n FROM (SELECT 1 FROM {self.name} WHERE {condition(self, *pair)})"
                     for i, pair in enumerate(pairs[start:start + 20])]
            found += [row.n for row in sorted(sql(" UNION ALL ".join(scans)), key=lambda row: row.i)]
        return found

    def column(self, path):
        return ".".join("`" + name.replace("`", "``") + "`" for name in path)

    def literal(self, value, kind):
        if kind == "string":
            return "'" + "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 and not c.isalnum() else c for c in value) + "'"
        if kind == "timestamp":
            return f"timestamp_micros({micros(value)}L)"
        if kind == "timestamp_ntz":
            return f"TIMESTAMP_NTZ'{value.replace(tzinfo=None).isoformat(' ')}'"
        if kind == "bigint" and value == -(2**63):
            return "(-9223372036854775807L - 1L)"
        return plain_literal(value, kind)


# ---------------------------------------------------------------- DuckDB

_duckdb = None


def duckdb():
    global _duckdb
    if _duckdb is None:
        import duckdb as module
        from duckdb_extensions import import_extension

        import_extension("delta")
        _duckdb = module.connect()
        _duckdb.execute("LOAD delta")
        _duckdb.execute("SET TimeZone = 'UTC'")
    return _duckdb


def duckdb_query(sql, fetch):
    """`fetch` of the result of `sql`. A table on which DuckDB fails fatally takes the whole database with it: the next query gets a new one."""
    global _duckdb
    import duckdb as module

    try:
        return fetch(duckdb().execute(sql))
    except module.FatalException:
        _duckdb = None
        raise


class DuckDB:
    def __init__(self, table):
        self.name = "delta_scan('" + str(table).replace("'", "''") + "')"

    def arrow(self):
        return duckdb_query(f"SELECT * FROM {self.name}", lambda result: result.to_arrow_table())

    def types(self):
        return arrow_types(duckdb_query(f"SELECT * FROM {self.name} LIMIT 0", lambda result: result.to_arrow_table()).schema)

    def counts(self, pairs):
        return [self.count(condition(self, *pair)) for pair in pairs]

    def count(self, condition):
        return duckdb_query(f"SELECT count(*) FROM {self.name} WHERE {condition}", lambda result: result.fetchone()[0])

    def column(self, path):
        return ".".join('"' + name.replace('"', '""') + '"' for name in path)

    def literal(self, value, kind):
        if kind == "string":
            # NUL cannot stand in SQL text
            return "||".join("'" + part.replace("'", "''") + "'" if part != "\0" else "chr(0)" for part in around_nul(value))
        if kind == "timestamp":
            return f"make_timestamptz({micros(value)})"
        if kind == "timestamp_ntz":
            return f"make_timestamp({micros(value)})"
        return plain_literal(value, kind)


# ---------------------------------------------------------------- Polars

class Polars:
    def __init__(self, table):
        import polars

        self.polars = polars
        self.table = str(table)

    def arrow(self):
        return self.polars.read_delta(self.table).to_arrow()

    def types(self):
        return arrow_types(self.polars.scan_delta(self.table).head(0).collect().to_arrow().schema)

    def counts(self, pairs):
        return [self.count(*pair) for pair in pairs]

    def count(self, column, test):
        pl = self.polars
        expression = pl.col(column.path[0])
        for name in column.path[1:]:
            expression = expression.struct.field(name)
        low, high = (self.literal(v, column.kind) for v in (column.low, column.high))
        condition = {
            "= min": lambda: expression == low,
            "= max": lambda: expression == high,
            "< min": lambda: expression < low,
            "> max": lambda: expression > high,
            "between": lambda: (expression >= low) & (expression <= high),
            "is null": lambda: expression.is_null(),
            "is not null": lambda: expression.is_not_null(),
        }[test]()
        return self.polars.scan_delta(self.table).filter(condition).select(pl.len()).collect().item()

    def literal(self, value, kind):
        pl = self.polars
        if kind.startswith("decimal"):
            precision, scale = decimal_digits(kind)
            return pl.lit(f"{value:f}").cast(pl.Decimal(precision, scale))
        if kind in ("timestamp", "timestamp_ntz"):
            return pl.lit(value if kind == "timestamp" else value.replace(tzinfo=None), pl.Datetime("us", "UTC" if kind == "timestamp" else None))
        return pl.lit(value)


# ---------------------------------------------------------------- deltalake's own SQL (DataFusion)

class Deltalake:
    def __init__(self, table):
        import deltalake

        self.query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(table)))

    def arrow(self):
        return pa.table(self.query.execute("SELECT * FROM t").read_all())

    def types(self):
        return arrow_types(pa.table(self.query.execute("SELECT * FROM t LIMIT 0").read_all()).schema)

    def counts(self, pairs):
        return [self.count(condition(self, *pair)) for pair in pairs]

    def count(self, condition):
        return pa.table(self.query.execute(f"SELECT count(*) AS n FROM t WHERE {condition}").read_all()).column("n")[0].as_py()

    def column(self, path):
        return '"' + path[0].replace('"', '""') + '"' + "".join("['" + name.replace("'", "''") + "']" for name in path[1:])

    def literal(self, value, kind):
        if kind == "string":
            return "||".join("'" + part.replace("'", "''") + "'" if part != "\0" else "chr(0)" for part in around_nul(value))
        if kind == "timestamp":
            # a TIMESTAMP literal would be nanoseconds, which end in the years 1677 and 2262
            return f"arrow_cast({micros(value)}, 'Timestamp(Microsecond, Some(\"UTC\"))')"
        if kind == "timestamp_ntz":
            return f"arrow_cast({micros(value)}, 'Timestamp(Microsecond, None)')"
        return plain_literal(value, kind)


# ---------------------------------------------------------------- ClickHouse in process (chDB)

class ChDB:
    def __init__(self, table):
        import chdb

        self.chdb = chdb
        self.name = "deltaLakeLocal('" + str(table).replace("\\", "\\\\").replace("'", "\\'") + "')"

    SETTINGS = "SETTINGS output_format_arrow_string_as_string=0, output_format_arrow_low_cardinality_as_dictionary=0"

    def query(self, text):
        # chDB reads files below the working directory only
        with contextlib.chdir("/"):
            out = self.chdb.query(f"{text} {self.SETTINGS}", "Arrow").bytes()
        return pa.ipc.open_file(out).read_all()

    def arrow(self):
        return self.query(f"SELECT * FROM {self.name}")

    def types(self):
        return arrow_types(self.query(f"SELECT * FROM {self.name} LIMIT 0").schema)

    def counts(self, pairs):
        return [self.count(condition(self, *pair)) for pair in pairs]

    def count(self, condition):
        return self.query(f"SELECT count() AS n FROM {self.name} WHERE {condition}").column("n")[0].as_py()

    def column(self, path):
        return ".".join("`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`" for name in path)

    def literal(self, value, kind):
        if kind == "string":
            return "unhex('" + value.encode().hex() + "')"
        if kind in ("timestamp", "timestamp_ntz"):
            return f"fromUnixTimestamp64Micro({micros(value)}, 'UTC')"
        if kind == "date":
            return f"toDate32('{value.isoformat()}')"
        if kind.startswith("decimal"):
            return f"toDecimal128('{value:f}', {decimal_digits(kind)[1]})"
        return plain_literal(value, kind)


ENGINES = {"spark": Spark, "duckdb": DuckDB, "polars": Polars, "deltalake": Deltalake, "chdb": ChDB}


# ---------------------------------------------------------------- SQL that the engines share

def condition(engine, column, test):
    """The test on the column as SQL of that engine."""
    at = engine.column(column.path)
    if test in ("is null", "is not null"):
        return f"{at} {test}"
    low, high = (engine.literal(v, column.kind) for v in (column.low, column.high))
    return {
        "= min": f"{at} = {low}",
        "= max": f"{at} = {high}",
        "< min": f"{at} < {low}",
        "> max": f"{at} > {high}",
        "between": f"{at} BETWEEN {low} AND {high}",
    }[test]


def plain_literal(value, kind):
    if kind.startswith("decimal"):
        return f"CAST('{value:f}' AS DECIMAL({', '.join(map(str, decimal_digits(kind)))}))"
    if kind == "date":
        return f"CAST('{value.isoformat()}' AS DATE)"
    if kind in ("double", "float"):
        return f"CAST('{value!r}' AS {'DOUBLE' if kind == 'double' else 'REAL'})"
    if kind == "boolean":
        return "true" if value else "false"
    return str(value)


def decimal_digits(kind):
    return tuple(int(n) for n in kind[len("decimal("):-1].split(","))


def micros(moment):
    return (moment.replace(tzinfo=UTC) - datetime.datetime(1970, 1, 1, tzinfo=UTC)) // datetime.timedelta(microseconds=1)


def around_nul(text):
    parts = text.split("\0")
    out = [parts[0]]
    for part in parts[1:]:
        out += ["\0", part]
    return out


# ---------------------------------------------------------------- types, in Spark's words

def arrow_types(schema):
    return {field.name: spark_type(field.type) for field in schema}


def spark_type(t):
    """An Arrow type in the words of Spark's DESCRIBE; an Arrow type that no Delta column can have stays Arrow's name."""
    if pa.types.is_dictionary(t):
        return spark_type(t.value_type)
    if pa.types.is_struct(t):
        return "struct<" + ",".join(f"{f.name}:{spark_type(f.type)}" for f in t) + ">"
    if pa.types.is_map(t):
        return f"map<{spark_type(t.key_type)},{spark_type(t.item_type)}>"
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_list_view(t):
        return f"array<{spark_type(t.value_type)}>"
    if pa.types.is_decimal(t):
        return f"decimal({t.precision},{t.scale})"
    if pa.types.is_timestamp(t):
        return ("timestamp" if t.tz else "timestamp_ntz") if t.unit == "us" else str(t)
    if pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t):
        return "string"
    if pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t):
        return "binary"
    names = {"bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint",
             "float": "float", "double": "double", "date32[day]": "date", "null": "void"}
    return names.get(str(t), str(t))


def delta_type(t):
    """A type of Delta's schema JSON in the same words."""
    if isinstance(t, dict):
        if t["type"] == "struct":
            return "struct<" + ",".join(f"{f['name']}:{delta_type(f['type'])}" for f in t["fields"]) + ">"
        if t["type"] == "array":
            return f"array<{delta_type(t['elementType'])}>"
        return f"map<{delta_type(t['keyType'])},{delta_type(t['valueType'])}>"
    return {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}.get(t, t)


def delta_types(table):
    return {f["name"]: delta_type(f["type"]) for f in delta_log.schema(table)["fields"]}


def types_as_seen(engine, types):
    """`types` as far as `engine` can tell them apart."""
    def seen(t):
        if engine == "spark" and (t.startswith("varchar(") or t.startswith("char(")):
            return "string"
        if engine == "chdb":
            t = t.replace("timestamp_ntz", "timestamp").replace("string", "binary")
        return t

    return {name: seen(t) for name, t in types.items()}


# ---------------------------------------------------------------- values

def plain(value, t):
    """A Python value of Arrow's `to_pylist` in the normalised form; `t` is the column's Delta type."""
    if value is None:
        return None
    if isinstance(t, dict):
        if t["type"] == "struct":
            return {f["name"]: plain(value[f["name"]], f["type"]) for f in t["fields"]}
        if t["type"] == "array":
            return [plain(v, t["elementType"]) for v in value]
        pairs = value.items() if isinstance(value, dict) else ((p["key"], p["value"]) if isinstance(p, dict) else p for p in value)
        return dict(sorted((plain(k, t["keyType"]), plain(v, t["valueType"])) for k, v in pairs))
    if isinstance(t, str) and t.startswith("decimal"):
        scale = decimal_digits(t)[1]
        return format(decimal.Context(prec=76).quantize(decimal.Decimal(value), decimal.Decimal(1).scaleb(-scale)), "f")
    if t == "timestamp":
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if t == "timestamp_ntz":
        return value.replace(tzinfo=None).isoformat(timespec="microseconds")
    if t == "date":
        return value.isoformat()
    if t in ("double", "float"):
        return repr(float(value))
    if t == "binary":
        return "hex:" + bytes(value).hex()
    if isinstance(value, bytes):
        return value.decode()
    return value


def as_seen(engine, value, t):
    """A normalised value as far as `engine` can tell it: in ClickHouse a null struct is one of nulls, a null list empty."""
    if engine != "chdb" or not isinstance(t, dict):
        return value
    if t["type"] == "struct":
        return {f["name"]: as_seen(engine, (value or {}).get(f["name"]), f["type"]) for f in t["fields"]}
    if t["type"] == "array":
        return [as_seen(engine, v, t["elementType"]) for v in value or []]
    return {k: as_seen(engine, v, t["valueType"]) for k, v in (value or {}).items()}


def in_order(rows):
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def rows(engine, table):
    """All rows of `table` as `engine` reads them, normalised and sorted."""
    fields = delta_log.schema(table)["fields"]
    arrow = ENGINES[engine](table).arrow()
    columns = {f["name"]: [plain(v, f["type"]) for v in arrow.column(f["name"]).to_pylist()] for f in fields}
    for f in fields:
        if engine == "spark" and f["metadata"].get("__CHAR_VARCHAR_TYPE_STRING", "").startswith("char("):
            # Spark fills a CHAR up with spaces while it reads
            columns[f["name"]] = [v and v.rstrip(" ") for v in columns[f["name"]]]
    return in_order([dict(zip(columns, values)) for values in zip(*columns.values())])


def fits(engine, table, table_rows):
    """None where `engine` can hold these rows of `table`, else the reason why not."""
    if engine != "chdb":
        return None
    for f in delta_log.schema(table)["fields"]:
        name, kind = f["name"], f["type"]
        if kind in ("date", "timestamp", "timestamp_ntz"):
            for row in table_rows:
                if row[name] is not None and not "1900" <= row[name][:4] <= "2298":
                    return f"ClickHouse has no {kind} {row[name]}"
        if isinstance(kind, str) and kind.startswith("decimal") and decimal_digits(kind)[0] > 18 and name in delta_log.partition_columns(table):
            # Spark's tables too: 1.50 becomes 150 * 2^64
            return "ClickHouse 26.9 swaps the halves of a partition value of more than 18 digits"
    return None


# ---------------------------------------------------------------- the comparison

class Column:
    """A column to filter on: its path, its type, its least and greatest value and what each filter must find."""

    def __init__(self, path, kind, values):
        self.path, self.kind = path, kind
        known = [v for v in values if v is not None]
        numbers = [v for v in known if v == v]
        self.has_nan = len(numbers) != len(known)
        self.low, self.high = (min(numbers), max(numbers)) if numbers else (None, None)
        self.expected = {"is null": len(values) - len(known), "is not null": len(known)}
        if numbers:
            self.expected.update({
                "= min": sum(v == self.low for v in numbers),
                "= max": sum(v == self.high for v in numbers),
                "< min": 0,
                "between": len(numbers),
            })
            if not self.has_nan:
                # whether NaN is greater than every number is a matter of the engine
                self.expected["> max"] = 0


def columns_to_filter(table, arrow):
    """The columns that have bounds in the log or partition the table, with values from `arrow` (one engine's rows)."""
    paths = delta_log.columns_with_bounds(table) + [(name,) for name in delta_log.partition_columns(table)]
    out = []
    for path in paths:
        field = next((f for f in delta_log.schema(table)["fields"] if f["name"] == path[0]), None)
        if field is None:
            continue  # the bounds carry a physical name: column mapping
        if field["metadata"].get("__CHAR_VARCHAR_TYPE_STRING", "").startswith("char("):
            continue  # Spark fills a CHAR up with spaces while it reads, the others do not: no filter means the same to all
        values, t = arrow.column(path[0]).to_pylist(), field["type"]
        for name in path[1:]:
            t = next(f["type"] for f in t["fields"] if f["name"] == name)
            values = [None if v is None else v[name] for v in values]
        kind = delta_type(t)
        if isinstance(t, dict) or kind == "binary":
            continue
        if kind == "string":
            # compared by code point, which is the order of UTF-8 too
            values = [v.decode() if isinstance(v, bytes) else v for v in values]
        out.append(Column(path, kind, values))
    return out


def check_filters(table, engines=ALL):
    """Runs every filter on every column with statistics, in every engine, and compares the number of rows found."""
    columns = columns_to_filter(table, ENGINES[engines[0]](table).arrow())
    wrong, asked = [], 0
    for engine in engines:
        if engine == "polars" and not polars_can_filter(table) or fits(engine, table, []):
            continue
        pairs = [(column, test) for column in columns for test in column.expected
                 if (engine != "chdb" or chdb_can_filter(column)) and (engine != "spark" or test in FILTERS_OF_SPARK)]
        for (column, test), found in zip(pairs, ENGINES[engine](table).counts(pairs), strict=True):
            asked += 1
            if found != column.expected[test]:
                wrong.append(f"{engine}: {'.'.join(column.path)} {test} ({column.low!r} .. {column.high!r}) "
                             f"found {found} rows, not {column.expected[test]}")
    assert not wrong, f"filters on {table}:\n" + "\n".join(wrong)
    return asked


def polars_can_filter(table):
    """Polars 2.1 fails on any filter when a struct has a member without bounds (a list, say), whoever wrote the table."""
    bounds = set(delta_log.columns_with_bounds(table))

    def complete(field, at):
        at += (field["name"],)
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            return all(complete(f, at) for f in field["type"]["fields"])
        return len(at) == 1 or at in bounds

    return all(complete(f, ()) for f in delta_log.schema(table)["fields"])


def chdb_can_filter(column):
    if column.kind in ("date", "timestamp", "timestamp_ntz") and column.low is not None:
        return column.low.year >= 1900 and column.high.year <= 2298
    return True


def check_types(table, engines=ALL):
    """Asserts that every engine shows the types that the log declares."""
    declared = delta_types(table)
    for engine in engines:
        seen = types_as_seen(engine, ENGINES[engine](table).types())
        assert seen == types_as_seen(engine, declared), f"types of {table} in {engine}: {seen}, declared: {declared}"


def compare(table, expected_rows=None, engines=ALL, filters=True):
    """Asserts that the engines see the same rows and types in `table`; returns those rows, normalised and sorted.

    `expected_rows`: the rows that must be there, in the normalised form, in any order.
    """
    table = str(table)
    fields = delta_log.schema(table)["fields"]
    check_types(table, engines)
    reference = in_order(expected_rows) if expected_rows is not None else rows(engines[0], table)
    for engine in engines:
        if fits(engine, table, reference):
            continue
        want = [{f["name"]: as_seen(engine, row[f["name"]], f["type"]) for f in fields} for row in reference]
        got = [{f["name"]: as_seen(engine, row[f["name"]], f["type"]) for f in fields} for row in rows(engine, table)]
        assert_same_rows(got, want, f"{table} in {engine}")
    if filters:
        check_filters(table, engines)
    return reference


def assert_same_rows(got, want, what):
    got, want = in_order(got), in_order(want)
    if got == want:
        return
    texts = [collections.Counter(json.dumps(r, sort_keys=True, ensure_ascii=False) for r in side) for side in (got, want)]
    extra, missing = sorted((texts[0] - texts[1]).elements()), sorted((texts[1] - texts[0]).elements())
    raise AssertionError(f"{what}: {len(got)} rows, expected {len(want)}\n"
                         + "".join(f"  unexpected {r[:2000]}\n" for r in extra[:5])
                         + "".join(f"  missing    {r[:2000]}\n" for r in missing[:5]))


def compare_large(table, expected, engines=ALL):
    """As `compare`, column-wise, for hundreds of thousands of rows: `expected` is an Arrow table with plain columns."""
    table = str(table)
    check_types(table, engines)
    order = [(name, "ascending") for name in expected.column_names]
    want = expected.sort_by(order)
    for engine in engines:
        got = ENGINES[engine](table).arrow().select(expected.column_names).cast(expected.schema).sort_by(order)
        assert got.num_rows == want.num_rows, f"{table} in {engine}: {got.num_rows} rows, expected {want.num_rows}"
        for name in expected.column_names:
            a, b = got.column(name).combine_chunks(), want.column(name).combine_chunks()
            if not a.equals(b):
                same = pc.fill_null(pc.equal(a, b), False)
                both_null = pc.and_(pc.is_null(a), pc.is_null(b))
                at = pc.index(pc.or_(same, both_null), False).as_py()
                raise AssertionError(f"{table} in {engine}: column {name}, sorted row {at}: {a[at]} instead of {b[at]}")
