package dev.deltaload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.delta.kernel.Operation;
import io.delta.kernel.Table;
import io.delta.kernel.Transaction;
import io.delta.kernel.TransactionCommitResult;
import io.delta.kernel.defaults.engine.DefaultEngine;
import io.delta.kernel.engine.Engine;
import io.delta.kernel.types.LongType;
import io.delta.kernel.types.StructType;
import io.delta.kernel.utils.CloseableIterable;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Delta's Java Kernel, its default engine, with this log store by the Kernel's own setting. */
@Timeout(120)
class KernelTest {

  private final String name = "b" + UUID.randomUUID();
  private final FakeStore.Bucket bucket = FakeStore.bucket(name);
  private final String table = "fake://" + name + "/lake/t";
  private final Configuration conf = FakeStore.conf();

  @BeforeEach
  void logStore() {
    conf.set("io.delta.kernel.logStore.fake.impl", S3ConditionalLogStore.class.getName());
  }

  private Transaction create(Engine engine) {
    return Table.forPath(engine, table).createTransactionBuilder(engine, "test", Operation.CREATE_TABLE)
        .withSchema(engine, new StructType().add("id", LongType.LONG)).build(engine);
  }

  private Transaction write(Engine engine, String application, long version) {
    return Table.forPath(engine, table).createTransactionBuilder(engine, "test", Operation.WRITE)
        .withTransactionId(engine, application, version).build(engine);
  }

  private static TransactionCommitResult commit(Transaction transaction, Engine engine) {
    return transaction.commit(engine, CloseableIterable.emptyIterable());
  }

  private String version(long version) {
    byte[] body = bucket.objects.get(String.format("/lake/t/_delta_log/%020d.json", version));
    return body == null ? null : new String(body, StandardCharsets.UTF_8);
  }

  @Test
  void a_commit_is_a_conditional_put() {
    Engine engine = DefaultEngine.create(conf);
    assertEquals(0, commit(create(engine), engine).getVersion());
    assertTrue(bucket.requests.contains("PUT if absent /lake/t/_delta_log/00000000000000000000.json"), bucket.requests.toString());
    assertFalse(bucket.requests.contains("PUT /lake/t/_delta_log/00000000000000000000.json"), bucket.requests.toString());
  }

  @Test
  void an_answer_lost_after_the_landing_is_one_commit() {
    Engine engine = DefaultEngine.create(conf);
    commit(create(engine), engine);
    bucket.answers.add((store, key, body) -> {
      store.decide(key, body);
      throw new IOException("reset");
    });
    assertEquals(1, commit(write(engine, "app", 1), engine).getVersion());
    assertTrue(version(1).contains("\"app\""));
    assertEquals(null, version(2));
  }

  @Test
  void transactions_side_by_side_each_get_a_version() throws Exception {
    Engine engine = DefaultEngine.create(conf);
    commit(create(engine), engine);
    int writers = 8;
    List<Transaction> transactions = new ArrayList<>();
    for (int i = 0; i < writers; i++) {
      transactions.add(write(engine, "app" + i, 1));
    }
    ExecutorService pool = Executors.newFixedThreadPool(writers);
    try {
      List<Future<Long>> versions = new ArrayList<>();
      for (Transaction transaction : transactions) {
        versions.add(pool.submit(() -> commit(transaction, engine).getVersion()));
      }
      for (int i = 0; i < writers; i++) {
        assertTrue(version(versions.get(i).get()).contains("\"app" + i + "\""));
      }
    } finally {
      pool.shutdownNow();
    }
    assertEquals(null, version(writers + 1));
  }
}
