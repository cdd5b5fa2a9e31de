package dev.deltaload;

import static dev.deltaload.FakeStore.bytes;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Each answer that a store can give to the one request, and what becomes of the commit. */
@Timeout(60)
class S3ConditionalLogStoreTest {

  private static final String TXN = "5f1b7c5e-0000-4000-8000-000000000001";
  private static final List<String> ACTIONS =
      Arrays.asList("{\"commitInfo\":{\"operation\":\"WRITE\",\"txnId\":\"" + TXN + "\"}}", "{\"add\":{\"path\":\"ü.parquet\"}}");
  private static final byte[] OURS = bytes(String.join("\n", ACTIONS) + "\n");
  private static final byte[] THEIRS = bytes("{\"commitInfo\":{\"operation\":\"WRITE\",\"txnId\":\"other\"}}\n");

  private final String name = "b" + UUID.randomUUID();
  private final FakeStore.Bucket bucket = FakeStore.bucket(name);
  private final Configuration conf = FakeStore.conf();
  private final Path log = new Path("fake://" + name + "/lake/t/_delta_log");
  private final Path version = new Path(log, "00000000000000000007.json");
  private final String key = version.toUri().getPath();

  /** Hours pass in no time; each look at the clock costs a millisecond. */
  private final AtomicLong nowMs = new AtomicLong();
  private final List<Long> pauses = new ArrayList<>();
  private final S3ConditionalLogStore store = new S3ConditionalLogStore(conf) {
    @Override
    long nanoTime() {
      return nowMs.incrementAndGet() * 1_000_000;
    }

    @Override
    void pause(long ms) {
      pauses.add(ms);
      nowMs.addAndGet(ms);
    }
  };

  @BeforeEach
  void versionSixIsThere() {
    bucket.objects.put(new Path(log, "00000000000000000006.json").toUri().getPath(), bytes("{}\n"));
  }

  @AfterEach
  void noInterruptIsLeft() {
    Thread.interrupted();
  }

  private void write() throws IOException {
    store.write(version, ACTIONS.iterator(), false, conf);
  }

  private long puts() {
    return bucket.requests.stream().filter(("PUT if absent " + key)::equals).count();
  }

  private static void landed(FakeStore s, String key, byte[] body) throws IOException {
    s.decide(key, body);
  }

  // ------------------------------------------------------------ success

  @Test
  void a_success_is_one_conditional_put_and_no_read() throws IOException {
    write();
    assertArrayEquals(OURS, bucket.objects.get(key));
    assertEquals(1, puts());
    assertFalse(bucket.requests.contains("GET " + key));
  }

  @Test
  void actions_are_taken_from_their_iterator_once() throws IOException {
    bucket.answers.add((s, k, body) -> {
      throw new IOException("503");
    });
    Iterator<String> once = new Iterator<String>() {
      private final Iterator<String> actions = ACTIONS.iterator();

      @Override
      public boolean hasNext() {
        return actions.hasNext();
      }

      @Override
      public String next() {
        if (!actions.hasNext()) {
          throw new NoSuchElementException();
        }
        return actions.next();
      }
    };
    store.write(version, once, false, conf);
    assertArrayEquals(OURS, bucket.objects.get(key));
    assertEquals(2, puts());
  }

  @Test
  void actions_that_fail_leave_nothing_in_the_log() {
    Iterator<String> broken = new Iterator<String>() {
      private int n;

      @Override
      public boolean hasNext() {
        return true;
      }

      @Override
      public String next() {
        if (n++ == 1) {
          throw new IllegalStateException("no more");
        }
        return "{}";
      }
    };
    assertThrows(IllegalStateException.class, () -> store.write(version, broken, false, conf));
    assertFalse(bucket.objects.containsKey(key));
  }

  // ------------------------------------------------------------ the version exists

  @Test
  void a_version_of_another_writer_is_lost_to_it_and_stays() {
    bucket.objects.put(key, THEIRS);
    FileAlreadyExistsException e = assertThrows(FileAlreadyExistsException.class, this::write);
    assertTrue(e.getMessage().contains(version.toString()), e.getMessage());
    assertArrayEquals(THEIRS, bucket.objects.get(key));
    assertEquals(1, puts());
    assertTrue(pauses.isEmpty());
  }

