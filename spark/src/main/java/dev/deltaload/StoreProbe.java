package dev.deltaload;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.AWSUnsupportedFeatureException;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Proves that a store honours the condition, before the first commit to it.
 *
 * <p>A store that ignores it answers as one that honours it, and loses other writers' commits without a word. A second PUT of the same
 * key tells them apart.
 */
final class StoreProbe {

  private static final Logger LOG = LoggerFactory.getLogger(S3ConditionalLogStore.class);

  /** Stores by bucket and endpoint, and whether one has passed. */
  private static final Map<String, AtomicBoolean> PROBED = new ConcurrentHashMap<>();

  private StoreProbe() {}

  /**
   * Creates one object twice below the table of {@code commit}, once per bucket and JVM.
   *
   * @throws UnsupportedOperationException the store took it twice, or has no conditional PUT
   * @throws IOException the store gave no clear answer within {@code limitMs}
   */
  static void once(S3ConditionalLogStore clock, FileSystem fs, Path commit, long limitMs) throws IOException {
    String store = fs.getUri() + " at " + fs.getConf().get("fs.s3a.endpoint", "the default endpoint");
    AtomicBoolean passed = PROBED.computeIfAbsent(store, s -> new AtomicBoolean());
    if (passed.get()) {
      return;
    }
    synchronized (passed) {
      if (passed.get()) {
        return;
      }
      long start = clock.nanoTime();
      for (int round = 0; ; round++) {
        Path object = new Path(tableOf(commit), "_delta_load/_probe/" + UUID.randomUUID());
        IOException unclear;
        try {
          probe(fs, object, store);
          passed.set(true);
          return;
        } catch (AccessDeniedException e) {
          throw e;
        } catch (AWSUnsupportedFeatureException e) {
          throw new UnsupportedOperationException(
              "S3ConditionalLogStore does not write to " + store + ": the store has no conditional PUT", e);
        } catch (IOException e) {
          unclear = e;
        } finally {
          remove(fs, object);
        }
        long pauseMs = clock.backOffMs(round);
        if (clock.elapsedMs(start) + pauseMs > limitMs) {
          throw new IOException("S3ConditionalLogStore does not write to " + store + ": whether the store honours If-None-Match is not known,"
              + " the last of " + (round + 1) + " probes below " + object.getParent() + " ended without a clear answer; nothing was committed", unclear);
        }
        try {
          clock.pause(pauseMs);
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt();
          throw (IOException) new InterruptedIOException("interrupted while the store was probed; nothing was committed").initCause(unclear);
        }
      }
    }
  }

  private static void probe(FileSystem fs, Path object, String store) throws IOException {
    ConditionalCreate.put(fs, object, "first\n".getBytes(StandardCharsets.UTF_8));
    try {
      ConditionalCreate.put(fs, object, "second\n".getBytes(StandardCharsets.UTF_8));
    } catch (RemoteFileChangedException | FileAlreadyExistsException refused) {
      return;
    }
    throw new UnsupportedOperationException("S3ConditionalLogStore does not write to " + store + ": the store took " + object
        + " twice although the second PUT said If-None-Match: *. It ignores the condition, so that two writers would overwrite one another's commits");
  }

  /** Tidies up; what is left by a lack of rights is one small object in a folder that Delta's VACUUM skips. */
  private static void remove(FileSystem fs, Path object) {
    try {
      fs.delete(object, false);
    } catch (IOException | RuntimeException e) {
      LOG.info("{} is left over from the probe of its store: {}", object, e.toString());
      return;
    }
    try {
      // the markers that S3A puts in place of the last object of a folder; a folder in use stays
      if (fs.delete(object.getParent(), false)) {
        fs.delete(object.getParent().getParent(), false);
      }
    } catch (IOException | RuntimeException inUse) {
      LOG.debug("{} stays: {}", object.getParent(), inUse.toString());
    }
  }

  private static Path tableOf(Path commit) {
    for (Path at = commit.getParent(); at != null; at = at.getParent()) {
      if (at.getName().equals("_delta_log") && at.getParent() != null) {
        return at.getParent();
      }
    }
    return commit.getParent();
  }
}
