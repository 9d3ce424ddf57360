import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Opens consumers that begin to catch up and are closed at once: BOOTSTRAP TOPIC PARTITIONS COUNT. */
public class CatchUpAndLeave {
    public static void main(String[] arguments) {
        List<TopicPartition> partitions =
                IntStream.range(0, Integer.parseInt(arguments[2]))
                        .mapToObj(number -> new TopicPartition(arguments[1], number))
                        .toList();
        Random random = new Random();
        for (int count = Integer.parseInt(arguments[3]); count > 0; count--) {
            KafkaConsumer<byte[], byte[]> consumer =
                    new KafkaConsumer<>(
                            Map.of("bootstrap.servers", arguments[0], "enable.auto.commit", "false"),
                            new ByteArrayDeserializer(),
                            new ByteArrayDeserializer());
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            for (int polls = 1 + random.nextInt(4); polls > 0; polls--) {
                consumer.poll(Duration.ofMillis(random.nextInt(60)));
            }
            consumer.close(Duration.ZERO);
        }
    }
}
