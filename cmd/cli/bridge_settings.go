package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/kafka"
	"flunq.io/flunq/engine/nats"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/store"
)

// BridgeSettings configure the bridge to Kafka or NATS.
type BridgeSettings struct {
	Events string // lifecycle, emitted, both or all
	Batch  int

	Kafka, NATS topics // of the two brokers

	Group  string // of Kafka
	Create bool   // topics of Kafka

	Server nats.Options
}

// topics are the names of a broker's topics, or subjects.
type topics struct {
	publish string
	listen  []string
	plain   string // type of messages without attributes
	trusted []string
	start   []string // type=workflow
	mode    string   // binary or structured; "": that of Kafka
}

// InNATS is a type of event stream, beside InRedis and InKafka.
const InNATS = "nats"

const (
	emittedEvents   = "emitted"
	lifecycleEvents = "lifecycle"
	bothEvents      = lifecycleEvents + "," + emittedEvents
	allEvents       = "all"
	noTopics        = "none" // as a list of topics
	structured      = "structured"
)

func defaultBridge() BridgeSettings {
	return BridgeSettings{
		Events: bothEvents, Batch: 500, Group: "flunq", Server: nats.Defaults(),
		Kafka: topics{publish: "flunq.{tenant}.events", listen: []string{"flunq.{tenant}.in"}, mode: "binary"},
		NATS:  topics{publish: "flunq.{tenant}.events", listen: []string{"flunq.{tenant}.in.>"}},
	}
}

// table binds each setting to its field of b.
func (b *BridgeSettings) table() []setting {
	return []setting{
		{"BRIDGE_EVENTS", nil, word(&b.Events, bothEvents, lifecycleEvents, emittedEvents, allEvents), "which events the bridge publishes: lifecycle (of workflows and tasks, as in the specification; workers need the same setting), emitted (by workflows and 'flunq emit'), both, or all, which external executors need"},
		{"BRIDGE_BATCH", nil, whole(&b.Batch, 1, 1000), "events of a tenant that the bridge reads in one batch"},
		{"KAFKA_TOPIC", nil, text(&b.Kafka.publish), "Kafka topic that a tenant's events are published to"},
		{"KAFKA_LISTEN", nil, list(&b.Kafka.listen), "comma-separated list of Kafka topics whose records become events; none: no topics"},
		{"KAFKA_LISTEN_TYPE", nil, text(&b.Kafka.plain), "event type for records that are not CloudEvents (default: they are dead-lettered)"},
		{"KAFKA_TRUSTED", nil, list(&b.Kafka.trusted), "topics of KAFKA_LISTEN whose records may be events of the engine, such as task results"},
		{"KAFKA_START", nil, list(&b.Kafka.start), "comma-separated list of workflows that events start: TYPE=NAME or TYPE=NAME:VERSION"},
		{"KAFKA_GROUP", nil, text(&b.Group), "consumer group whose offsets record how far KAFKA_LISTEN has been read"},
		{"KAFKA_MODE", nil, word(&b.Kafka.mode, "binary", structured), "content mode of CloudEvents in Kafka: binary or structured"},
		{"KAFKA_CREATE_TOPICS", nil, truth(&b.Create), "create missing topics, with KAFKA_PARTITIONS and KAFKA_REPLICATION"},
		{"NATS_URL", nil, secretURL(&b.Server.URL), "comma-separated list of addresses of NATS servers"},
		{"NATS_CREDS", nil, text(&b.Server.Creds), "credentials file for NATS"},
		{"NATS_TLS_CA", nil, text(&b.Server.CA), "CA certificate file for NATS (default: the system's CAs)"},
		{"NATS_TLS_CERT", nil, text(&b.Server.Cert), "client certificate file for NATS"},
		{"NATS_TLS_KEY", nil, text(&b.Server.Key), "key file of the client certificate for NATS"},
		{"NATS_STREAM", nil, text(&b.Server.Stream), "JetStream stream that holds the subjects"},
		{"NATS_CREATE_STREAM", nil, truth(&b.Server.Create), "create the stream if it is missing, with the subjects " + nats.Subjects},
		{"NATS_MAX_AGE", nil, Keeping(&b.Server.MaxAge), "how long the stream that NATS_CREATE_STREAM creates keeps messages, read or not; 0: forever"},
		{"NATS_MAX_BYTES", nil, whole(&b.Server.MaxBytes, 0, 1<<50), "size of that stream above which the oldest messages are removed; 0: no limit"},
		{"NATS_MODE", nil, word(&b.NATS.mode, "binary", structured), "content mode of CloudEvents in NATS (default: KAFKA_MODE)"},
		{"NATS_SUBJECT", nil, text(&b.NATS.publish), "NATS subject that a tenant's events are published to; the event type is appended"},
		{"NATS_LISTEN", nil, list(&b.NATS.listen), "comma-separated list of subjects of NATS_STREAM whose messages become events; none: no subjects"},
		{"NATS_LISTEN_TYPE", nil, text(&b.NATS.plain), "event type for messages that are not CloudEvents (default: they are dead-lettered)"},
		{"NATS_TRUSTED", nil, list(&b.NATS.trusted), "subjects of NATS_LISTEN whose messages may be events of the engine, such as task results"},
		{"NATS_START", nil, list(&b.NATS.start), "comma-separated list of workflows that events start: TYPE=NAME or TYPE=NAME:VERSION"},
	}
}

