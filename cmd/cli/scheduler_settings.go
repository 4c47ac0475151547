package cli

import (
	"fmt"
	"time"

	"flunq.io/flunq/engine/dynamo"
	"flunq.io/flunq/engine/kafka"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
)

// SchedulerSettings configure the scheduler.
type SchedulerSettings struct {
	Enabled             bool
	Address             string // of gRPC
	Records, Feed, Sink string

	Partitions      int
	PartitionsGiven bool // if false, the number in Redis takes precedence
	Batch, Workers  int
	Retry           schedule.Retry
	Bucket          int           // seconds between two searches of the table for events that the index lacks
	Scan            time.Duration // interval of checks whether Redis has lost everything
	Limits          schedule.Limits
	Retention       time.Duration // of events that are done

	ExecuteTopic string

	Reflection                    bool
	TokensFile, Cert, Key, Client string // files

	Table, Endpoint, Region string // of DynamoDB
	Kafka                   kafka.Options
}

// The places where records are kept, requests arrive, and events are published.
const (
	InRedis  = "redis"
	InDynamo = "dynamodb"
	InKafka  = "kafka"
	NoFeed   = "none"
)

func defaultScheduler() SchedulerSettings {
	d := scheduler.DefaultOptions()
	return SchedulerSettings{
		Address: "127.0.0.1:50051", Records: InRedis, Feed: NoFeed, Sink: InRedis,
		Partitions: d.Partitions, Batch: d.Batch, Workers: d.Workers, Retry: d.Retry,
		Bucket: 60, Scan: 5 * time.Second, Limits: schedule.DefaultLimits(), Retention: 15 * 24 * time.Hour,
		Reflection: true, Table: "scheduler-service-table", Region: "us-east-1", Kafka: kafka.Defaults(),
	}
}

