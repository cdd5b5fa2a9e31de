package dev.deltaload;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.NavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Abortable;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;
import org.apache.hadoop.util.Progressable;

/** An object store in memory behind Hadoop's interface, as S3A shows one: an object appears when its stream is closed. */
public class FakeStore extends FileSystem {

  /** One PUT under the condition; a script of them says how the store answers. */
  interface Answer {
    void to(FakeStore store, String key, byte[] body) throws IOException;
  }

  /** One GET. */
  interface Reading {
    byte[] of(FakeStore store, String key) throws IOException;
  }

  // What Hadoop makes of a URI is one instance per configuration, what they see is one store: state is by bucket.
  static final class Bucket {
    final NavigableMap<String, byte[]> objects = new ConcurrentSkipListMap<>();
    final Deque<Answer> answers = new ArrayDeque<>();
    final Deque<Reading> readings = new ArrayDeque<>();
    final List<String> requests = new ArrayList<>();
    boolean knowsTheCondition = true;
    boolean ignoresTheCondition;
    boolean diskIsFull;
    Configuration lastUsed;
  }

  static final NavigableMap<String, Bucket> BUCKETS = new ConcurrentSkipListMap<>();

  /** What every conditional PUT of a probe in that bucket ends with. */
  static final NavigableMap<String, IOException> brokenProbes = new ConcurrentSkipListMap<>();

  /** How many second PUTs of probes in that bucket end without an answer. */
  static final NavigableMap<String, Integer> lostProbeAnswers = new ConcurrentSkipListMap<>();

  private URI uri;
  private Bucket bucket;

  static Bucket bucket(String name) {
    return BUCKETS.computeIfAbsent(name, n -> new Bucket());
  }

