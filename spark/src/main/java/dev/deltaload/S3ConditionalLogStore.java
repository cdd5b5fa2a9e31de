package dev.deltaload;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Comparator;
import java.util.Iterator;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Delta's log on S3 for any number of writers, with no lock service: a version is created by a PUT with {@code If-None-Match: *}.
 *
 * <p>Only a success of that request, or the object read back with this commit's own bytes in it, counts as committed. Every other
 * answer (412, 409, 5xx, a time-out, a connection that breaks) says nothing: S3A and the SDK under it send a request again by
 * themselves, and then meet their own object. Read back, the version is ours, another writer's, or absent; absent, it is sent again.
 * Without this a lost answer becomes a second commit of the same rows, or an error for rows that are in the table.
 *
 * <p>The bytes tell writers apart by the {@code txnId} in Delta's {@code commitInfo}, a UUID per transaction. Reading is
 * that of {@link S3SingleDriverLogStore}; a write that may replace a file ({@code _last_checkpoint}) carries no condition.
 */
public class S3ConditionalLogStore extends S3SingleDriverLogStore {

  /** How long one commit is tried, as Hadoop writes times ({@code 120s}); requests that are under way are not cut off. */
  public static final String TIMEOUT = "deltaload.commit.timeout";

  static final long DEFAULT_TIMEOUT_MS = 120_000;

  /** A request that took longer is a repeat for all that is known, since S3A repeats by itself. */
  static final long SLOW_MS = 30_000;

  private static final Logger LOG = LoggerFactory.getLogger(S3ConditionalLogStore.class);
  private static final AtomicBoolean LISTS_FOLDERS = new AtomicBoolean();
  private static final Pattern VERSION = Pattern.compile("\\d{20}\\.json");
  private static final Pattern TXN_ID = Pattern.compile("\"txnId\"\\s*:\\s*\"([^\"]{1,100})\"");

  /** Refuses, with an {@link UnsupportedOperationException}, a Hadoop that has never heard of the condition. */
  public S3ConditionalLogStore(Configuration conf) {
    super(conf);
    ConditionalCreate.requireHadoop();
  }

