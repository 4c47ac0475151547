// Package doctor holds the command doctor, which compares the contents of Redis with what should be
// there and suggests fixes. A check is a method that adds its findings; examine, checkServer and
// checkWork call the checks in the order of the output.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/processes"
)

// health is the verdict of a check.
type health string

// The verdicts, from best to worst.
const (
	isFine     health = "ok"
	isUnknown  health = "unknown" // the check was not possible
	isDoubtful health = "warn"
	isBad      health = "bad"
)

// finding is one line of doctor.
type finding struct {
	Check    string   `json:"check"`
	State    health   `json:"state"`
	Tenant   string   `json:"tenant,omitempty"`
	Text     string   `json:"text"`
	Remedy   string   `json:"remedy,omitempty"` // suggested fix for a problem
	Examples []string `json:"examples,omitempty"`

	number, bytes int64 // of finished executions
	unreachable   bool  // the check was not possible because Redis did not respond
}

// diagnosis is the output of doctor.
type diagnosis struct {
	Redis    string    `json:"redis"` // without its password
	From     string    `json:"from"`  // origin of the address
	Tenants  []string  `json:"tenants"`
	State    health    `json:"state"` // the worst of the findings
	Findings []finding `json:"findings"`
}

// redisCLI returns what suggested redis-cli commands need in order to connect to the Redis that was
// examined; "" if nothing is missing.
func (d *diagnosis) redisCLI() string {
	if !slices.ContainsFunc(d.Findings, func(f finding) bool { return strings.Contains(f.Remedy, "redis-cli ") }) {
		return ""
	}
	scheme, host, found := strings.Cut(d.Redis, "://")
	if !found {
		scheme, host = "redis", d.Redis
	}
	kind, isCluster := strings.CutSuffix(scheme, "-cluster")
	kind, isSentinel := strings.CutSuffix(kind, "-sentinel")
	host, _, _ = strings.Cut(host, "/")
	switch {
	case isCluster:
		return fmt.Sprintf("suggested redis-cli commands also need -c, and -u with the URL of a node (%s://host:port); repeat CONFIG on each node", kind)
	case isSentinel:
		return fmt.Sprintf("suggested redis-cli commands also need -u with the URL of the master (%s://host:port)", kind)
	case kind == "redis" && (host == "127.0.0.1:6379" || host == "localhost:6379"):
		return ""
	default:
		return "suggested redis-cli commands also need -u with the URL of this Redis"
	}
}

// NewDoctorCommand returns the command flunq doctor.
func NewDoctorCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Diagnose this Redis and suggest fixes",
		Long: `Checks Redis, its contents, the processes that run the services and the settings of this
installation, and suggests a fix for each problem. It changes nothing.

Processes register in Redis and send a heartbeat every 10 seconds. A process that is
stopped deregisters immediately; one that is killed counts as dead 30 seconds after its last
heartbeat.

Each line is ok, warn, bad, or unknown if it cannot be checked. The exit code is 4 if
something is bad, and 6 if Redis cannot be reached.

Healthy tenants share one line, and so do the checks that a master of a cluster prevents
because it does not respond. If many tenants have the same problem, the first ones are shown
and the others counted; --all and -o json show each.`,
		Example: `  flunq doctor -A
  flunq doctor -o json | jq '.findings[] | select(.state == "bad")'`,
		GroupID:           cli.GroupOperate,
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	d := &doctor{sh: sh, target: cli.TargetFlags(c, sh)}
	d.target.ReadOnly = true
	format := cli.OutputFlag(c, "table", "json", "yaml")
	c.Flags().StringVar(&d.schedulerConfig, "scheduler-config", "", "use the documented scheduler service's settings in `FILE`, as in 'flunq serve'")
	cli.AllTenantsFlag(c, &d.allTenants, "check all tenants")
	all := false
	c.Flags().BoolVar(&all, "all", false, "print each finding, even if many tenants share it")
	c.RunE = func(c *cobra.Command, _ []string) error {
		report, err := d.examine(c.Context())
		if err != nil {
			return err
		}
		if format.String() == "table" {
			report.write(sh, all)
			for _, name := range []string{"context", "redis-url"} {
				if f := c.Flags().Lookup(name); f.Changed && report.State != isFine {
					sh.Hint("suggested flunq commands also need --%s", name)
				}
			}
			if missing := report.redisCLI(); missing != "" {
				sh.Hint("%s", missing)
			}
		} else if err := cli.WriteValue(sh.Out, format.String(), report); err != nil {
			return err
		}
		if report.State == isBad {
			return cli.Reported(cli.ExitUnexpected)
		}
		return nil
	}
	return c
}

