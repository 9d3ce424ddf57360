// Sarama.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"

	. "stockclients/lines"
)

func configured(change func(*sarama.Config)) *sarama.Config {
	config := sarama.NewConfig()
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	change(config)
	return config
}

func plain(*sarama.Config) {}

func message(at At, value string) *sarama.ProducerMessage {
	return &sarama.ProducerMessage{Topic: at.Topic, Value: sarama.StringEncoder(value)}
}

func produce(at At) {
	acks := []struct {
		name string
		acks sarama.RequiredAcks
	}{{"0", sarama.NoResponse}, {"1", sarama.WaitForLocal}, {"all", sarama.WaitForAll}}
	codecs := []sarama.CompressionCodec{
		sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy,
		sarama.CompressionLZ4, sarama.CompressionZSTD,
	}
	for turn := range 2 {
		for _, ack := range acks {
			for _, codec := range codecs {
				producer, err := sarama.NewSyncProducer(at.Brokers, configured(func(c *sarama.Config) {
					c.Producer.RequiredAcks = ack.acks
					c.Producer.Compression = codec
					c.Producer.Retry.Max = 100
				}))
				Must(err)
				value := fmt.Sprintf("%s %s %d%s", ack.name, codec, turn, Padding)
				_, _, err = producer.SendMessage(message(at, value))
				Must(err)
				Tell(Facts{"acks": ack.name, "codec": codec.String(), "value": value})
				Must(producer.Close())
			}
		}
		if turn == 0 {
			Half()
		}
	}
}

// Three retries of 100 ms, the default, end before another broker leads.
func idempotent(at At) {
	producer, err := sarama.NewAsyncProducer(at.Brokers, configured(func(c *sarama.Config) {
		c.Producer.Idempotent = true
		c.Producer.RequiredAcks = sarama.WaitForAll
		c.Producer.Retry.Max = 100
		c.Net.MaxOpenRequests = 1
	}))
	Must(err)
	told := make(chan bool, 2*Records)
	go func() {
		for sent := range producer.Successes() {
			value, _ := sent.Value.Encode()
			Tell(Facts{"sent": string(value)})
			told <- true
		}
	}()
	go func() {
		for failed := range producer.Errors() {
			Tell(Facts{"failed": failed.Error()})
			told <- true
		}
	}()
	for number := range 2 * Records {
		producer.Input() <- message(at, fmt.Sprint(number))
		if number >= Records {
			time.Sleep(Pace)
		}
		if number == Records-1 || number == 2*Records-1 {
			for range Records {
				<-told
			}
		}
		if number == Records-1 {
			Half()
		}
	}
	Must(producer.Close())
}

func assign(at At) {
	consumer, err := sarama.NewConsumer(at.Brokers, configured(plain))
	Must(err)
	partition, err := consumer.ConsumePartition(at.Topic, 0, 0)
	Must(err)
	go func() {
		for record := range partition.Messages() {
			Tell(Facts{"read": string(record.Value)})
		}
	}()
	Spoken()
	Must(partition.Close())
	Must(consumer.Close())
}

type member struct{ topic string }

func (m member) Setup(session sarama.ConsumerGroupSession) error {
	Tell(Facts{"holds": len(session.Claims()[m.topic])})
	return nil
}

func (m member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m member) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for record := range c.Messages() {
		Tell(Facts{"read": string(record.Value)})
		s.MarkMessage(record, "")
	}
	return nil
}

func group(at At) {
	group, err := sarama.NewConsumerGroup(at.Brokers, at.Group, configured(plain))
	Must(err)
	stopping, stop := context.WithCancel(context.Background())
	go func() {
		Spoken()
		stop()
	}()
	for stopping.Err() == nil {
		// A session ends with each rebalance; what goes wrong meanwhile is tried again.
		if err := group.Consume(stopping, []string{at.Topic}, member{at.Topic}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			time.Sleep(Pace)
		}
	}
	Must(group.Close())
}

func seek(at At) {
	client, err := sarama.NewClient(at.Brokers, configured(plain))
	Must(err)
	consumer, err := sarama.NewConsumerFromClient(client)
	Must(err)
	for _, second := range []int64{10, 15} {
		// The client has one try; the leader is asked again once metadata knows another.
		offset := AskedAgain(func() (int64, error) {
			client.RefreshMetadata(at.Topic)
			return client.GetOffset(at.Topic, 0, at.SinceMs+second*1_000)
		})
		partition, err := consumer.ConsumePartition(at.Topic, 0, offset)
		Must(err)
		record := <-partition.Messages()
		Must(partition.Close())
		Tell(Facts{"asked": second, "offset": offset, "value": string(record.Value)})
		if second == 10 {
			Half()
		}
	}
}

// The admin client goes on to ask brokers that have died, the controller too: both are its user's.
func admin(at At) {
	client, err := sarama.NewClient(at.Brokers, configured(plain))
	Must(err)
	asked, err := sarama.NewClusterAdminFromClient(client)
	Must(err)
	ofController := func(ask func() error) {
		AskedAgain(func() (bool, error) {
			err := ask()
			if err != nil {
				client.RefreshController()
			}
			return err == nil, err
		})
	}
	made, hour := at.Topic+"-made", "60000"
	partitions := func() int {
		topics := AskedAgain(func() ([]*sarama.TopicMetadata, error) {
			return asked.DescribeTopics([]string{made})
		})
		return len(topics[0].Partitions)
	}
	Must(asked.CreateTopic(made, &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 2,
		ConfigEntries: map[string]*string{"retention.ms": &hour}}, false))
	Tell(Facts{"partitions": OnceAllKnow(3, partitions)})
	Half()
	retention := sarama.ConfigResource{
		Type: sarama.TopicResource, Name: made, ConfigNames: []string{"retention.ms"}}
	configs := AskedAgain(func() ([]sarama.ConfigEntry, error) { return asked.DescribeConfig(retention) })
	Tell(Facts{"retention_ms": configs[0].Value})
	ofController(func() error { return asked.CreatePartitions(made, 4, nil, false) })
	Tell(Facts{"partitions": OnceAllKnow(4, partitions)})
	ofController(func() error { return asked.DeleteTopic(made) })
	isThere := func() bool {
		_, isThere := AskedAgain(asked.ListTopics)[made]
		return isThere
	}
	Tell(Facts{"is_there": OnceAllKnow(false, isThere)})
	Must(asked.Close())
}

func transactional(at At) {
	_, err := sarama.NewSyncProducer(at.Brokers, configured(func(c *sarama.Config) {
		c.Producer.Idempotent = true
		c.Producer.RequiredAcks = sarama.WaitForAll
		c.Producer.Transaction.ID = at.Group
		c.Net.MaxOpenRequests = 1
	}))
	if err != nil {
		Tell(Facts{"refused": err.Error()})
	}
}

func main() {
	Run(map[string]func(At){
		"produce": produce, "idempotent": idempotent, "assign": assign, "group": group,
		"seek": seek, "admin": admin, "transactional": transactional,
	})
}