// table binds each setting to its field of s.
func (s *SchedulerSettings) table() []setting {
	const day = 24 * time.Hour
	k := &s.Kafka
	return []setting{
		{"SCHEDULER_ENABLED", nil, truth(&s.Enabled), "run the scheduler in 'flunq serve', as --scheduler does"},
		{"SCHEDULER_GRPC", nil, Address(&s.Address), "address of the scheduler's gRPC server"},
		{"SCHEDULER_RECORDS", nil, word(&s.Records, InRedis, InDynamo), "where scheduled events are kept: redis or dynamodb"},
		{"SCHEDULER_FEED", nil, word(&s.Feed, NoFeed, InKafka), "how they reach the index: none (directly) or kafka (through SCHEDULER_SCHEDULE_TOPIC)"},
		{"SCHEDULER_SINK", nil, word(&s.Sink, InRedis, InKafka), "where they are published: redis (streams) or kafka; topics event:TYPE and workflow:NAME always reach a tenant"},
		{"SCHEDULER_TOTAL_PARTITIONS", nil, whole(&s.Partitions, 1, scheduler.MaxPartitions), "partitions that the processes share (documented elsewhere as 4); 'flunq schedule partitions' changes them"},
		{"SCHEDULER_BUCKET_SIZE_SEC", nil, whole(&s.Bucket, 1, 3600), "seconds after which DynamoDB is compared with the index again"},
		{"SCHEDULER_BATCH_SIZE", nil, whole(&s.Batch, 1, scheduler.MaxBatch), "events that are published in one batch"},
		{"SCHEDULER_SEMAPHORE_LIMIT", nil, whole(&s.Workers, 1, 256), "batches that this process publishes concurrently"},
		{"SCHEDULER_BACKOFF_MS", nil, span(&s.Retry.First, time.Millisecond, time.Minute), "pause after the first failure of a publication; doubles with each"},
		{"SCHEDULER_MAX_BACKOFF_MS", nil, span(&s.Retry.Longest, time.Millisecond, time.Hour), "longest such pause"},
		{"SCHEDULER_RETRY_SCAN_INTERVAL_MS", nil, span(&s.Scan, 100*time.Millisecond, time.Hour), "interval of checks whether Redis has lost the index of DynamoDB"},
		{"SCHEDULER_LEASE", nil, span(&s.Retry.Lease, time.Second, time.Hour), "how long a process may take to publish an event before another one repeats it"},
		{"SCHEDULER_MAX_ATTEMPTS", nil, whole(&s.Retry.Attempts, 1, 1000), "failures of a publication after which an event is dead-lettered"},
		{"SCHEDULER_MIN_DELAY", nil, span(&s.Limits.MinDelay, 0, day), "how far ahead events must be scheduled at least"},
		{"SCHEDULER_MAX_DELAY", nil, span(&s.Limits.MaxDelay, time.Second, 366*day), "how far ahead events may be scheduled at most"},
		{"SCHEDULER_MAX_PAYLOAD", nil, size(&s.Limits.Payload, 1, 960<<10), "size of the largest payload"},
		{"SCHEDULER_RETENTION", nil, span(&s.Retention, time.Minute, 366*day), "how long published, cancelled and dropped events are kept"},
		{"SCHEDULER_TOPICS", nil, list(&s.Limits.Topics), "comma-separated list of topics that clients may use (default: all)"},
		{"SCHEDULER_EXECUTE_TOPIC", nil, text(&s.ExecuteTopic), "topic of requests that name none"},
		{"SCHEDULER_SCHEDULE_TOPIC", nil, text(&k.ScheduleTopic), "Kafka topic through which events reach the index"},
		{"SCHEDULER_SCHEDULE_DLQ", nil, text(&k.ScheduleDLQ), "Kafka topic for unreadable messages of SCHEDULER_SCHEDULE_TOPIC"},
		{"SCHEDULER_GROUP", nil, text(&k.Group), "consumer group of SCHEDULER_SCHEDULE_TOPIC"},
		{"SCHEDULER_REFLECTION", nil, truth(&s.Reflection), "let clients query the description of the gRPC service (server reflection)"},
		{"SCHEDULER_TOKENS_FILE", nil, text(&s.TokensFile), "file of the bearer tokens that clients must send, one per line (default: none are required)"},
		{"GRPC_TLS_CERT", nil, text(&s.Cert), "certificate file of the gRPC server"},
		{"GRPC_TLS_KEY", nil, text(&s.Key), "key file of the gRPC server"},
		{"GRPC_TLS_CLIENT_CA", nil, text(&s.Client), "CA certificate file that client certificates are checked with (default: none are required)"},
		{"DYNAMO_TABLE", nil, text(&s.Table), "table of DynamoDB"},
		{"DYNAMO_ENDPOINT", nil, text(&s.Endpoint), "address of DynamoDB (default: that of the region)"},
		{"AWS_REGION", nil, text(&s.Region), "region of DynamoDB"},
		{"KAFKA_BROKERS", nil, list(&k.Brokers), "comma-separated list of Kafka brokers, host:port"},
		{"KAFKA_CLIENT_ID", nil, text(&k.ClientID), "name of this program in Kafka's logs"},
		{"KAFKA_VERSION", nil, text(&k.Version), "newest version of Kafka's protocol to use, such as 2.3 (default: the newest that the broker supports)"},
		{"KAFKA_COMPRESSION", nil, word(&k.Compression, "none", "gzip", "snappy", "lz4", "zstd"), "compression of records: none, gzip, snappy, lz4 or zstd"},
		{"KAFKA_LINGER", nil, span(&k.Linger, 0, time.Second), "how long a record waits for others of its partition"},
		{"KAFKA_PARTITIONS", nil, whole(&k.Partitions, 1, 10_000), "partitions of topics that 'flunq schedule init' and KAFKA_CREATE_TOPICS create"},
		{"KAFKA_REPLICATION", nil, whole(&k.Replication, -1, 100), "replicas of these topics; -1: the broker's default"},
		{"KAFKA_TLS", nil, truth(&k.TLS), "encrypt connections to Kafka"},
		{"KAFKA_TLS_CA", nil, text(&k.CA), "CA certificate file for Kafka (default: the system's CAs)"},
		{"KAFKA_TLS_CERT", nil, text(&k.Cert), "client certificate file for Kafka"},
		{"KAFKA_TLS_KEY", nil, text(&k.Key), "key file of the client certificate for Kafka"},
		{"KAFKA_SASL", nil, text(&k.SASL), "authentication to Kafka: plain, scram-sha-256, scram-sha-512 or oauthbearer (default: none)"},
		{"KAFKA_USERNAME", nil, text(&k.Username), "name to authenticate with"},
		{"KAFKA_PASSWORD", nil, secret(&k.Password), "its password"},
		{"KAFKA_PASSWORD_FILE", nil, text(&k.PasswordFile), "file that contains the password"},
	}
}

