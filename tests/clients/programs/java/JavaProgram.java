// Apache Kafka's Java client: one source for every version, with what all of them have.

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public final class JavaProgram {
  private static final int RECORDS = 40;
  private static final int PACE_MS = 25;
  private static final int ATTEMPTS = 100;
  private static final int ATTEMPTS_PAUSE_MS = 200;
  private static String bootstrap;
  private static String topic;
  private static String group;
  private static long sinceMs;

  public static void main(String[] arguments) throws Exception {
    bootstrap = arguments[1];
    topic = arguments[2];
    group = arguments[3];
    sinceMs = Long.parseLong(arguments[4]);
    switch (arguments[0]) {
      case "produce" -> produce();
      case "idempotent" -> idempotent();
      case "assign" -> assign();
      case "group" -> group();
      case "seek" -> seek();
      case "admin" -> admin();
      case "transactional" -> transactional();
      case "newer_group" -> newerGroup();
      default -> throw new IllegalArgumentException(arguments[0]);
    }
  }

  private static void tell(String facts) {
    System.out.println("{" + facts + "}");
    System.out.flush();
  }

  private static void half() throws IOException {
    tell("\"at\": \"half\"");
    System.in.read();
  }

  private static KafkaProducer<String, String> producer(String... settings) {
    Properties properties = new Properties();
    properties.put("bootstrap.servers", bootstrap);
    for (int index = 0; index < settings.length; index += 2) {
      properties.put(settings[index], settings[index + 1]);
    }
    return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
  }

  private static KafkaConsumer<String, String> consumer(String... settings) {
    Properties properties = new Properties();
    properties.put("bootstrap.servers", bootstrap);
    properties.put("group.id", group);
    properties.put("auto.offset.reset", "earliest");
    for (int index = 0; index < settings.length; index += 2) {
      properties.put(settings[index], settings[index + 1]);
    }
    return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
  }

  private static void produce() throws Exception {
    for (int turn = 0; turn < 2; turn++) {
      for (String acks : List.of("0", "1", "all")) {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
          String value = acks + " " + codec + " " + turn + " padding".repeat(40);
          try (var producer =
              producer("acks", acks, "compression.type", codec, "enable.idempotence", "false")) {
            producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
          }
          tell("\"acks\": \"%s\", \"codec\": \"%s\", \"value\": \"%s\"".formatted(acks, codec, value));
        }
      }
      if (turn == 0) {
        half();
      }
    }
  }

  private static void idempotent() throws Exception {
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    try (var producer = producer("enable.idempotence", "true", "acks", "all")) {
      for (int number = 0; number < 2 * RECORDS; number++) {
        sent.add(producer.send(new ProducerRecord<>(topic, 0, null, "" + number)));
        if (number == RECORDS - 1) {
          producer.flush();
          half();
        } else if (number >= RECORDS) {
          Thread.sleep(PACE_MS);
        }
      }
    }
    for (int number = 0; number < sent.size(); number++) {
      try {
        sent.get(number).get();
        tell("\"sent\": \"" + number + "\"");
      } catch (ExecutionException failed) {
        tell("\"failed\": \"" + failed.getCause().getClass().getName() + "\"");
      }
    }
  }

  private static void read(KafkaConsumer<String, String> consumer) throws IOException {
    int holds = 0;
    while (System.in.available() == 0) {
      for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
        tell("\"read\": \"" + record.value() + "\"");
      }
      if (consumer.assignment().size() != holds) {
        holds = consumer.assignment().size();
        tell("\"holds\": " + holds);
      }
    }
    consumer.close();
  }

  private static void assign() throws IOException {
    TopicPartition partition = new TopicPartition(topic, 0);
    KafkaConsumer<String, String> consumer = consumer();
    consumer.assign(List.of(partition));
    consumer.seek(partition, 0);
    read(consumer);
  }

  private static void group() throws IOException {
    KafkaConsumer<String, String> consumer = consumer();
    consumer.subscribe(List.of(topic));
    read(consumer);
  }

  private static void seek() throws IOException {
    TopicPartition partition = new TopicPartition(topic, 0);
    try (KafkaConsumer<String, String> consumer = consumer()) {
      consumer.assign(List.of(partition));
      for (long second : List.of(10L, 15L)) {
        OffsetAndTimestamp found =
            consumer.offsetsForTimes(Map.of(partition, sinceMs + second * 1_000)).get(partition);
        consumer.seek(partition, found.offset());
        var records = consumer.poll(Duration.ofSeconds(1));
        while (records.isEmpty()) {
          records = consumer.poll(Duration.ofSeconds(1));
        }
        tell(
            "\"asked\": %d, \"offset\": %d, \"value\": \"%s\""
                .formatted(second, found.offset(), records.iterator().next().value()));
        if (second == 10) {
          half();
        }
      }
    }
  }

  /** Returns the answer once it is the wanted one: one broker hears of a change after another. */
  private static <T> T onceAllKnow(T wanted, Callable<T> ask) throws Exception {
    T answer = ask.call();
    for (int attempt = 1; !answer.equals(wanted) && attempt < ATTEMPTS; attempt++) {
      Thread.sleep(ATTEMPTS_PAUSE_MS);
      answer = ask.call();
    }
    return answer;
  }

  private static int partitions(String name) {
    try (var producer = producer()) {
      return producer.partitionsFor(name).size();
    }
  }

  private static void admin() throws Exception {
    String made = topic + "-made";
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
      NewTopic asked = new NewTopic(made, 3, (short) 2).configs(Map.of("retention.ms", "60000"));
      admin.createTopics(List.of(asked)).all().get();
      tell("\"partitions\": " + onceAllKnow(3, () -> partitions(made)));
      half();
      ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, made);
      var configs = admin.describeConfigs(List.of(resource)).all().get().get(resource);
      tell("\"retention_ms\": \"" + configs.get("retention.ms").value() + "\"");
      admin.createPartitions(Map.of(made, NewPartitions.increaseTo(4))).all().get();
      tell("\"partitions\": " + onceAllKnow(4, () -> partitions(made)));
      admin.deleteTopics(List.of(made)).all().get();
      boolean isThere =
          onceAllKnow(false, () -> admin.listTopics().names().get().contains(made));
      tell("\"is_there\": " + isThere);
    }
  }

  private static void transactional() {
    try (var producer = producer("transactional.id", group)) {
      producer.initTransactions();
    } catch (KafkaException refused) {
      tell("\"refused\": \"" + refused.getClass().getName() + "\"");
    }
  }

  /** Polls for ten seconds and no longer: a consumer that is not refused would poll for ever. */
  private static void newerGroup() {
    try (var consumer = consumer("group.protocol", "consumer")) {
      consumer.subscribe(List.of(topic));
      for (int poll = 0; poll < 100; poll++) {
        consumer.poll(Duration.ofMillis(100));
      }
    } catch (KafkaException refused) {
      tell("\"refused\": \"" + refused.getClass().getName() + "\"");
    }
  }
}