  @Test
  void a_412_for_our_own_object_is_a_success() throws IOException {
    // the SDK lost the first answer and sent the request again
    bucket.answers.add((s, k, body) -> {
      landed(s, k, body);
      s.decide(k, body);
    });
    write();
    assertEquals(1, puts());
  }

  @Test
  void a_version_that_only_begins_as_ours_is_another_writers() {
    bucket.objects.put(key, bytes(new String(OURS, StandardCharsets.UTF_8) + "{\"remove\":{}}\n"));
    assertThrows(FileAlreadyExistsException.class, this::write);
  }

  @Test
  void an_exists_of_hadoop_is_read_back_too() throws IOException {
    bucket.answers.add((s, k, body) -> {
      landed(s, k, body);
      throw new org.apache.hadoop.fs.FileAlreadyExistsException(k);
    });
    write();
  }

  // ------------------------------------------------------------ no clear answer

  @Test
  void an_answer_that_is_lost_after_the_object_landed_is_a_success() throws IOException {
    for (IOException lost : Arrays.asList(new IOException("reset"), new SocketTimeoutException("time-out"), new IOException("409"))) {
      bucket.objects.remove(key);
      bucket.answers.add((s, k, body) -> {
        landed(s, k, body);
        throw lost;
      });
      write();
      assertArrayEquals(OURS, bucket.objects.get(key));
    }
    assertEquals(3, puts());
    assertTrue(pauses.isEmpty());
  }

  @Test
  void what_did_not_land_is_sent_again() throws IOException {
    for (int i = 0; i < 3; i++) {
      bucket.answers.add((s, k, body) -> {
        throw new IOException("503");
      });
    }
    write();
    assertEquals(4, puts());
    assertArrayEquals(OURS, bucket.objects.get(key));
  }

  @Test
  void a_request_that_lands_after_its_error_is_found_by_the_next_round() throws IOException {
    bucket.answers.add((s, k, body) -> {
      throw new IOException("503");
    });
    bucket.answers.add((s, k, body) -> {
      landed(s, k, body); // the first one, on its way until here
      s.decide(k, body);
    });
    write();
    assertEquals(2, puts());
  }

  @Test
  void another_writer_may_come_first_between_two_rounds() {
    bucket.answers.add((s, k, body) -> {
      throw new IOException("503");
    });
    bucket.answers.add((s, k, body) -> {
      s.decide(k, THEIRS);
      s.decide(k, body);
    });
    assertThrows(FileAlreadyExistsException.class, this::write);
    assertArrayEquals(THEIRS, bucket.objects.get(key));
  }

  @Test
  void what_cannot_be_read_back_is_read_again_and_not_sent_again() throws IOException {
    bucket.answers.add((s, k, body) -> {
      landed(s, k, body);
      throw new IOException("reset");
    });
    for (int i = 0; i < 4; i++) {
      bucket.readings.add((s, k) -> {
        throw new IOException("reset");
      });
    }
    write();
    assertEquals(1, puts());
    assertEquals(4, pauses.size());
  }

  @Test
  void half_of_our_object_is_neither_ours_nor_theirs() throws IOException {
    bucket.answers.add((s, k, body) -> {
      landed(s, k, body);
      throw new IOException("reset");
    });
    bucket.readings.add((s, k) -> Arrays.copyOf(s.object(k), OURS.length / 2));
    bucket.readings.add((s, k) -> new byte[0]);
    write();
    assertEquals(2, pauses.size());
  }

  @Test
  void at_the_deadline_nothing_is_claimed() {
    conf.set(S3ConditionalLogStore.TIMEOUT, "30s");
    for (int i = 0; i < 1_000; i++) {
      bucket.answers.add((s, k, body) -> {
        throw new IOException("503 of the PUT");
      });
      bucket.readings.add((s, k) -> {
        throw new IOException("503 of the GET");
      });
    }
    IOException e = assertThrows(IOException.class, this::write);
    assertFalse(e instanceof FileAlreadyExistsException);
    for (String word : Arrays.asList(version.toString(), "may exist", TXN, S3ConditionalLogStore.TIMEOUT, "30000 ms")) {
      assertTrue(e.getMessage().contains(word), e.getMessage());
    }
    assertEquals("503 of the PUT", e.getCause().getMessage());
    assertEquals("503 of the GET", e.getSuppressed()[0].getMessage());
    long waited = pauses.stream().mapToLong(Long::longValue).sum();
    assertTrue(waited > 20_000 && waited <= 30_000, "waited " + waited);
    assertTrue(pauses.stream().allMatch(p -> p >= 1 && p <= 5_000), pauses.toString());
  }

