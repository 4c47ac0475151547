package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/nats"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/stream"
)

const bridgeService = "bridge"

// performedOutside reports whether other programs perform the tasks of a tenant: a bridge runs for
// it, and no executor has ever read its stream.
func (d *doctor) performedOutside(s inspect.Stream) bool {
	_, reads := groupOf(s, d.settings.Executor.Group)
	return !reads && len(d.groupsOf(bridgeService, s.Tenant)) > 0
}

// checkBridge checks the bridges of tenants, and the broker of this installation's settings.
func (d *doctor) checkBridge(ctx context.Context, streams []inspect.Stream) {
	const check = "bridge"
	behind := int64(0)
	found := false
	for _, s := range streams {
		for _, g := range s.Groups {
			if !strings.HasPrefix(g.Name, store.BridgePrefix) {
				continue
			}
			found = true
			left := max(g.Lag, 0) + g.Pending
			behind += left
			f := finding{Check: check, State: isDoubtful, Tenant: s.Tenant}
			behindBy := fmt.Sprintf("%s behind, in a stream of %s", history.Count(left, "entry"), history.Count(s.Length, "entry"))
			f.Text = g.Name + " is " + behindBy
			switch {
			case !slices.Contains(d.groupsOf(bridgeService, s.Tenant), g.Name):
				f.State = isBad
				f.Text = fmt.Sprintf("no process runs the bridge that reads with %s, so nothing is trimmed: it is %s", g.Name, behindBy)
				f.Remedy = fmt.Sprintf("EVENT_STREAM_TYPE=%s flunq serve --only bridge starts it; to do without one: redis-cli XGROUP DESTROY %s %s",
					strings.TrimPrefix(g.Name, store.BridgePrefix), s.Key, g.Name)
			case left >= longLag:
				f.Remedy = "if it grows, see the log of 'flunq serve' and bridge_errors_total: is the broker reachable, does the topic exist?"
			default:
				continue
			}
			d.add(f)
		}
	}
	if found {
		d.sumUp(check, history.Count(behind, "entry")+" behind")
	}
	checkBroker := map[string]func(context.Context, *exchange){cli.InKafka: d.checkKafkaBridge, cli.InNATS: d.checkNATS}[d.settings.StreamType]
	opts, err := d.settings.BridgeOptions(d.remote.Tenant)
	if checkBroker == nil || err != nil {
		return // the error is reported with the settings
	}
	x := exchange{taken: map[string]stream.Position{}}
	for _, tenant := range d.tenants {
		positions, err := stream.New(d.remote.Store).Positions(ctx, tenant)
		if err != nil {
			return // reported with the tenant
		}
		maps.Copy(x.taken, positions)
		topics := opts.Topics(tenant)
		x.publish, x.listen = append(x.publish, topics[0]), append(x.listen, topics[1:]...)
	}
	checkBroker(ctx, &x)
}

// exchange is what the tenants exchange with a broker.
type exchange struct {
	publish, listen []string                   // topics
	taken           map[string]stream.Position // of what was taken in last, by partition
}

// after returns the position up to which a partition was taken in.
func (x *exchange) after(partition string) (cloudevents.Position, bool) {
	p, known := x.taken[partition]
	return cloudevents.Position(p), known
}

// checkNATS checks the stream, and how many of its messages the tenants' bridges have not taken in.
func (d *doctor) checkNATS(ctx context.Context, x *exchange) {
	const check = "nats"
	server := d.settings.Bridge.Server
	state, err := nats.Inspect(ctx, server, x.publish, x.listen, x.after)
	if err != nil {
		d.report(check, isBad, err.Error(), "check NATS_URL, NATS_CREDS, NATS_TLS_CA, NATS_TLS_CERT and NATS_STREAM, the user's permissions, and whether the server runs")
		return
	}
	text := fmt.Sprintf("stream %s has %s; %s not yet taken in (NATS_LISTEN)", server.Stream,
		history.Count(int64(state.Messages), "message"), history.Number(int64(state.Lag))) // fewer than 2^63
	const nearlyFull = 95 // percent
	switch {
	case state.Full >= nearlyFull:
		d.report(check, isBad, fmt.Sprintf("%s; it is %d %% full, and rejects messages above its limits (discard new); events then wait in Redis", text, state.Full),
			"nats stream edit "+server.Stream+" --discard old removes the oldest instead; or raise --max-msgs or --max-bytes")
	case state.Unlimited:
		d.report(check, isDoubtful, text+"; it grows without a limit", "nats stream edit "+server.Stream+" --max-age 7d")
	default:
		d.report(check, isFine, text, "")
	}
	for _, topic := range state.Uncovered {
		d.report(check, isDoubtful, fmt.Sprintf("stream %s does not have the subjects %s.>: events for them are not published", server.Stream, topic),
			fmt.Sprintf("add them with nats stream edit %s --subjects …", server.Stream))
	}
	for _, topic := range state.Unheard {
		d.report(check, isDoubtful, fmt.Sprintf("stream %s does not have the subjects %s (NATS_LISTEN): nothing is taken in", server.Stream, topic),
			fmt.Sprintf("add them with nats stream edit %s --subjects …", server.Stream))
	}
}

// checkKafkaBridge checks the brokers and the topics of the tenants.
func (d *doctor) checkKafkaBridge(ctx context.Context, x *exchange) {
	const check = "kafka"
	state, err := d.settings.KafkaBridge().Inspect(ctx, slices.Concat(x.publish, x.listen), x.listen, x.after)
	if err != nil {
		d.report(check, isBad, err.Error(), "check KAFKA_BROKERS, KAFKA_TLS and KAFKA_SASL, the user and the password, and whether the brokers run")
		return
	}
	text := history.Count(state.Brokers, "broker")
	if state.Lag >= 0 {
		text += fmt.Sprintf("; %s not yet taken in (KAFKA_LISTEN)", history.Count(state.Lag, "record"))
		if state.Lag > 0 {
			text += ", counting markers of transactions"
		}
	}
	d.report(check, isFine, text, "")
	for _, t := range state.Topics {
		remedy := ""
		switch {
		case t.Missing && d.settings.Bridge.Create:
			remedy = "the bridge creates it when it uses it, or reports in the log of 'flunq serve' why it cannot"
		case t.Missing:
			remedy = "create it, or set KAFKA_CREATE_TOPICS=true"
		}
		if problem := t.Problem(); problem != "" {
			d.report(check, isDoubtful, problem, remedy)
		}
	}
}
