package cli

import (
	"errors"
	"fmt"
	"strings"

	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/kafka"
	"flunq.io/flunq/engine/store"
)

// BridgeSettings configure the bridge to Kafka.
type BridgeSettings struct {
	Events string // emitted or all
	Batch  int

	Kafka topics

	Group  string // of Kafka
	Mode   string // binary or structured
	Plain  string // type of records without attributes
	Create bool   // topics of Kafka
}

// topics are the names of a broker's topics.
type topics struct {
	publish string
	listen  []string
	trusted []string
	start   []string // type=workflow
}

const (
	emittedEvents = "emitted"
	allEvents     = "all"
	noTopics      = "none" // as a list of topics
)

func defaultBridge() BridgeSettings {
	return BridgeSettings{
		Events: emittedEvents, Batch: 500, Group: "flunq", Mode: "binary",
		Kafka: topics{publish: "flunq.{tenant}.events", listen: []string{"flunq.{tenant}.in"}},
	}
}

// table binds each setting to its field of b.
func (b *BridgeSettings) table() []setting {
	return []setting{
		{"BRIDGE_EVENTS", nil, word(&b.Events, emittedEvents, allEvents), "which events the bridge publishes: emitted (by workflows and 'flunq emit'), or all, which programs outside that perform tasks need"},
		{"BRIDGE_BATCH", nil, whole(&b.Batch, 1, 1000), "events of a tenant that the bridge reads at once"},
		{"KAFKA_TOPIC", nil, text(&b.Kafka.publish), "topic of Kafka that the events of a tenant go to"},
		{"KAFKA_LISTEN", nil, list(&b.Kafka.listen), "topics of Kafka whose records become events, separated by commas; none: no topics"},
		{"KAFKA_LISTEN_TYPE", nil, text(&b.Plain), "type of the events of records that are no CloudEvents (default: they are dead-lettered)"},
		{"KAFKA_TRUSTED", nil, list(&b.Kafka.trusted), "those of KAFKA_LISTEN whose records may be events of the engine, such as results of tasks"},
		{"KAFKA_START", nil, list(&b.Kafka.start), "workflows that events start: TYPE=NAME or TYPE=NAME:VERSION, separated by commas"},
		{"KAFKA_GROUP", nil, text(&b.Group), "consumer group whose offsets say how far KAFKA_LISTEN is read"},
		{"KAFKA_MODE", nil, word(&b.Mode, "binary", "structured"), "content mode of CloudEvents in Kafka: binary or structured"},
		{"KAFKA_CREATE_TOPICS", nil, truth(&b.Create), "create topics that are missing, with KAFKA_PARTITIONS and KAFKA_REPLICATION"},
	}
}

// BridgeGroup returns the consumer group of the bridges, "" if there are none.
func (s Settings) BridgeGroup() string {
	if s.StreamType == InRedis {
		return ""
	}
	return store.BridgePrefix + s.StreamType
}

// BridgeOptions returns the options of the bridge, without sink and source. The tenant is that of
// topics without {tenant}.
func (s Settings) BridgeOptions(tenant string) (bridge.Options, error) {
	t := s.Bridge.Kafka
	o := bridge.Options{
		Batch: s.Bridge.Batch, Block: s.Worker.Block, Topic: t.publish, All: s.Bridge.Events == allEvents,
		Mode:   cloudevents.Mode{Structured: s.Bridge.Mode == "structured", Prefix: cloudevents.KafkaPrefix},
		Listen: t.listen, Trusted: t.trusted, Default: tenant, Workflows: map[event.Type]string{},
	}
	if len(t.listen) == 1 && t.listen[0] == noTopics {
		o.Listen = nil
	}
	o.Plain = event.Type(s.Bridge.Plain)
	var errs []error
	for _, one := range t.start {
		typ, workflow, ok := strings.Cut(one, "=")
		if !ok || typ == "" || workflow == "" || strings.HasPrefix(typ, event.Prefix) {
			errs = append(errs, fmt.Errorf("%s_START has %q: want TYPE=NAME or TYPE=NAME:VERSION", strings.ToUpper(s.StreamType), one))
		}
		o.Workflows[event.Type(typ)] = workflow
	}
	return o, errors.Join(append(errs, o.Check())...)
}

// Exchange returns how the bridge uses Kafka.
func (s Settings) Exchange() kafka.Exchange {
	return kafka.Exchange{Options: s.Scheduler.Kafka, Group: s.Bridge.Group, Create: s.Bridge.Create}
}

// checkBridge returns what is wrong with the settings of the bridge, if there is one.
func (s *Settings) checkBridge() error {
	if s.StreamType == InRedis {
		return nil
	}
	_, err := s.BridgeOptions(DefaultTenant)
	if s.Bridge.Group == "" {
		err = errors.Join(err, errors.New("KAFKA_GROUP is empty: want the name of a consumer group"))
	}
	return errors.Join(err, s.Scheduler.Kafka.Check())
}

// streamTypeValue is a type of event stream.
type streamTypeValue struct{ at *string }

func streamType(at *string) streamTypeValue { return streamTypeValue{at} }

// String returns the type.
func (v streamTypeValue) String() string { return *v.at }

// Set accepts the types that are built.
func (v streamTypeValue) Set(text string) error {
	for _, name := range []string{"RabbitMQ", "NATS"} {
		if strings.EqualFold(strings.TrimSpace(text), name) {
			return fmt.Errorf("%s is not built: want redis or kafka", name)
		}
	}
	return word(v.at, InRedis, InKafka).Set(text)
}
