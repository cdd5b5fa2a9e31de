"""A Spark session in a process of its own: requests come as JSON lines on stdin and run side by side, each answer is a line on stdout.

    {"id": 1, "do": "sql", "with": ["SELECT 1"]}    →    {"id": 1, "rows": [[1]]}  or  {"id": 1, "error": "…"}

`stream` copies a table into another by Structured Streaming until `stop`; `drain` waits until it has seen all that is there.

The first line out names the versions. argv: the settings as a JSON object. Nothing but PySpark is imported, so that any line of it will do.
"""
import concurrent.futures
import json
import os
import sys
import threading

# of the error of a failed statement: what it is called and the messages of all its causes, without the Java frames
KEPT = 6_000


def session(settings):
    from pyspark.sql import SparkSession

    # a task is tried four times, as on a cluster
    builder = SparkSession.builder.master("local[2,4]").appName("delta-load integration")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def causes(error):
    """The messages of a Java exception and of what caused it, one a line."""
    java, said = getattr(error, "java_exception", None) or getattr(error, "_origin", None), [f"{type(error).__name__}: {error}"]
    while java is not None and len(said) < 12:
        said.append(str(java.toString()))
        java = java.getCause()
    return "\n".join(said)[:KEPT]


class Session:
    """What a request may ask for."""

    def __init__(self, spark):
        self.spark, self.streams = spark, {}

    def sql(self, statement):
        return [list(row) for row in self.spark.sql(statement).collect()]

    def stream(self, source, sink, checkpoint):
        reader = self.spark.readStream.format("delta").load(source)
        writer = reader.writeStream.format("delta").option("checkpointLocation", checkpoint).trigger(processingTime="1 second")
        self.streams[sink] = writer.start(sink)

    def drain(self, sink):
        self.streams[sink].processAllAvailable()

    def stop(self, sink):
        self.streams.pop(sink).stop()


def main():
    # the JVM inherits stdout; only answers may be in it
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    spark = session(json.loads(sys.argv[1]))
    session_of, lock = Session(spark), threading.Lock()

    def answer(value):
        with lock:
            answers.write(json.dumps(value, default=str) + "\n")
            answers.flush()

    def run(request):
        try:
            rows = getattr(session_of, request["do"])(*request["with"])
        except Exception as error:
            answer({"id": request["id"], "error": causes(error)})
        else:
            answer({"id": request["id"], "rows": rows})

    version = spark._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    answer({"spark": spark.version, "hadoop": version, "java": spark._jvm.java.lang.System.getProperty("java.version")})
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for line in sys.stdin:
            pool.submit(run, json.loads(line))
    spark.stop()


if __name__ == "__main__":
    main()