// check returns an error for each invalid combination of settings.
func (s *SchedulerSettings) check() (errs []error) {
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Limits.MinDelay >= s.Limits.MaxDelay {
		wrong("SCHEDULER_MIN_DELAY is %s and SCHEDULER_MAX_DELAY is %s: want a smaller minimum", spanText(s.Limits.MinDelay), spanText(s.Limits.MaxDelay))
	}
	const maxInDynamo = 320 << 10 // with key and headers less than the 400 KB of an item
	if s.Records == InDynamo && s.Limits.Payload > maxInDynamo {
		wrong("SCHEDULER_MAX_PAYLOAD is %s and SCHEDULER_RECORDS is %s: want at most %dKiB, as an item of DynamoDB has at most 400 KB", sizeText(s.Limits.Payload), InDynamo, maxInDynamo>>10)
	}
	if s.Retry.First > s.Retry.Longest {
		wrong("SCHEDULER_BACKOFF_MS is %s and SCHEDULER_MAX_BACKOFF_MS is %s: want the maximum to be at least the first pause", spanText(s.Retry.First), spanText(s.Retry.Longest))
	}
	for _, topic := range s.Limits.Topics {
		if err := schedule.CheckTopic(topic); err != nil {
			wrong("SCHEDULER_TOPICS: %w", err)
		}
	}
	if err := schedule.CheckTopic(s.ExecuteTopic); s.ExecuteTopic != "" && err != nil {
		wrong("SCHEDULER_EXECUTE_TOPIC: %w", err)
	}
	if (s.Cert == "") != (s.Key == "") {
		wrong("GRPC_TLS_CERT and GRPC_TLS_KEY must be set together")
	}
	if s.Client != "" && s.Cert == "" {
		wrong("GRPC_TLS_CLIENT_CA needs GRPC_TLS_CERT and GRPC_TLS_KEY")
	}
	if s.Records == InDynamo {
		if err := s.Dynamo().Check(); err != nil {
			errs = append(errs, err)
		}
	}
	if s.Feed == InKafka || s.Sink == InKafka {
		errs = append(errs, s.Kafka.Check())
	}
	return errs
}

// Options returns the options of a process of the scheduler.
func (s SchedulerSettings) Options(process string) scheduler.Options {
	o := scheduler.DefaultOptions()
	o.Process, o.Partitions, o.Workers, o.Batch = process, s.Partitions, s.Workers, s.Batch
	o.Retry, o.MemberTTL, o.Poll = s.Retry, s.Retry.Lease, scheduler.PollFor(s.Limits.MinDelay)
	o.Clock, o.Adopt = time.Now, !s.PartitionsGiven
	return o
}

// Dynamo returns the options of the table of DynamoDB.
func (s SchedulerSettings) Dynamo() dynamo.Options {
	o := dynamo.Defaults()
	o.Table, o.Region, o.Endpoint, o.Retention = s.Table, s.Region, s.Endpoint, s.Retention
	return o
}
