// kafkajs. It compresses by gzip alone; other codecs are packages of their own.

const { CompressionTypes, Kafka, logLevel } = require("kafkajs");

const RECORDS = 40;
const PACE_MS = 25;
const ATTEMPTS = 100;
const ATTEMPTS_PAUSE_MS = 200;
const DISCONNECT_MS = 30_000;
const [step, bootstrap, topic, groupId, sinceMs] = process.argv.slice(2);
// By default it gives up after five tries: some nine seconds, in which it may ask a dead leader alone.
const RETRIES = 15;
const kafka = new Kafka({
  brokers: bootstrap.split(","),
  logLevel: logLevel.WARN,
  retry: { retries: RETRIES },
});

const tell = (facts) => process.stdout.write(`${JSON.stringify(facts)}\n`);
const spoken = () => new Promise((resolve) => process.stdin.once("data", resolve));
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function half() {
  tell({ at: "half" });
  await spoken();
}

// Now and then a disconnect() never returns after a broker has died: it is given up.
async function end(client) {
  const late = pause(DISCONNECT_MS).then(() => tell({ note: "a disconnect() was given up after 30 s" }));
  await Promise.race([client.disconnect(), late]);
}

// Admin clients fail with an error that they call retriable where a broker has died that they ask.
async function askedAgain(ask) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask();
    } catch (error) {
      if (!error.retriable || attempt === ATTEMPTS) throw error;
      await pause(ATTEMPTS_PAUSE_MS);
    }
  }
}

// One broker hears of a change after another.
async function onceAllKnow(ask, wanted) {
  for (let attempt = 1; ; attempt++) {
    const answer = await ask();
    if (answer === wanted || attempt === ATTEMPTS) return answer;
    await pause(ATTEMPTS_PAUSE_MS);
  }
}

async function produce() {
  const codecs = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP };
  const producer = kafka.producer();
  await producer.connect();
  for (const turn of [0, 1]) {
    for (const [acks, wanted] of [["0", 0], ["1", 1], ["all", -1]]) {
      for (const [codec, compression] of Object.entries(codecs)) {
        const value = `${acks} ${codec} ${turn}${" padding".repeat(40)}`;
        await producer.send({ topic, acks: wanted, compression, messages: [{ value, partition: 0 }] });
        tell({ acks, codec, value });
      }
    }
    if (turn === 0) await half();
  }
  await end(producer);
}

async function idempotent() {
  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  for (let number = 0; number < 2 * RECORDS; number++) {
    const value = `${number}`;
    try {
      await producer.send({ topic, messages: [{ value, partition: 0 }] });
      tell({ sent: value });
    } catch (failed) {
      tell({ failed: `${failed}` });
    }
    if (number === RECORDS - 1) await half();
    else if (number >= RECORDS) await pause(PACE_MS);
  }
  await end(producer);
}

async function group() {
  const consumer = kafka.consumer({ groupId });
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) =>
    tell({ holds: Object.values(payload.memberAssignment).flat().length }),
  );
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({ eachMessage: async ({ message }) => tell({ read: message.value.toString() }) });
  await spoken();
  await end(consumer);
}

async function seek() {
  const admin = kafka.admin();
  await admin.connect();
  const consumer = kafka.consumer({ groupId });
  await consumer.connect();
  await consumer.subscribe({ topic });
  const values = {};
  await consumer.run({
    eachMessage: async ({ message }) => {
      values[message.offset] = message.value.toString();
    },
  });
  for (const second of [10, 15]) {
    const since = Number(sinceMs) + second * 1000;
    const found = await askedAgain(() => admin.fetchTopicOffsetsByTimestamp(topic, since));
    const offset = found.find((one) => one.partition === 0).offset;
    consumer.seek({ topic, partition: 0, offset });
    while (!(offset in values)) await pause(PACE_MS);
    tell({ asked: second, offset: Number(offset), value: values[offset] });
    if (second === 10) await half();
  }
  // No disconnect(): after a broker's death it may keep the process busy for ever.
}

async function admin() {
  const asked = kafka.admin();
  await asked.connect();
  const made = `${topic}-made`;
  const configEntries = [{ name: "retention.ms", value: "60000" }];
  const partitions = async () =>
    (await askedAgain(() => asked.fetchTopicMetadata({ topics: [made] }))).topics[0].partitions.length;
  await asked.createTopics({
    topics: [{ topic: made, numPartitions: 3, replicationFactor: 2, configEntries }],
  });
  tell({ partitions: await onceAllKnow(partitions, 3) });
  await half();
  const resources = [{ type: 2, name: made }];
  const configs = await askedAgain(() => asked.describeConfigs({ includeSynonyms: false, resources }));
  const entries = configs.resources[0].configEntries;
  tell({ retention_ms: entries.find((entry) => entry.configName === "retention.ms").configValue });
  const topicPartitions = [{ topic: made, count: 4 }];
  await askedAgain(() => asked.createPartitions({ topicPartitions }));
  tell({ partitions: await onceAllKnow(partitions, 4) });
  await askedAgain(() => asked.deleteTopics({ topics: [made] }));
  const isThere = async () => (await askedAgain(() => asked.listTopics())).includes(made);
  tell({ is_there: await onceAllKnow(isThere, false) });
  await end(asked);
}

// A refusal needs no patience: its tries at a dead broker would take minutes.
async function transactional() {
  const hasty = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.WARN });
  const producer = hasty.producer({ transactionalId: groupId, maxInFlightRequests: 1, idempotent: true });
  try {
    await producer.connect();
    await producer.transaction();
  } catch (refused) {
    tell({ refused: `${refused}` });
  }
  await end(producer);
}

const steps = { produce, idempotent, group, seek, admin, transactional };
steps[step]().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
