package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/dynamo"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/kafka"
	"flunq.io/flunq/engine/schedule"
)

// checkOutside checks what the scheduler needs besides Redis, if the settings say so: the table
// in DynamoDB, and Kafka with its topics.
func (d *doctor) checkOutside(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	set := d.settings.Scheduler
	if set.Records == cli.InDynamo {
		d.checkTable(ctx, set.Dynamo())
	}
	if set.Feed == cli.InKafka || set.Sink == cli.InKafka {
		d.checkKafka(ctx, set)
	}
}

// patience is how long DynamoDB and Kafka may take to answer.
const patience = 10 * time.Second

func (d *doctor) checkTable(ctx context.Context, opts dynamo.Options) {
	const check = "dynamodb"
	line := func(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
	table, err := dynamo.New(ctx, opts)
	if err == nil {
		err = table.Ready(ctx)
	}
	if err != nil {
		d.report(check, isBad, line(err), "")
	} else if err := errors.Join(table.Check(ctx)); err != nil {
		d.report(check, isDoubtful, line(err), "")
	} else {
		d.report(check, isFine, "table "+opts.Table+" with its index of open events and its time to live", "")
	}
	if err == nil {
		d.report(check, isFine, "dead events are not counted: 'flunq schedule dlq ls' reads the table", "")
	}
}

func (d *doctor) checkKafka(ctx context.Context, set cli.SchedulerSettings) {
	const check = "kafka"
	var ours, all []string // topics: of the feed, and also those that events are published on
	if set.Feed == cli.InKafka {
		ours = []string{set.Kafka.ScheduleTopic, set.Kafka.ScheduleDLQ}
		all = ours
	}
	if set.Sink == cli.InKafka {
		for _, name := range slices.Concat(set.Limits.Topics, []string{set.ExecuteTopic}, d.nextTopics(ctx, set)) {
			if name != "" && !strings.Contains(name, ":") && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	state, err := kafka.Inspect(ctx, set.Kafka, all...)
	if err != nil {
		d.report(check, isBad, err.Error(), "")
		return
	}
	text := history.Count(state.Brokers, "broker")
	if set.Feed == cli.InKafka && state.Lag >= 0 {
		text += fmt.Sprintf("; group %s has %s of %s unread", set.Kafka.Group, history.Count(state.Lag, "message"), set.Kafka.ScheduleTopic)
	}
	d.report(check, isFine, text, "")
	for _, t := range state.Topics {
		verdict, remedy := isDoubtful, ""
		if !t.Usable() {
			verdict = isBad
		}
		switch {
		case t.Missing && slices.Contains(ours, t.Name):
			remedy = "'flunq schedule init' creates it"
		case t.Missing:
			remedy = "create it: events for it become dead events"
		}
		if problem := t.Problem(); problem != "" {
			d.report(check, verdict, problem, remedy)
		}
	}
}

// nextTopics returns the topics of scheduled events: in Redis of those that are due first. Other checks
// report the errors.
func (d *doctor) nextTopics(ctx context.Context, set cli.SchedulerSettings) (topics []string) {
	if set.Records == cli.InDynamo {
		return topicsInTable(ctx, set.Dynamo())
	}
	ledger := agenda.NewLedger(d.remote.Store.Redis(), agenda.Defaults())
	events, _, _ := ledger.List(ctx, schedule.Filter{Status: schedule.Scheduled, Limit: 1000})
	for i := range events {
		topics = append(topics, events[i].Topic)
	}
	return topics
}

// topicsInTable returns the topics of some open events in DynamoDB.
func topicsInTable(ctx context.Context, opts dynamo.Options) (topics []string) {
	const limit = 100 // one request
	table, err := dynamo.New(ctx, opts)
	if err != nil {
		return nil
	}
	open, _, _ := table.Open(ctx, time.Time{}, "")
	var ids []string
	for _, entry := range open[:min(limit, len(open))] {
		ids = append(ids, entry.ID)
	}
	events, _ := table.Get(ctx, ids)
	for _, e := range events {
		if e != nil {
			topics = append(topics, e.Topic)
		}
	}
	return topics
}

// checkScheduler checks the scheduled events in Redis, if the scheduler has been used there.
func (d *doctor) checkScheduler(ctx context.Context) {
	const check = "scheduler"
	index := agenda.NewIndex(d.remote.Store.Redis())
	counts, err := index.Counts(ctx, lateAfter)
	if errors.Is(err, schedule.ErrPartitions) {
		return // it has never been started
	}
	var members schedule.Members
	if err == nil {
		members, err = index.Members(ctx, "", 0)
	}
	if err != nil {
		d.unchecked(check, "", err)
		return
	}
	sum := schedule.Sum(counts)
	processes := len(members.Processes)
	text := fmt.Sprintf("%s scheduled, %s being published; %s, %s", history.Count(sum.Scheduled, "event"),
		history.Number(sum.Firing), history.Count(members.Count, "partition"), history.Count(processes, "process"))
	switch late := sum.Now.Sub(sum.Next); {
	case processes == 0 && sum.Scheduled+sum.Firing > 0:
		d.report(check, isBad, text+": no process publishes them", "start one with 'flunq serve --scheduler'")
	case sum.Overdue > 0:
		d.report(check, isBad, fmt.Sprintf("%s; %s overdue, for %s", text, history.Count(sum.Overdue, "event"), history.Duration(late)),
			"see the errors in the log of 'flunq serve': is the sink reachable? If processes cannot keep up, add more")
	case sum.Firing > 0 && late > lostAfter:
		d.report(check, isDoubtful, fmt.Sprintf("%s; a lease ended %s ago and no process has claimed its event", text, history.Duration(late)),
			"see the errors in the log of 'flunq serve'")
	default:
		d.report(check, isFine, text, "")
	}
	if sum.Dead > 0 {
		d.report("dead events", isDoubtful, history.Count(sum.Dead, "scheduled event")+" could not be published",
			"'flunq schedule dlq ls' says why; 'flunq schedule dlq replay' publishes them again")
	}
	if len(members.Partitions) > members.Count && members.Count > 0 {
		d.report(check, isFine, history.Count(len(members.Partitions)-members.Count, "partition")+
			" of former counts may still hold events, and are served until they are empty", "")
	}
}
