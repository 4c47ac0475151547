package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// State describes the brokers and their topics, as the brokers report them.
type State struct {
	Brokers int
	Topics  []Topic
	Lag     int64 // messages that the group has not read; -1: unknown
}

// Topic is a topic as reported by the brokers.
type Topic struct {
	Name       string
	Missing    bool
	Partitions int
	Replicas   int // of the partition with the fewest
	InSync     int // in-sync replicas whose brokers are up, of the partition with the fewest
	MinInSync  int // in-sync replicas required for a write; 0: unknown
}

// Usable reports whether records can be written to a topic.
func (t Topic) Usable() bool { return !t.Missing && t.InSync >= max(t.MinInSync, 1) }

// Problem describes what is wrong with a topic, "" if nothing is.
func (t Topic) Problem() string {
	switch {
	case t.Missing:
		return fmt.Sprintf("topic %s does not exist", t.Name)
	case !t.Usable():
		return fmt.Sprintf("topic %s takes no records: %d of its replicas are in sync, min.insync.replicas is %d", t.Name, t.InSync, max(t.MinInSync, 1))
	case t.MinInSync == 1 && t.Replicas > 1:
		return fmt.Sprintf("topic %s has min.insync.replicas=1: a record that one broker has counts as written, and is lost with it; set 2", t.Name)
	default:
		return ""
	}
}

// Inspect returns the state of the brokers and of the named topics. The lag is that of the group in the
// schedule topic.
func Inspect(ctx context.Context, o Options, topics ...string) (State, error) {
	state := State{Lag: -1}
	err := o.admin(ctx, func(ctx context.Context, admin *kadm.Client) (err error) {
		if state, err = o.state(ctx, admin, topics); err != nil {
			return err
		}
		// Reading the lag need not be allowed.
		if lags, err := admin.Lag(ctx, o.Group); err == nil {
			if group := lags[o.Group]; group.Error() == nil {
				state.Lag = group.Lag.TotalByTopic()[o.ScheduleTopic].Lag
			}
		}
		return nil
	})
	return state, err
}

// admin calls do with an administrative client, for at most Options.Timeout.
func (o Options) admin(ctx context.Context, do func(context.Context, *kadm.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	cl, err := o.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := do(ctx, kadm.NewClient(cl)); err != nil {
		return fmt.Errorf("ask Kafka at %s: %w", strings.Join(o.Brokers, ","), err)
	}
	return nil
}

// metadata returns the brokers' reply about topics, some of which may be forbidden.
func metadata(ctx context.Context, admin *kadm.Client, topics []string) (kadm.Metadata, error) {
	meta, err := admin.Metadata(ctx, topics...)
	if _, forbidden := errors.AsType[*kadm.AuthError](err); !forbidden {
		return meta, err
	}
	meta = kadm.Metadata{Topics: kadm.TopicDetails{}}
	for _, topic := range topics { // one forbidden topic hides the others
		one, err := admin.Metadata(ctx, topic)
		if auth, forbidden := errors.AsType[*kadm.AuthError](err); forbidden {
			meta.Topics[topic] = kadm.TopicDetail{Topic: topic, Err: auth.Err}
		} else if err != nil {
			return meta, err
		} else {
			meta.Brokers, meta.Topics[topic] = one.Brokers, one.Topics[topic]
		}
	}
	return meta, nil
}

// explained adds to an error the rights whose lack may have caused it.
func explained(err error, rights string) error {
	switch {
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		rights = "IdempotentWrite on the cluster"
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		rights = "Read on the group"
	case !errors.Is(err, kerr.TopicAuthorizationFailed):
		return err
	}
	return fmt.Errorf("%w The user needs ACLs for %s", err, rights)
}

// state returns the state of the brokers and of topics, without a lag.
func (o Options) state(ctx context.Context, admin *kadm.Client, names []string) (State, error) {
	state := State{Lag: -1}
	meta, err := metadata(ctx, admin, names)
	if err != nil {
		return state, err
	}
	state.Brokers = len(meta.Brokers)
	var existing []string
	for _, name := range names {
		detail := meta.Topics[name]
		missing := errors.Is(detail.Err, kerr.UnknownTopicOrPartition) || errors.Is(detail.Err, kerr.InvalidTopicException)
		t := Topic{Name: name, Missing: missing, Partitions: len(detail.Partitions)}
		if detail.Err != nil && !t.Missing {
			return state, fmt.Errorf("topic %s: %w", name, explained(detail.Err, "Describe on it"))
		}
		var replicas, inSync []int // by partition
		for _, p := range detail.Partitions {
			offline := func(replica int32) bool { return slices.Contains(p.OfflineReplicas, replica) }
			replicas, inSync = append(replicas, len(p.Replicas)), append(inSync, len(slices.DeleteFunc(p.ISR, offline)))
		}
		if len(replicas) > 0 {
			t.Replicas, t.InSync = slices.Min(replicas), slices.Min(inSync)
		}
		if !t.Missing {
			existing = append(existing, name)
		}
		state.Topics = append(state.Topics, t)
	}
	if len(existing) == 0 {
		return state, nil
	}
	// Reading the configuration need not be allowed.
	if configs, err := admin.DescribeTopicConfigs(ctx, existing...); err == nil {
		for i, t := range state.Topics {
			if config, err := configs.On(t.Name, nil); err == nil {
				state.Topics[i].MinInSync = minInSync(config)
			}
		}
	}
	return state, nil
}

func minInSync(config kadm.ResourceConfig) int {
	for _, c := range config.Configs {
		if c.Key == "min.insync.replicas" {
			n, _ := strconv.Atoi(c.MaybeValue())
			return n
		}
	}
	return 0
}

// Init creates the two topics for requests if they are missing and returns the names of those that it
// created or, with dry, would create. Existing topics are left unchanged.
func Init(ctx context.Context, o Options, dry bool) ([]string, error) {
	var created []string
	err := o.admin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		state, err := o.state(ctx, admin, []string{o.ScheduleTopic, o.ScheduleDLQ})
		if err != nil {
			return err
		}
		create := admin.CreateTopics
		if dry {
			create = admin.ValidateCreateTopics
		}
		for _, t := range state.Topics {
			if !t.Missing {
				continue
			}
			replies, err := create(ctx, int32(o.Partitions), int16(o.Replication), nil, t.Name)
			if err != nil {
				return err
			}
			reply := replies[t.Name]
			if errors.Is(reply.Err, kerr.TopicAlreadyExists) { // another process was first
				continue
			}
			if reply.Err != nil {
				return fmt.Errorf("create topic %s: %w", t.Name, refusal(reply))
			}
			created = append(created, t.Name)
		}
		return nil
	})
	return created, err
}

// refusal returns why a broker did not create a topic.
func refusal(reply kadm.CreateTopicResponse) error {
	if reply.ErrMessage == "" {
		return reply.Err
	}
	return fmt.Errorf("%w %s", reply.Err, reply.ErrMessage)
}
