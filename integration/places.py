"""Where tables are: a bucket of an S3 server, or a folder. The same questions to both."""
import json
import os
import re

import delta_log
import pyarrow as pa
import pyarrow.fs
import readers
import seaweedfs

BUCKET = "lake"


class Bucket:
    """A bucket of `server`. Loads go to `endpoint`, a proxy for example; what a test asks goes to the server itself."""

    name = "s3"

    def __init__(self, server, endpoint=None, bucket=BUCKET):
        self.server, self.bucket, self.endpoint = server, bucket, endpoint or server.endpoint

    def url(self, path):
        return f"s3://{self.bucket}/{path}"

    def options(self, **more):
        return self.server.options(aws_endpoint_url=self.endpoint, **more)

    def settings(self, root, **more):
        """A config that loads below `root`."""
        options = self.options(**more.pop("storage_options", {}))
        return {"destination": self.url(root), "storage_options": options, **more}

    def commits(self, table):
        """The commits of the log: version → actions."""
        files, out = self.server.files(), {}
        for info in files.get_file_info(pyarrow.fs.FileSelector(f"{self.bucket}/{table}/_delta_log", allow_not_found=True)):
            if re.fullmatch(r"\d{20}\.json", info.base_name):
                with files.open_input_stream(info.path) as f:
                    out[int(info.base_name[:20])] = [json.loads(line) for line in f.read().decode().splitlines()]
        return out

    def read(self, table, engine):
        return {"deltalake": self._deltalake, "polars": self._polars, "duckdb": self._duckdb}[engine](self.url(table))

    def _deltalake(self, url):
        import deltalake

        return pa.table(deltalake.DeltaTable(url, storage_options=self.server.options()).to_pyarrow_table())

    def _polars(self, url):
        import polars

        return polars.read_delta(url, storage_options=self.server.options()).to_arrow()

    def _duckdb(self, url):
        connection = readers.duckdb().cursor()
        from duckdb_extensions import import_extension

        import_extension("httpfs")
        connection.execute("LOAD httpfs")
        host = self.server.endpoint.removeprefix("http://")
        connection.execute(f"CREATE OR REPLACE SECRET s (TYPE s3, KEY_ID '{seaweedfs.KEY_ID}', SECRET '{seaweedfs.SECRET}', "
                           f"REGION '{seaweedfs.REGION}', ENDPOINT '{host}', URL_STYLE 'path', USE_SSL false)")
        return connection.execute(f"SELECT * FROM delta_scan('{url}')").to_arrow_table()


class Folder:
    """A folder of the local disk."""

    name = "local"

    def __init__(self, folder):
        self.folder = str(folder)

    def url(self, path):
        return os.path.join(self.folder, path)

    def options(self, **_):
        return {}

    def settings(self, root, **more):
        more.pop("storage_options", None)
        return {"destination": self.url(root), **more}

    def commits(self, table):
        files = delta_log.commit_files(self.url(table))
        return dict(zip((int(os.path.basename(f)[:20]) for f in files), delta_log.commits(self.url(table)), strict=True))

    def read(self, table, engine):
        return pa.table(readers.ENGINES[engine](self.url(table)).arrow())