  /**
   * Creates the file at {@code path}; {@code overwrite} replaces it with no condition.
   *
   * @throws FileAlreadyExistsException another writer's bytes are there
   * @throws IOException nothing was written; or it is not known whether it was, and the message says so
   */
  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
    byte[] ours = encoded(actions);
    FileSystem fs = path.getFileSystem(conf);
    if (overwrite) {
      ConditionalCreate.upload(fs.create(path, true), ours);
      return;
    }
    long limitMs = conf.getTimeDuration(TIMEOUT, DEFAULT_TIMEOUT_MS, TimeUnit.MILLISECONDS);
    ConditionalCreate.require(fs, path);
    StoreProbe.once(this, fs, path, limitMs);
    if (ours.length < ConditionalCreate.singlePutBytes(fs)) {
      commit(fs, path, ours, limitMs);
      return;
    }
    // In several parts the condition is checked by another request, which not every store decides atomically.
    try (FileSystem wholeOnly = ConditionalCreate.withoutMultipart(fs)) {
      commit(wholeOnly, path, ours, limitMs);
    }
  }

  /**
   * Lists as Delta's store for S3 does: the folder, or with {@code delta.enableFastS3AListFrom} from the start key on. The latter calls
   * internals of S3A that Hadoop 3.5 has changed; where they do not fit, the folder is listed, which gives the same files.
   */
  @Override
  public Iterator<FileStatus> listFrom(Path path, Configuration conf) throws IOException {
    try {
      return super.listFrom(path, conf);
    } catch (LinkageError | UnsupportedOperationException e) {
      if (!LISTS_FOLDERS.getAndSet(true)) {
        LOG.warn("delta.enableFastS3AListFrom does not fit this Hadoop: whole folders are listed. {}", e.toString());
      }
      return Arrays.stream(path.getFileSystem(conf).listStatus(path.getParent()))
          .filter(file -> file.getPath().getName().compareTo(path.getName()) >= 0)
          .sorted(Comparator.comparing(file -> file.getPath().getName()))
          .iterator();
    }
  }

  private void commit(FileSystem fs, Path path, byte[] ours, long limitMs) throws IOException {
    long start = nanoTime();
    boolean send = true; // what is not there may be sent; what cannot be read is read again first
    Exception answer = null;
    for (int round = 0; ; round++) {
      if (send) {
        try {
          if (round > 0) {
            requirePredecessor(fs, path);
          }
          ConditionalCreate.put(fs, path, ours);
          if (elapsedMs(start) > SLOW_MS) {
            requirePredecessor(fs, path);
          }
          return;
        } catch (LogIsGone e) {
          throw e;
        } catch (IOException | RuntimeException e) {
          answer = e;
        }
      }

      boolean interrupted = Thread.interrupted() || isInterrupt(answer); // cleared, or it would break the read too
      Found found;
      Exception unread = null;
      try {
        found = readBack(fs, path, ours);
        if (found == Found.OURS && elapsedMs(start) > SLOW_MS) {
          requirePredecessor(fs, path);
        }
      } catch (LogIsGone e) {
        throw e;
      } catch (IOException | RuntimeException e) {
        found = Found.UNREADABLE;
        unread = e;
      } finally {
        if (interrupted) {
          Thread.currentThread().interrupt();
        }
      }
      if (found == Found.OURS) {
        LOG.warn("{} is committed: read back, it is ours, although the answer to its creation was: {}", path, String.valueOf(answer));
        return;
      }
      if (found == Found.THEIRS) {
        throw new FileAlreadyExistsException(path.toString(), null, "another writer created it");
      }

      // missing rights, or a bug, are no matter of patience
      if (round == 0 && answer instanceof AccessDeniedException) {
        throw (AccessDeniedException) answer;
      }
      if (round == 0 && answer instanceof RuntimeException && found == Found.ABSENT) {
        throw (RuntimeException) answer;
      }
      boolean hopeless = interrupted || answer instanceof AccessDeniedException || answer instanceof RuntimeException;
      long pauseMs = backOffMs(round);
      if (hopeless || elapsedMs(start) + pauseMs > limitMs) {
        throw unknown(path, ours, round + 1, elapsedMs(start), limitMs, interrupted, answer, unread);
      }
      LOG.info("{} is {} after: {}; tried again in {} ms", path, found, String.valueOf(answer), pauseMs);
      try {
        pause(pauseMs);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw unknown(path, ours, round + 1, elapsedMs(start), limitMs, true, answer, unread);
      }
      send = found == Found.ABSENT;
    }
  }

  private enum Found { OURS, THEIRS, ABSENT, UNREADABLE }

  /** Compares what is at {@code path} with {@code ours}; a shorter copy of ours is a read that broke off. */
  private static Found readBack(FileSystem fs, Path path, byte[] ours) throws IOException {
    byte[] there = new byte[ours.length + 1];
    int length = 0;
    try (FSDataInputStream in = fs.open(path)) {
      for (int n; length < there.length && (n = in.read(there, length, there.length - length)) >= 0; ) {
        length += n;
      }
    } catch (FileNotFoundException e) {
      return Found.ABSENT;
    }
    for (int i = 0; i < Math.min(length, ours.length); i++) {
      if (there[i] != ours[i]) {
        return Found.THEIRS;
      }
    }
    return length == ours.length ? Found.OURS : length > ours.length ? Found.THEIRS : Found.UNREADABLE;
  }

  /**
   * A version stands on the one before it. Where that is gone, the table was dropped, and perhaps made anew, while this commit was on
   * its way: it would lie in a log that it does not belong to.
   */
  private static void requirePredecessor(FileSystem fs, Path path) throws IOException {
    String name = path.getName();
    if (!VERSION.matcher(name).matches() || Long.parseLong(name.substring(0, 20)) == 0) {
      return;
    }
    String before = String.format("%020d.json", Long.parseLong(name.substring(0, 20)) - 1);
    if (!fs.exists(new Path(path.getParent(), before))) {
      throw new LogIsGone("the version before " + path + " is gone since this commit began: the table was dropped or made anew, or its log"
          + " was cleaned up. The version may exist; where it does and the table is another one, delete it");
    }
  }

  private static final class LogIsGone extends IOException {
    private static final long serialVersionUID = 1;

    LogIsGone(String message) {
      super(message);
    }
  }

  private static IOException unknown(
      Path path, byte[] ours, int rounds, long elapsedMs, long limitMs, boolean interrupted, Exception answer, Exception unread) {
    Matcher id = TXN_ID.matcher(new String(ours, 0, Math.min(ours.length, 1 << 16), StandardCharsets.UTF_8));
    String message = String.format(
        "not known whether %s was created: no certain answer in %d rounds and %.1f s (%s%s = %d ms). The version may exist%s."
            + " Look before the same rows are written again, and keep the data files",
        path, rounds, elapsedMs / 1000.0, interrupted ? "interrupted; " : "", TIMEOUT, limitMs,
        id.find() ? ": it is this commit if its txnId is " + id.group(1) : "");
    IOException error = interrupted ? new InterruptedIOException(message) : new IOException(message);
    error.initCause(answer);
    if (unread != null) {
      error.addSuppressed(unread);
    }
    return error;
  }

  /** Time-outs are subclasses of this exception too. */
  private static boolean isInterrupt(Exception answer) {
    return answer != null && answer.getClass() == InterruptedIOException.class;
  }

  private static byte[] encoded(Iterator<String> actions) {
    StringBuilder text = new StringBuilder();
    while (actions.hasNext()) {
      text.append(actions.next()).append('\n');
    }
    return text.toString().getBytes(StandardCharsets.UTF_8);
  }

  /** Full jitter, so that those who met once do not meet again. */
  long backOffMs(int round) {
    return ThreadLocalRandom.current().nextLong(Math.min(5_000, 100L << Math.min(round, 6))) + 1;
  }

  long elapsedMs(long start) {
    return TimeUnit.NANOSECONDS.toMillis(nanoTime() - start);
  }

  /** The clock, which tests replace. */
  long nanoTime() {
    return System.nanoTime();
  }

  void pause(long ms) throws InterruptedException {
    Thread.sleep(ms);
  }
}
