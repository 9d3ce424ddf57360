// franz-go, with its admin package kadm.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	. "stockclients/lines"
)

var background = context.Background()

func client(at At, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(at.Brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	}, options...)...)
	Must(err)
	return made
}

func produce(at At) {
	acks := []struct {
		name string
		acks kgo.Acks
	}{{"0", kgo.NoAck()}, {"1", kgo.LeaderAck()}, {"all", kgo.AllISRAcks()}}
	codecs := []struct {
		name  string
		codec kgo.CompressionCodec
	}{
		{"none", kgo.NoCompression()}, {"gzip", kgo.GzipCompression()},
		{"snappy", kgo.SnappyCompression()}, {"lz4", kgo.Lz4Compression()},
		{"zstd", kgo.ZstdCompression()},
	}
	for turn := range 2 {
		for _, ack := range acks {
			for _, codec := range codecs {
				producer := client(at, kgo.RequiredAcks(ack.acks), kgo.DisableIdempotentWrite(),
					kgo.ProducerBatchCompression(codec.codec))
				value := fmt.Sprintf("%s %s %d%s", ack.name, codec.name, turn, Padding)
				record := &kgo.Record{Topic: at.Topic, Value: []byte(value)}
				Must(producer.ProduceSync(background, record).FirstErr())
				Tell(Facts{"acks": ack.name, "codec": codec.name, "value": value})
				producer.Close()
			}
		}
		if turn == 0 {
			Half()
		}
	}
}

func idempotent(at At) {
	producer := client(at)
	defer producer.Close()
	for number := range 2 * Records {
		record := &kgo.Record{Topic: at.Topic, Value: fmt.Append(nil, number)}
		producer.Produce(background, record, func(sent *kgo.Record, err error) {
			if err != nil {
				Tell(Facts{"failed": err.Error()})
			} else {
				Tell(Facts{"sent": string(sent.Value)})
			}
		})
		if number == Records-1 {
			Must(producer.Flush(background))
			Half()
		} else if number >= Records {
			time.Sleep(Pace)
		}
	}
	Must(producer.Flush(background))
}

func read(consumer *kgo.Client) {
	stopping, stop := context.WithCancel(background)
	go func() {
		Spoken()
		stop()
	}()
	for stopping.Err() == nil {
		consumer.PollFetches(stopping).EachRecord(func(record *kgo.Record) {
			Tell(Facts{"read": string(record.Value)})
		})
	}
}

func from(at At, offset kgo.Offset) kgo.Opt {
	return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{at.Topic: {0: offset}})
}

func assign(at At) {
	consumer := client(at, from(at, kgo.NewOffset().At(0)))
	defer consumer.Close()
	read(consumer)
}

// Cooperative rebalances, which are this client's default: a share changes by what comes and goes.
func group(at At) {
	holds := 0
	changed := func(sign int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			holds += sign * len(partitions[at.Topic])
			Tell(Facts{"holds": holds})
		}
	}
	consumer := client(at, kgo.ConsumerGroup(at.Group), kgo.ConsumeTopics(at.Topic),
		kgo.OnPartitionsAssigned(changed(1)), kgo.OnPartitionsRevoked(
			func(ctx context.Context, c *kgo.Client, partitions map[string][]int32) {
				Must(c.CommitUncommittedOffsets(ctx))
				changed(-1)(ctx, c, partitions)
			}),
		kgo.OnPartitionsLost(changed(-1)))
	read(consumer)
	Must(consumer.CommitUncommittedOffsets(background))
	consumer.Close()
}

func seek(at At) {
	admin := kadm.NewClient(client(at))
	defer admin.Close()
	for _, second := range []int64{10, 15} {
		// The client gives up while the leader is dead that it asks.
		found := AskedAgain(func() (kadm.ListedOffset, error) {
			listed, err := admin.ListOffsetsAfterMilli(background, at.SinceMs+second*1_000, at.Topic)
			found, _ := listed.Lookup(at.Topic, 0)
			return found, errors.Join(err, found.Err)
		})
		consumer := client(at, from(at, kgo.NewOffset().At(found.Offset)))
		var records []*kgo.Record
		for len(records) == 0 {
			records = consumer.PollFetches(background).Records()
		}
		consumer.Close()
		Tell(Facts{"asked": second, "offset": found.Offset, "value": string(records[0].Value)})
		if second == 10 {
			Half()
		}
	}
}

func admin(at At) {
	asked := kadm.NewClient(client(at))
	defer asked.Close()
	made, hour := at.Topic+"-made", "60000"
	partitions := func() int {
		topics, err := asked.ListTopics(background, made)
		Must(err)
		return len(topics[made].Partitions)
	}
	_, err := asked.CreateTopic(background, 3, 2, map[string]*string{"retention.ms": &hour}, made)
	Must(err)
	Tell(Facts{"partitions": OnceAllKnow(3, partitions)})
	Half()
	configs, err := asked.DescribeTopicConfigs(background, made)
	Must(err)
	for _, config := range configs[0].Configs {
		if config.Key == "retention.ms" {
			Tell(Facts{"retention_ms": config.MaybeValue()})
		}
	}
	updated, err := asked.UpdatePartitions(background, 4, made)
	Must(err)
	Must(updated.Error())
	Tell(Facts{"partitions": OnceAllKnow(4, partitions)})
	deleted, err := asked.DeleteTopics(background, made)
	Must(err)
	Must(deleted.Error())
	isThere := func() bool {
		topics, err := asked.ListTopics(background)
		Must(err)
		return topics.Has(made)
	}
	Tell(Facts{"is_there": OnceAllKnow(false, isThere)})
}

func transactional(at At) {
	producer := client(at, kgo.TransactionalID(at.Group))
	defer producer.Close()
	if err := producer.BeginTransaction(); err != nil {
		Tell(Facts{"refused": err.Error()})
	}
}

func main() {
	Run(map[string]func(At){
		"produce": produce, "idempotent": idempotent, "assign": assign, "group": group,
		"seek": seek, "admin": admin, "transactional": transactional,
	})
}
