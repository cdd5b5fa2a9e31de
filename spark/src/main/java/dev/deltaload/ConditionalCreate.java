package dev.deltaload;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.util.VersionInfo;

/**
 * The one request that a commit rests on, in a Hadoop that sends its condition.
 *
 * <p>Nothing here names a class of hadoop-aws: an old one, which lacks some of them, is to be refused by name.
 */
final class ConditionalCreate {

  /** Hadoop's name for If-None-Match: *, as an option of a file builder and as a capability of a path. */
  static final String CONDITION = "fs.option.create.conditional.overwrite";

  private ConditionalCreate() {}

  /** Sends {@code bytes} with the condition. Any exception leaves open whether the object was created. */
  static void put(FileSystem fs, Path path, byte[] bytes) throws IOException {
    FSDataOutputStreamBuilder<?, ?> file = fs.createFile(path);
    file.recursive();
    // must, not opt: a file system that does not know the option throws, where opt would overwrite
    file.must(CONDITION, true);
    upload(file.build(), bytes);
  }

  /** Writes {@code bytes} and closes {@code out}; a failure before the last byte publishes nothing. */
  static void upload(FSDataOutputStream out, byte[] bytes) throws IOException {
    try {
      out.write(bytes);
    } catch (IOException | RuntimeException | Error e) {
      // closing would send the part that was taken
      try {
        out.abort();
      } catch (RuntimeException notAbortable) {
        e.addSuppressed(notAbortable);
      }
      throw e;
    }
    out.close();
  }

  /** Throws when this JVM's Hadoop is older than the option. */
  static void requireHadoop() {
    try {
      Class.forName("org.apache.hadoop.fs.Options$CreateFileOptionKeys", false, FileSystem.class.getClassLoader());
    } catch (ClassNotFoundException e) {
      throw new UnsupportedOperationException("S3ConditionalLogStore needs Hadoop 3.4.2 or later (hadoop-client-api, hadoop-client-runtime"
          + " and hadoop-aws of one version); this is Hadoop " + VersionInfo.getVersion() + ", which cannot send If-None-Match, so that a"
          + " commit could overwrite another writer's");
    }
  }

  /** Throws when the file system of {@code path} would not send the condition. */
  static void require(FileSystem fs, Path path) throws IOException {
    if (!fs.hasPathCapability(path, CONDITION)) {
      throw new UnsupportedOperationException("S3ConditionalLogStore does not write " + path + ": its file system "
          + fs.getClass().getName() + " (Hadoop " + VersionInfo.getVersion() + ") does not send If-None-Match, so that a commit could"
          + " overwrite another writer's. It takes S3A of Hadoop 3.4.2 or later and fs.s3a.create.conditional.enabled = true (it is "
          + fs.getConf().get("fs.s3a.create.conditional.enabled", "not set") + ")");
    }
  }

  /** Bytes from which S3A would send an object in several parts. */
  static long singlePutBytes(FileSystem fs) {
    if (!fs.getConf().getBoolean("fs.s3a.multipart.uploads.enabled", true)) {
      return Long.MAX_VALUE;
    }
    return Math.max(5L << 20, fs.getConf().getLongBytes("fs.s3a.multipart.size", 64L << 20));
  }

  /** Another client of the same bucket, the caller's to close, that sends an object of any size in one PUT. */
  static FileSystem withoutMultipart(FileSystem fs) throws IOException {
    Configuration conf = new Configuration(fs.getConf());
    conf.setBoolean("fs.s3a.multipart.uploads.enabled", false);
    conf.setBoolean("fs.s3a.bucket." + fs.getUri().getHost() + ".multipart.uploads.enabled", false);
    return FileSystem.newInstance(fs.getUri(), conf);
  }
}
