package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// health is what doctor thinks of something.
type health string

// The verdicts, from the best to the worst.
const (
	isFine     health = "ok"
	isUnknown  health = "unknown" // it cannot be told
	isDoubtful health = "warn"
	isBad      health = "bad"
)

// finding is one line of doctor.
type finding struct {
	Check    string   `json:"check"`
	State    health   `json:"state"`
	Tenant   string   `json:"tenant,omitempty"`
	Text     string   `json:"text"`
	Remedy   string   `json:"remedy,omitempty"` // what to do, where something is to be done
	Examples []string `json:"examples,omitempty"`

	number, bytes int64 // of the finished executions that it is about
}

// diagnosis is what doctor says.
type diagnosis struct {
	Redis    string    `json:"redis"` // without its password
	From     string    `json:"from"`  // who says that this Redis is meant
	Tenants  []string  `json:"tenants"`
	State    health    `json:"state"` // the worst of the findings
	Findings []finding `json:"findings"`
}

func newDoctorCommand(sh *shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Diagnose this Redis and suggest fixes",
		Long: `Checks the Redis, what it holds, the processes that run the services and the settings
of this installation, and suggests a fix for each problem. It changes nothing.

Processes register in Redis and send a heartbeat every 10 seconds. One that is stopped
signs off at once; one that is killed counts as dead 30 seconds after its last heartbeat.

Each line is ok, warn, bad, or unknown where Redis does not tell. The exit code is 4 if
something is bad, and 6 if Redis cannot be reached.

Of many tenants that are well there is one line for all, and of many with the same trouble
the first ones in full and the number of the others; --all and -o json show each.`,
		Example: `  flunq doctor -A
  flunq doctor -o json | jq '.findings[] | select(.state == "bad")'`,
		GroupID:           groupOperate,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	d := &doctor{sh: sh, target: targetFlags(c, sh), now: time.Now}
	format := outputFlag(c, "table", "json", "yaml")
	c.Flags().BoolVarP(&d.everyone, "all-tenants", "A", false, "look at all tenants")
	all := false
	c.Flags().BoolVar(&all, "all", false, "a line for each finding, also where many tenants have the same")
	c.RunE = func(c *cobra.Command, _ []string) error {
		report, err := d.examine(c.Context())
		if err != nil {
			return err
		}
		if format.String() == "table" {
			report.write(sh, all)
		} else if err := writeValue(sh.Out, format.String(), report); err != nil {
			return err
		}
		if report.State == isBad {
			return reported(exitUnexpected)
		}
		return nil
	}
	return c
}

// doctor is one examination.
type doctor struct {
	sh       *shell
	target   *target
	everyone bool
	now      func() time.Time

	remote   *remote
	settings settings
	server   store.Server
	tenants  []string
	findings []finding

	processes []store.Process // that have registered
	at        time.Time       // when that was read, by the clock of Redis
}

// add notes a finding.
func (d *doctor) add(f finding) { d.findings = append(d.findings, f) }

// say notes a finding that is no more than a line and what to do.
func (d *doctor) say(check string, state health, text, remedy string) {
	d.add(finding{Check: check, State: state, Text: text, Remedy: remedy})
}

// blind notes that something could not be looked at.
func (d *doctor) blind(check, tenant string, err error) {
	d.add(finding{Check: check, State: isUnknown, Tenant: tenant, Text: "could not be looked at: " + err.Error()})
}

func (d *doctor) examine(ctx context.Context) (diagnosis, error) {
	where, err := d.target.resolve(ctx)
	if err != nil {
		return diagnosis{}, err
	}
	if d.remote, err = d.target.connect(ctx); err != nil {
		return diagnosis{}, err
	}
	defer d.remote.close()
	d.installation()
	if err := d.lookAtServer(ctx); err != nil {
		return diagnosis{}, fail(exitUnreachable, err)
	}
	d.findTenants(ctx)
	d.lookAtWork(ctx)
	out := diagnosis{
		Redis: redactedURL(where.url.Value), From: where.url.From, Tenants: d.tenants, State: isFine, Findings: d.findings,
	}
	order := []health{isFine, isUnknown, isDoubtful, isBad}
	for _, f := range d.findings {
		if slices.Index(order, f.State) > slices.Index(order, out.State) {
			out.State = f.State
		}
	}
	return out, ctx.Err()
}

// redactedURL is an address without its password, which may also stand in one
// without a scheme.
func redactedURL(address string) string {
	if !strings.Contains(address, "://") {
		address = "redis://" + address
	}
	return store.Redacted(address)
}

// installation looks at what runs the commands.
func (d *doctor) installation() {
	text := "flunq " + version().Version
	file, err := readConfig(d.sh)
	if err == nil {
		d.settings, _, err = loadSettings(d.sh, file)
	}
	if err != nil {
		d.settings = defaultSettings()
		d.say("flunq", isBad, text+": "+err.Error(), "flunq serve will not start with that: mend it, and see 'flunq config show'")
		return
	}
	switch path, _ := configPath(d.sh); {
	case len(file.contexts) > 0 || len(file.settings) > 0:
		text += ", configuration " + path
	default:
		text += ", no configuration file"
	}
	d.say("flunq", isFine, text, "")
}

// findTenants are those whose work is looked at.
func (d *doctor) findTenants(ctx context.Context) {
	d.tenants = []string{d.remote.tenant}
	if !d.everyone {
		return
	}
	known, err := d.remote.store.Tenants(ctx)
	if err != nil {
		d.blind("tenants", "", err)
	}
	found, err := d.remote.store.FindTenants(ctx)
	if err != nil {
		d.blind("tenants", "", err)
	}
	dead, err := d.remote.store.DeadTenants(ctx)
	if err != nil {
		d.blind("tenants", "", err)
	}
	if all := slices.Concat(known, found, dead); len(all) > 0 {
		slices.Sort(all)
		d.tenants = slices.Compact(all)
	}
}

// shortList names a few of many.
func shortList(names []string) string {
	const few = 5
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %s more", strings.Join(names[:few], ", "), history.Number(len(names)-few))
}