  @Test
  void absent_until_the_deadline_is_no_proof_of_absence() {
    for (int i = 0; i < 1_000; i++) {
      bucket.answers.add((s, k, body) -> {
        throw new IOException("503");
      });
    }
    IOException e = assertThrows(IOException.class, this::write);
    assertTrue(e.getMessage().contains("may exist"), e.getMessage());
    assertTrue(puts() > 10);
  }

  @Test
  void a_request_that_took_all_the_time_there_is_is_still_read_back() throws IOException {
    bucket.answers.add((s, k, body) -> {
      landed(s, k, body);
      nowMs.addAndGet(3_600_000);
      throw new SocketTimeoutException("an hour");
    });
    write();
  }

  // ------------------------------------------------------------ no matter of patience

  @Test
  void a_refusal_of_rights_is_an_error_at_once() {
    AccessDeniedException denied = new AccessDeniedException(key, null, "403");
    bucket.answers.add((s, k, body) -> {
      throw denied;
    });
    assertSame(denied, assertThrows(AccessDeniedException.class, this::write));
    assertEquals(1, puts());
  }

  @Test
  void a_refusal_of_rights_after_an_unclear_answer_says_that_the_version_may_exist() {
    bucket.answers.add((s, k, body) -> {
      throw new IOException("reset");
    });
    bucket.answers.add((s, k, body) -> {
      throw new AccessDeniedException(k, null, "the credentials have expired");
    });
    IOException e = assertThrows(IOException.class, this::write);
    assertTrue(e.getMessage().contains("may exist"), e.getMessage());
    assertInstanceOf(AccessDeniedException.class, e.getCause());
    assertEquals(2, puts());
  }

  @Test
  void credentials_that_expire_between_the_landing_and_the_repeat_lose_nothing() throws IOException {
    bucket.answers.add((s, k, body) -> {
      landed(s, k, body);
      throw new AccessDeniedException(k, null, "the credentials have expired");
    });
    write();
  }

  @Test
  void an_upload_that_fails_while_it_is_buffered_publishes_nothing() {
    bucket.requests.clear();
    RefusalTest.pass(store, bucket, log, conf);
    bucket.diskIsFull = true;
    assertThrows(RuntimeException.class, this::write);
    assertFalse(bucket.objects.containsKey(key));
  }

  @Test
  void an_interrupt_is_answered_by_what_is_in_the_log() throws IOException {
    bucket.answers.add((s, k, body) -> {
      landed(s, k, body);
      Thread.currentThread().interrupt();
      throw new InterruptedIOException("interrupted");
    });
    bucket.readings.add((s, k) -> {
      assertFalse(Thread.currentThread().isInterrupted(), "the read would fail by it");
      return s.object(k);
    });
    write();
    assertTrue(Thread.interrupted(), "the caller is to see it");
  }

  @Test
  void an_interrupt_ends_the_waiting_and_claims_nothing() {
    bucket.answers.add((s, k, body) -> {
      throw new InterruptedIOException("interrupted");
    });
    InterruptedIOException e = assertThrows(InterruptedIOException.class, this::write);
    assertTrue(e.getMessage().contains("may exist"), e.getMessage());
    assertTrue(Thread.interrupted());
    assertEquals(1, puts());
  }

  // ------------------------------------------------------------ a log that is gone

  @Test
  void nothing_is_sent_again_into_a_log_that_was_dropped_meanwhile() {
    bucket.answers.add((s, k, body) -> {
      bucket.objects.clear();
      throw new IOException("503");
    });
    IOException e = assertThrows(IOException.class, this::write);
    assertTrue(e.getMessage().contains("the version before " + version), e.getMessage());
    assertEquals(1, puts());
    assertFalse(bucket.objects.containsKey(key));
  }

  @Test
  void a_slow_success_counts_only_on_top_of_the_version_before() {
    bucket.answers.add((s, k, body) -> {
      nowMs.addAndGet(S3ConditionalLogStore.SLOW_MS + 1);
      bucket.objects.clear();
      landed(s, k, body);
    });
    IOException e = assertThrows(IOException.class, this::write);
    assertTrue(e.getMessage().contains("may exist"), e.getMessage());
  }

  @Test
  void a_slow_success_on_top_of_it_counts() throws IOException {
    bucket.answers.add((s, k, body) -> {
      nowMs.addAndGet(S3ConditionalLogStore.SLOW_MS + 1);
      landed(s, k, body);
    });
    write();
  }

