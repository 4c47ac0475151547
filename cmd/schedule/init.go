package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dynamo"
	"flunq.io/flunq/engine/kafka"
)

// installation is one run of schedule init.
type installation struct {
	sh     *cli.Shell
	format *cli.Choice

	config string
	dry    bool
}

func newInitCommand(sh *cli.Shell) *cobra.Command {
	i := &installation{sh: sh}
	c := &cobra.Command{
		Use:   "init",
		Short: "Create the table and the topics that a scheduler needs",
		Long: `Creates what is missing in DynamoDB and Kafka, as the settings of the scheduler name them
('flunq config show'): the table with its index and its time to live, and the topics
SCHEDULER_SCHEDULE_TOPIC and SCHEDULER_SCHEDULE_DLQ. What exists is not changed, so the command
can be repeated. A scheduler on Redis alone needs nothing.`,
		Example: `  flunq schedule init --scheduler-config config.yaml --dry-run
  SCHEDULER_RECORDS=dynamodb AWS_REGION=eu-west-1 flunq schedule init`,
		Args: cli.NoArguments,
	}
	i.format = cli.OutputFlag(c, "text", "json", "yaml")
	c.Flags().BoolVar(&i.dry, "dry-run", false, "only print what is missing")
	c.Flags().StringVar(&i.config, "scheduler-config", "", "take the settings of the documented scheduler service in `FILE` (CONFIG_PATH)")
	c.RunE = func(c *cobra.Command, _ []string) error { return i.run(c.Context()) }
	return c
}

// part is one thing that a scheduler needs.
type part struct {
	Kind    string `json:"kind"` // table or topic
	Name    string `json:"name"`
	Done    bool   `json:"done"`
	Missing string `json:"missing,omitempty"`
}

func (i *installation) run(ctx context.Context) error {
	file, err := cli.ReadConfig(i.sh)
	if err != nil {
		return err
	}
	if file.Scheduler, err = cli.SchedulerConfig(i.sh, i.config, true); err != nil {
		return err
	}
	all, _, err := cli.LoadSettings(i.sh, file)
	if err != nil {
		return err
	}
	set := all.Scheduler
	var parts []part
	var errs []error
	if set.Records == cli.InDynamo {
		one, err := i.table(ctx, set.Dynamo())
		if errs = append(errs, err); err == nil {
			parts = append(parts, one)
		}
	}
	if set.Feed == cli.InKafka {
		some, err := i.topics(ctx, set.Kafka)
		parts, errs = append(parts, some...), append(errs, err)
	}
	if len(parts) == 0 && errors.Join(errs...) == nil {
		i.sh.Hint("nothing is missing")
	}
	return errors.Join(i.print(parts), cli.Fail(cli.ExitFailed, errors.Join(errs...)))
}

// table creates the table.
func (i *installation) table(ctx context.Context, opts dynamo.Options) (part, error) {
	one := part{Kind: "table", Name: opts.Table}
	table, err := dynamo.New(ctx, opts)
	if err != nil {
		return one, err
	}
	if i.dry {
		missing, err := table.Check(ctx)
		if missing != nil {
			one.Missing = missing.Error()
		}
		return one, err
	}
	if missing := table.Ready(ctx); missing != nil {
		one.Missing = missing.Error()
	}
	err = table.Init(ctx)
	one.Done = err == nil
	return one, err
}

// topics creates the topics of the feed.
func (i *installation) topics(ctx context.Context, opts kafka.Options) (parts []part, err error) {
	created, err := kafka.Init(ctx, opts, i.dry)
	for _, name := range []string{opts.ScheduleTopic, opts.ScheduleDLQ} {
		one := part{Kind: "topic", Name: name, Done: !i.dry}
		if slices.Contains(created, name) {
			one.Missing = fmt.Sprintf("topic %s does not exist", name)
		}
		if err == nil || one.Missing != "" {
			parts = append(parts, one)
		}
	}
	return parts, err
}

func (i *installation) print(parts []part) error {
	return cli.List[part]{Line: func(p part) string {
		switch {
		case p.Missing == "":
			return p.Kind + " " + p.Name + " exists"
		case p.Done:
			return p.Kind + " " + p.Name + " created"
		default:
			return "missing: " + strings.ReplaceAll(p.Missing, "\n", "; ")
		}
	}}.Print(i.sh, i.format, parts)
}