  static Configuration conf() {
    Configuration conf = new Configuration(false);
    conf.set("fs.fake.impl", FakeStore.class.getName());
    return conf;
  }

  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    super.initialize(name, conf);
    uri = URI.create(name.getScheme() + "://" + name.getAuthority());
    bucket = bucket(name.getAuthority());
  }

  @Override
  public String getScheme() {
    return "fake";
  }

  @Override
  public URI getUri() {
    return uri;
  }

  private static String key(Path path) {
    return path.toUri().getPath();
  }

  /** The PUT as the store decides it. */
  void decide(String key, byte[] body) throws IOException {
    if (!bucket.ignoresTheCondition) {
      if (bucket.objects.putIfAbsent(key, body) != null) {
        throw new RemoteFileChangedException(key, "Writing Object", "At least one of the pre-conditions you specified did not hold (412)");
      }
      return;
    }
    bucket.objects.put(key, body);
  }

  @Override
  public boolean hasPathCapability(Path path, String capability) throws IOException {
    return capability.equals(ConditionalCreate.CONDITION) ? bucket.knowsTheCondition : super.hasPathCapability(path, capability);
  }

  @Override
  public FSDataOutputStreamBuilder<FSDataOutputStream, ?> createFile(Path path) {
    return new Builder(this, path).create().overwrite(true);
  }

  private static final class Builder extends FSDataOutputStreamBuilder<FSDataOutputStream, Builder> {
    private final FakeStore store;

    Builder(FakeStore store, Path path) {
      super(store, path);
      this.store = store;
    }

    @Override
    public Builder getThisBuilder() {
      return this;
    }

    @Override
    public FSDataOutputStream build() throws IOException {
      rejectUnknownMandatoryKeys(java.util.Collections.singleton(ConditionalCreate.CONDITION), "for " + getPath());
      return store.stream(key(getPath()), getOptions().getBoolean(ConditionalCreate.CONDITION, false));
    }
  }

  private FSDataOutputStream stream(String key, boolean conditional) {
    return new FSDataOutputStream(new Upload(key, conditional), null);
  }

  private final class Upload extends ByteArrayOutputStream implements Abortable {
    private final String key;
    private final boolean conditional;
    private boolean done;

    Upload(String key, boolean conditional) {
      this.key = key;
      this.conditional = conditional;
    }

    @Override
    public synchronized void write(byte[] b, int off, int len) {
      if (bucket.diskIsFull) {
        super.write(b, off, len / 2);
        throw new java.io.UncheckedIOException(new IOException("no space left on the device that buffers uploads"));
      }
      super.write(b, off, len);
    }

    @Override
    public AbortableResult abort() {
      done = true;
      return null;
    }

    @Override
    public void close() throws IOException {
      if (done) {
        return;
      }
      done = true;
      bucket.requests.add((conditional ? "PUT if absent " : "PUT ") + key);
      bucket.lastUsed = getConf();
      if (!conditional) {
        bucket.objects.put(key, toByteArray());
        return;
      }
      Answer answer = key.contains("/_probe/") ? probeAnswer(key) : bucket.answers.poll();
      if (answer == null) {
        decide(key, toByteArray());
      } else {
        answer.to(FakeStore.this, key, toByteArray());
      }
    }
  }

  private Answer probeAnswer(String key) {
    String name = uri.getAuthority();
    if (brokenProbes.containsKey(name)) {
      return (store, k, body) -> {
        throw brokenProbes.get(name);
      };
    }
    int lost = lostProbeAnswers.getOrDefault(name, 0);
    if (bucket.objects.containsKey(key) && lost > 0) {
      lostProbeAnswers.put(name, lost - 1);
      return (store, k, body) -> {
        throw new IOException("reset");
      };
    }
    return null;
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    bucket.requests.add("GET " + key(path));
    Reading reading = bucket.readings.poll();
    byte[] body = reading == null ? bucket.objects.get(key(path)) : reading.of(this, key(path));
    if (body == null) {
      throw new FileNotFoundException(path.toString());
    }
    return new FSDataInputStream(new Download(body));
  }

  byte[] object(String key) {
    return bucket.objects.get(key);
  }

  private static final class Download extends FSInputStream {
    private final ByteArrayInputStream in;
    private final int length;

    Download(byte[] body) {
      in = new ByteArrayInputStream(body);
      length = body.length;
    }

    @Override
    public int read() {
      return in.read();
    }

    @Override
    public int read(byte[] b, int off, int len) {
      return in.read(b, off, Math.min(len, 7)); // as networks do: less than was asked for
    }

    @Override
    public void seek(long at) throws IOException {
      in.reset();
      if (in.skip(at) != at) {
        throw new EOFException();
      }
    }

    @Override
    public long getPos() {
      return length - in.available();
    }

    @Override
    public boolean seekToNewSource(long target) {
      return false;
    }
  }

  @Override
  public FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication,
      long blockSize, Progressable progress) {
    return stream(key(path), false);
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) {
    throw new UnsupportedOperationException("append");
  }

  @Override
  public boolean rename(Path from, Path to) {
    throw new UnsupportedOperationException("rename");
  }

  @Override
  public boolean delete(Path path, boolean recursive) {
    return bucket.objects.remove(key(path)) != null;
  }

  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    String prefix = key(path) + "/";
    List<FileStatus> found = new ArrayList<>();
    for (String key : bucket.objects.tailMap(prefix).keySet()) {
      if (!key.startsWith(prefix)) {
        break;
      }
      if (key.indexOf('/', prefix.length()) < 0) {
        found.add(getFileStatus(new Path(key)));
      }
    }
    if (found.isEmpty()) {
      throw new FileNotFoundException(path.toString());
    }
    return found.toArray(new FileStatus[0]);
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    byte[] body = bucket.objects.get(key(path));
    Path qualified = path.makeQualified(uri, getWorkingDirectory());
    if (body != null) {
      return new FileStatus(body.length, false, 1, 1, 0, qualified);
    }
    String below = bucket.objects.ceilingKey(key(path) + "/");
    if (below != null && below.startsWith(key(path) + "/")) {
      return new FileStatus(0, true, 1, 1, 0, qualified);
    }
    throw new FileNotFoundException(path.toString());
  }

  @Override
  public void setWorkingDirectory(Path path) {}

  @Override
  public Path getWorkingDirectory() {
    return new Path(uri + "/");
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) {
    return true;
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