// doctor is one run of the command.
type doctor struct {
	sh         *cli.Shell
	target     *cli.Target
	allTenants bool

	schedulerConfig string // file

	remote   *cli.Remote
	settings cli.Settings
	server   store.Server
	masters  []store.Master // of a Redis Cluster
	tenants  []string
	unread   int // tenants whose streams could not be read
	findings []finding

	processes []processes.Process // the registered processes
	at        time.Time           // when they were read, by Redis' clock
}

// add adds findings.
func (d *doctor) add(findings ...finding) { d.findings = append(d.findings, findings...) }

// report adds a finding that consists of a line and a suggested fix.
func (d *doctor) report(check string, state health, text, remedy string) {
	d.add(finding{Check: check, State: state, Text: text, Remedy: remedy})
}

// unchecked adds a finding about a check that failed, unless it has failed for the same reason before.
func (d *doctor) unchecked(check, tenant string, err error) {
	f := finding{Check: check, State: isUnknown, Tenant: tenant, Text: "could not be checked: " + strings.ReplaceAll(err.Error(), "\n", "; ")}
	f.unreachable = store.Temporary(err)
	if !slices.ContainsFunc(d.findings, func(g finding) bool { return g.Check == check && g.Tenant == tenant && g.Text == f.Text }) {
		d.add(f)
	}
}

func (d *doctor) examine(ctx context.Context) (diagnosis, error) {
	d.installation()
	where, err := d.target.Resolve(ctx)
	if err != nil {
		return diagnosis{}, err
	}
	if d.remote, err = d.target.Connect(ctx); err != nil {
		return diagnosis{}, err
	}
	defer d.remote.Close()
	if err := d.checkServer(ctx); err != nil {
		return diagnosis{}, cli.Fail(cli.ExitUnreachable, err)
	}
	d.findTenants(ctx)
	if d.remote.Store.Clustered() {
		d.placement(ctx)
	}
	d.checkWork(ctx)
	out := diagnosis{
		Redis: cli.RedactedURL(where.URL.Value), From: where.URL.From, Tenants: d.tenants, State: isFine, Findings: d.findings,
	}
	order := []health{isFine, isUnknown, isDoubtful, isBad}
	for _, f := range d.findings {
		if slices.Index(order, f.State) > slices.Index(order, out.State) {
			out.State = f.State
		}
	}
	return out, ctx.Err()
}

// installation checks the version and the settings of this installation.
func (d *doctor) installation() {
	text := "flunq " + cli.Version().Version
	file, err := cli.ReadConfig(d.sh)
	if err == nil {
		file.Scheduler, err = cli.SchedulerConfig(d.sh, d.schedulerConfig, false)
		d.target.Scheduler = file.Scheduler
	}
	if err == nil {
		d.settings, _, err = cli.LoadSettings(d.sh, file)
	}
	if err != nil {
		d.settings = cli.DefaultSettings()
		d.report("flunq", isBad, text+": "+err.Error(), "flunq serve does not start with this: fix it, see 'flunq config show'")
		return
	}
	switch path, _ := cli.ConfigPath(d.sh); {
	case len(file.Contexts) > 0 || len(file.Settings) > 0:
		text += ", configuration " + path
	default:
		text += ", no configuration file"
	}
	d.report("flunq", isFine, text, "")
}

// findTenants determines the tenants to check.
func (d *doctor) findTenants(ctx context.Context) {
	d.tenants = []string{d.remote.Tenant}
	if !d.allTenants {
		others, err := d.remote.OtherTenants(ctx)
		if err != nil {
			d.unchecked("tenants", "", err)
		} else if len(others) > 0 {
			d.report("tenants", isDoubtful, fmt.Sprintf("tenant %s is not registered here, but these are: %s", d.remote.Tenant, cli.ShortList(others)), "--tenant NAME checks another tenant, -A all of them")
		}
		return
	}
	var all []string
	for _, find := range []func(context.Context) ([]string, error){
		d.remote.Store.Tenants, d.remote.Store.FindTenants, inspect.New(d.remote.Store).DeadTenants,
	} {
		found, err := find(ctx)
		if err != nil {
			d.unchecked("tenants", "", err)
		}
		all = append(all, found...)
	}
	if len(all) > 0 {
		slices.Sort(all)
		d.tenants = slices.Compact(all)
	}
}
