package dev.deltaload;

import static dev.deltaload.FakeStore.bytes;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What is refused before a commit could overwrite another writer's. */
@Timeout(60)
class RefusalTest {

  private final String name = "b" + UUID.randomUUID();
  private final FakeStore.Bucket bucket = FakeStore.bucket(name);
  private final Configuration conf = FakeStore.conf();
  private final Path log = new Path("fake://" + name + "/lake/t/_delta_log");
  private final Path version = new Path(log, "00000000000000000000.json");
  private final AtomicLong nowMs = new AtomicLong();
  private final S3ConditionalLogStore store = new S3ConditionalLogStore(conf) {
    @Override
    long nanoTime() {
      return nowMs.incrementAndGet() * 1_000_000;
    }

    @Override
    void pause(long ms) {
      nowMs.addAndGet(ms);
    }
  };

  /** Has the bucket pass its probe. */
  static void pass(S3ConditionalLogStore store, FakeStore.Bucket bucket, Path log, Configuration conf) {
    try {
      store.write(new Path(log, "first"), Collections.<String>emptyIterator(), false, conf);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    bucket.requests.clear();
  }

  private void write() throws IOException {
    store.write(version, Collections.singletonList("{}").iterator(), false, conf);
  }

  @Test
  void a_store_is_probed_once_below_the_table_and_tidied_up() throws IOException {
    write();
    store.write(new Path(log, "00000000000000000001.json"), Collections.singletonList("{}").iterator(), false, conf);
    store.write(new Path("fake://" + name + "/other/_delta_log/00000000000000000000.json"), Collections.singletonList("{}").iterator(), false, conf);
    List<String> probes = new ArrayList<>(bucket.requests);
    probes.removeIf(r -> !r.startsWith("PUT if absent /lake/t/_delta_load/_probe/"));
    assertEquals(2, probes.size(), bucket.requests.toString());
    assertEquals(probes.get(0), probes.get(1));
    assertEquals(5, bucket.requests.size());
    assertEquals(3, bucket.objects.size(), bucket.objects.keySet().toString());
  }

  @Test
  void a_store_that_takes_the_second_put_is_refused_each_time_and_nothing_is_committed() {
    bucket.ignoresTheCondition = true;
    for (int i = 0; i < 2; i++) {
      UnsupportedOperationException e = assertThrows(UnsupportedOperationException.class, this::write);
      assertTrue(e.getMessage().contains("fake://" + name) && e.getMessage().contains("ignores the condition"), e.getMessage());
    }
    assertTrue(bucket.objects.isEmpty(), bucket.objects.keySet().toString());
  }

  @Test
  void a_hadoop_that_does_not_send_the_condition_is_refused_and_nothing_is_sent() {
    bucket.knowsTheCondition = false;
    UnsupportedOperationException e = assertThrows(UnsupportedOperationException.class, this::write);
    for (String word : new String[] {version.toString(), "3.4.2", "fs.s3a.create.conditional.enabled", FakeStore.class.getName()}) {
      assertTrue(e.getMessage().contains(word), e.getMessage());
    }
    assertTrue(bucket.requests.isEmpty(), bucket.requests.toString());
  }

  @Test
  void a_version_of_hadoop_without_the_option_is_refused_at_the_start() throws Exception {
    // a class path without the marker class of the option, and without hadoop-aws: an old one lacks classes that a new one has
    List<URL> urls = new ArrayList<>();
    for (String part : System.getProperty("java.class.path").split(File.pathSeparator)) {
      urls.add(new File(part).toURI().toURL());
    }
    try (URLClassLoader old = new URLClassLoader(urls.toArray(new URL[0]), ClassLoader.getPlatformClassLoader()) {
      @Override
      protected Class<?> findClass(String className) throws ClassNotFoundException {
        if (className.equals("org.apache.hadoop.fs.Options$CreateFileOptionKeys") || className.startsWith("org.apache.hadoop.fs.s3a.")) {
          throw new ClassNotFoundException(className);
        }
        return super.findClass(className);
      }
    }) {
      Class<?> configuration = old.loadClass(Configuration.class.getName());
      Class<?> logStore = old.loadClass(S3ConditionalLogStore.class.getName());
      Object empty = configuration.getConstructor(boolean.class).newInstance(false);
      Throwable e = assertThrows(java.lang.reflect.InvocationTargetException.class,
          () -> logStore.getConstructor(configuration).newInstance(empty)).getCause();
      assertEquals(UnsupportedOperationException.class, e.getClass());
      assertTrue(e.getMessage().contains("needs Hadoop 3.4.2 or later"), e.getMessage());
    }
  }

  @Test
  void a_probe_without_a_clear_answer_commits_nothing() {
    FakeStore.Bucket broken = bucket;
    FakeStore.brokenProbes.put(name, new IOException("503"));
    try {
      IOException e = assertThrows(IOException.class, this::write);
      assertTrue(e.getMessage().contains("nothing was committed"), e.getMessage());
      assertFalse(broken.objects.containsKey(version.toUri().getPath()));
      AccessDeniedException denied = new AccessDeniedException("x", null, "403");
      FakeStore.brokenProbes.put(name, denied);
      assertThrows(AccessDeniedException.class, this::write);
    } finally {
      FakeStore.brokenProbes.remove(name);
    }
  }

  @Test
  void a_probe_that_is_unclear_once_is_made_again() throws IOException {
    FakeStore.lostProbeAnswers.put(name, 2);
    write();
    assertArrayEquals(bytes("{}\n"), bucket.objects.get(version.toUri().getPath()));
  }

  @Test
  void the_jar_holds_this_package_alone() throws Exception {
    File classes = new File(S3ConditionalLogStore.class.getProtectionDomain().getCodeSource().getLocation().toURI());
    try (java.util.stream.Stream<java.nio.file.Path> files = Files.walk(classes.toPath())) {
      assertTrue(files.filter(Files::isRegularFile).allMatch(f -> classes.toPath().relativize(f).startsWith("dev/deltaload")));
    }
  }
}