// BridgeGroup returns the consumer group of the bridges, "" if there are none.
func (s Settings) BridgeGroup() string {
	if s.StreamType == InRedis {
		return ""
	}
	return store.BridgePrefix + s.StreamType
}

// Lifecycle reports whether lifecycle events are published.
func (s Settings) Lifecycle() bool {
	return s.StreamType != InRedis && s.Bridge.Events != emittedEvents
}

// topics returns the names for the broker in use.
func (s *Settings) topics() topics {
	if s.StreamType == InNATS {
		return s.Bridge.NATS
	}
	return s.Bridge.Kafka
}

// BridgeOptions returns the options of the bridge, without sink and source. Topics without {tenant}
// belong to tenant.
func (s Settings) BridgeOptions(tenant string) (bridge.Options, error) {
	t := s.topics()
	o := bridge.Options{
		Batch: s.Bridge.Batch, Block: s.Worker.Block, Topic: t.publish,
		Emitted: s.Bridge.Events != lifecycleEvents, Lifecycle: s.Lifecycle(), Own: s.Bridge.Events == allEvents,
		Mode:   cloudevents.Mode{Structured: cmp.Or(t.mode, s.Bridge.Kafka.mode) == structured, Prefix: cloudevents.KafkaPrefix},
		Listen: t.listen, Trusted: t.trusted, Default: tenant, Plain: event.Type(t.plain), Workflows: map[event.Type]string{},
	}
	if len(t.listen) == 1 && t.listen[0] == noTopics {
		o.Listen = nil
	}
	if s.StreamType == InNATS {
		o.Mode.Prefix = cloudevents.NATSPrefix
	}
	var errs []error
	for _, one := range t.start {
		typ, workflow, ok := strings.Cut(one, "=")
		wrong := ""
		switch {
		case !ok || typ == "" || !schedule.WorkflowName(workflow):
			wrong = "want TYPE=NAME or TYPE=NAME:VERSION"
		case strings.HasPrefix(typ, event.Prefix):
			wrong = "events of the engine start no workflow: want a type that does not begin with " + event.Prefix
		case o.Workflows[event.Type(typ)] != "":
			wrong = "an event starts one workflow: want each type once"
		}
		if wrong != "" {
			errs = append(errs, fmt.Errorf("%s_START has %q: %s", strings.ToUpper(s.StreamType), one, wrong))
		}
		o.Workflows[event.Type(typ)] = workflow
	}
	errs = append(errs, checkNames(s.StreamType, &o)...)
	return o, errors.Join(append(errs, o.Check())...)
}

// checkNames returns an error for each name that cannot be that of a topic or subject.
func checkNames(broker string, o *bridge.Options) (errs []error) {
	for i, name := range append([]string{o.Topic}, o.Listen...) {
		listens := i > 0
		example := strings.ReplaceAll(name, bridge.TenantMark, "t")
		switch {
		case listens && name == noTopics:
			errs = append(errs, fmt.Errorf("%s_LISTEN has %s and other names: want one or the other", strings.ToUpper(broker), noTopics))
		case broker == InKafka && !schedule.TopicName(example):
			errs = append(errs, fmt.Errorf("KAFKA_TOPIC or KAFKA_LISTEN has %q: want a name of a Kafka topic, of letters, digits, '.', '_' and '-', and %s for the tenant", name, bridge.TenantMark))
		case broker == InNATS && !isSubject(example, listens):
			errs = append(errs, fmt.Errorf("NATS_SUBJECT or NATS_LISTEN has %q: want words without spaces, separated by dots, %s for the tenant and, in NATS_LISTEN only, the wildcards * and a last >", name, bridge.TenantMark))
		}
	}
	return errs
}

// isSubject reports whether name is a subject of NATS.
func isSubject(name string, wildcards bool) bool {
	words := strings.Split(name, ".")
	for i, word := range words {
		wildcard := wildcards && (word == "*" || word == ">" && i == len(words)-1)
		if word == "" || !wildcard && strings.ContainsFunc(word, func(c rune) bool { return c <= ' ' || c == '*' || c == '>' }) {
			return false
		}
	}
	return true
}

// KafkaBridge returns the options with which the bridge uses Kafka.
func (s Settings) KafkaBridge() kafka.BridgeOptions {
	return kafka.BridgeOptions{Options: s.Scheduler.Kafka, Group: s.Bridge.Group, Create: s.Bridge.Create}
}

// checkBridge returns an error if there is a bridge and its settings are invalid.
func (s *Settings) checkBridge() error {
	if s.StreamType == InRedis {
		return nil
	}
	_, err := s.BridgeOptions(DefaultTenant)
	if s.StreamType == InNATS {
		return errors.Join(err, s.Bridge.Server.Check())
	}
	if s.Bridge.Group == "" {
		err = errors.Join(err, errors.New("KAFKA_GROUP is empty: want the name of a consumer group"))
	}
	return errors.Join(err, s.Scheduler.Kafka.Check())
}
