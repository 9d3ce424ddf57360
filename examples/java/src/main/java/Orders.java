import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** `write BOOTSTRAP SECONDS`: ten orders a second. `read BOOTSTRAP SECONDS`: a member of a group. */
public final class Orders {
  public static void main(String[] arguments) throws Exception {
    String bootstrap = arguments[1];
    if (arguments[0].equals("write")) {
      write(bootstrap, Integer.parseInt(arguments[2]));
    } else {
      read(bootstrap, Integer.parseInt(arguments[2]));
    }
  }

  private static void write(String bootstrap, int seconds) throws Exception {
    Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "acks", "all");
    try (var producer =
        new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
      for (int number = 0; number < seconds * 10; number++) {
        String order = "order " + number;
        producer.send(
            new ProducerRecord<>("orders", order, order),
            (at, failed) -> {
              if (failed != null) {
                System.out.println(order + ": " + failed);
              }
            });
        Thread.sleep(100);
      }
    }
    System.out.println("sent: " + seconds * 10);
  }

  private static void read(String bootstrap, int seconds) {
    Map<String, Object> settings =
        Map.of(
            "bootstrap.servers", bootstrap,
            "group.id", "billing",
            "auto.offset.reset", "earliest",
            "enable.auto.commit", "false");
    int read = 0;
    long end = System.nanoTime() + seconds * 1_000_000_000L;
    try (var consumer =
        new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
      consumer.subscribe(List.of("orders"));
      while (System.nanoTime() < end) {
        var records = consumer.poll(Duration.ofMillis(200));
        if (!records.isEmpty()) {
          read += records.count();
          consumer.commitSync();
          System.out.println("read and committed: " + read + " of " + consumer.assignment());
        }
      }
    }
  }
}
