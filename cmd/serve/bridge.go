package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/kafka"
	"flunq.io/flunq/engine/nats"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/engine/telemetry"
)

// bridgeService is the bridge, as --only names it.
const bridgeService = "bridge"

// bridging is the bridge of one process.
type bridging struct {
	set     cli.Settings
	opts    bridge.Options
	secrets map[string]any
	closing []func()
}

// bridging returns the bridge that the process runs; nil if it runs none.
func (s *server) bridging(set cli.Settings, tenant string, secrets map[string]any) (*bridging, error) {
	named := slices.Contains(s.only, bridgeService)
	if set.StreamType == cli.InRedis && named {
		return nil, cli.Misusef("--only %s: EVENT_STREAM_TYPE is redis, so there is nothing to connect: want kafka or nats", bridgeService)
	}
	if set.StreamType == cli.InRedis || len(s.only) > 0 && !named {
		return nil, nil
	}
	opts, err := set.BridgeOptions(tenant)
	return &bridging{set: set, opts: opts, secrets: secrets}, err
}

// open returns the options of the bridge, connected to its broker. Call close when the bridge has
// stopped.
func (b *bridging) open(rdb wire.Redis, watch *telemetry.Bridge, log *slog.Logger) (*bridge.Options, error) {
	opts := &b.opts
	created := func(kind string) func(string) {
		return func(name string) { log.Info("created by the bridge: it did not exist", kind, name) }
	}
	opts.Observe, opts.Lag = watch.Observe, watch.Lag
	opts.Start = starter(scheduler.TopicSink{Store: store.New(rdb, store.Options{Secrets: b.secrets})})
	if b.set.StreamType == cli.InNATS {
		server := b.set.Bridge.Server
		server.Created = created("stream")
		client, err := nats.New(server)
		if err != nil {
			return nil, err
		}
		b.closing = append(b.closing, client.Close)
		opts.Sink, opts.Source = client, client
	} else if err := b.openKafka(opts, created("topic")); err != nil {
		return nil, err
	}
	if len(opts.Listen) == 0 {
		opts.Source = nil
	}
	return opts, nil
}

func (b *bridging) openKafka(opts *bridge.Options, created func(string)) error {
	options := b.set.KafkaBridge()
	options.Created = created
	publisher, err := kafka.NewPublisher(options)
	if err != nil {
		return err
	}
	b.closing = append(b.closing, publisher.Close)
	receiver, err := kafka.NewReceiver(options)
	if err != nil {
		return err
	}
	b.closing = append(b.closing, func() {
		const patience = 2 * time.Second
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		receiver.Close(ctx)
	})
	opts.Sink, opts.Source = publisher, receiver
	return nil
}

// starter returns a function that starts executions as the scheduler does.
func starter(sink scheduler.TopicSink) func(context.Context, bridge.Start) error {
	return func(ctx context.Context, s bridge.Start) error {
		err := sink.Publish(ctx, []schedule.Event{{
			ID: s.ID, Content: schedule.Content{Tenant: s.Tenant, Topic: schedule.WorkflowTopic + s.Workflow, Payload: s.Input},
		}})[0]
		if errors.Is(err, schedule.ErrRefused) || errors.Is(err, schedule.ErrNotPublished) {
			return fmt.Errorf("%w: %w", cloudevents.ErrRefused, err)
		}
		return err
	}
}

func (b *bridging) close() { closeAll(b.closing) }

// closeAll closes the clients of a process that ends. It does not wait long for a broker that hangs.
func closeAll(closing []func()) {
	const patience = 2 * time.Second
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		var wg sync.WaitGroup
		for _, f := range closing {
			wg.Go(f)
		}
		wg.Wait()
	}()
	select {
	case <-closed:
	case <-time.After(patience):
	}
}
