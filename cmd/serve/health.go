package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
)

// NewHealthCommand returns the command flunq health.
func NewHealthCommand(sh *cli.Shell) *cobra.Command {
	var at string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "health",
		Short: "Ask whether a 'flunq serve' is ready to work",
		Long: `Asks a running 'flunq serve' whether its services have started and its Redis answers
and accepts writes (/readyz). The exit code is 0 if it is ready and 1 otherwise, with the
reason, as container health checks expect. With a Redis Cluster a process is ready even
if only the tenants on some masters can work, and the response says so.`,
		Example: `  flunq health
  flunq health --http 10.0.0.7:8080`,
		GroupID:           cli.GroupOperate,
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().StringVar(&at, "http", "", "ask at `ADDRESS`, host:port (default: HTTP_ADDRESS, or "+cli.DefaultHTTP+")")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "wait for at most `DURATION`")
	c.RunE = func(c *cobra.Command, _ []string) error {
		address, err := healthAddress(sh, at)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), timeout)
		defer cancel()
		reason, err := askReady(ctx, address)
		if err != nil {
			return cli.Fail(cli.ExitFailed, err)
		}
		if reason != "" {
			reason = ", but " + cli.Printable(reason)
		}
		fmt.Fprintln(sh.Out, "ready"+reason)
		return nil
	}
	return c
}

// healthAddress returns the address to query: the flag, or where a process with the same
// settings listens.
func healthAddress(sh *cli.Shell, flag string) (string, error) {
	address := flag
	if address == "" {
		set, err := cli.ReadSettings(sh)
		if err != nil {
			return "", err
		}
		address = set.HTTP
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", cli.Misusef("--http %q: want host:port", address)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost" // it listens on all addresses
	}
	return net.JoinHostPort(host, port), nil
}

// askReady asks the process at an address whether it is ready. If not, the error says why; otherwise limit
// says what it cannot do, if anything.
func askReady(ctx context.Context, address string) (limit string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", http.NoBody)
	if err != nil {
		return "", cli.Misusef("--http %q: want host:port", address)
	}
	// Requests to this machine must not go through the environment's proxy.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if dial, ok := errors.AsType[*net.OpError](err); ok {
			err = dial.Err
		}
		return "", fmt.Errorf("nothing answers at %s: %w\nname the address of 'flunq serve' with --http or HTTP_ADDRESS", address, err)
	}
	defer func() { _ = response.Body.Close() }()
	const most = 4 << 10
	var body struct {
		Reason string `json:"reason"`
	}
	_ = json.NewDecoder(io.LimitReader(response.Body, most)).Decode(&body) // otherwise the status explains it
	if response.StatusCode == http.StatusOK {
		return body.Reason, nil
	}
	return "", fmt.Errorf("not ready: %s", cli.Printable(cmp.Or(body.Reason, response.Status)))
}