  @Test
  void version_0_and_other_files_have_none_before_them() throws IOException {
    for (String file : Arrays.asList("00000000000000000000.json", "00000000000000000009.crc", "_staged_commits/00000000000000000009.x.json")) {
      bucket.answers.add((s, k, body) -> {
        throw new IOException("503");
      });
      store.write(new Path(log, file), ACTIONS.iterator(), false, conf);
      assertArrayEquals(OURS, bucket.objects.get(new Path(log, file).toUri().getPath()));
    }
  }

  // ------------------------------------------------------------ the rest of the interface

  @Test
  void a_commit_too_large_for_one_request_by_the_settings_is_still_one_request() throws IOException {
    conf.set("fs.s3a.multipart.size", "5M");
    String large = String.join("", Collections.nCopies(6 << 20, "x"));
    store.write(version, Collections.singletonList(large).iterator(), false, conf);
    assertEquals((6 << 20) + 1, bucket.objects.get(key).length);
    assertEquals("false", bucket.lastUsed.get("fs.s3a.multipart.uploads.enabled"));
    assertEquals("false", bucket.lastUsed.get("fs.s3a.bucket." + name + ".multipart.uploads.enabled"));
    assertNull(conf.get("fs.s3a.multipart.uploads.enabled"));
  }

  @Test
  void what_may_replace_a_file_is_written_plainly() throws IOException {
    Path hint = new Path(log, "_last_checkpoint");
    for (String text : Arrays.asList("{\"version\":1}", "{\"version\":2}")) {
      store.write(hint, Collections.singletonList(text).iterator(), true, conf);
    }
    assertArrayEquals(bytes("{\"version\":2}\n"), bucket.objects.get(hint.toUri().getPath()));
    assertEquals(2, bucket.requests.stream().filter(("PUT " + hint.toUri().getPath())::equals).count());
    assertTrue(bucket.requests.stream().noneMatch(r -> r.startsWith("PUT if absent")), "no probe is needed for it");
  }

  @Test
  void files_are_listed_from_the_one_that_is_named() throws IOException {
    bucket.objects.clear();
    for (int i = 0; i < 12; i++) {
      bucket.objects.put(new Path(log, String.format("%020d.json", i)).toUri().getPath(), bytes("{}"));
    }
    // the second store asks for a listing that only S3A has
    Configuration fast = new Configuration(conf);
    fast.setBoolean("delta.enableFastS3AListFrom", true);
    for (S3ConditionalLogStore each : Arrays.asList(store, new S3ConditionalLogStore(fast))) {
      List<String> names = new ArrayList<>();
      Iterator<FileStatus> found = each.listFrom(new Path(log, "00000000000000000009."), conf);
      found.forEachRemaining(f -> names.add(f.getPath().getName()));
      assertEquals(Arrays.asList(9, 10, 11).stream().map(i -> String.format("%020d.json", i)).collect(Collectors.toList()), names);
      assertThrows(FileNotFoundException.class, () -> each.listFrom(new Path("fake://" + name + "/none/_delta_log/x"), conf));
    }
    assertFalse(store.isPartialWriteVisible(version, conf));
  }

  @Test
  void of_many_threads_one_creates_a_version() throws Exception {
    S3ConditionalLogStore real = new S3ConditionalLogStore(conf);
    List<Thread> threads = new ArrayList<>();
    List<String> winners = Collections.synchronizedList(new ArrayList<>());
    List<Throwable> others = Collections.synchronizedList(new ArrayList<>());
    for (int i = 0; i < 16; i++) {
      String me = "{\"commitInfo\":{\"txnId\":\"" + i + "\"}}";
      Thread thread = new Thread(() -> {
        try {
          real.write(version, Collections.singletonList(me).iterator(), false, conf);
          winners.add(me + "\n");
        } catch (Throwable e) {
          others.add(e);
        }
      });
      threads.add(thread);
      thread.start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    assertEquals(1, winners.size());
    assertArrayEquals(bytes(winners.get(0)), bucket.objects.get(key));
    assertTrue(others.stream().allMatch(FileAlreadyExistsException.class::isInstance), others.toString());
    assertEquals(15, others.size());
    assertInstanceOf(RemoteFileChangedException.class, new RemoteFileChangedException("a", "b", "c"));
  }
}
