package schedule

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler/schedulerpb"
	"flunq.io/flunq/engine/scheduler/server"
)

// command holds what every command that asks a scheduler needs.
type command struct {
	sh                     *cli.Shell
	format                 *cli.Choice
	address, ca, cert, key string
	tokenFile              string
	tls                    bool
}

// newCommand adds the flags that select the scheduler, and -o with some formats, by default those of a
// list.
func newCommand(c *cobra.Command, sh *cli.Shell, formats ...string) *command {
	t := &command{sh: sh, format: cli.OutputFlag(c, formats...)}
	f := c.Flags()
	f.StringVar(&t.address, "grpc", "", "use the scheduler at `ADDRESS`, host:port (SCHEDULER_ADDRESS)")
	f.BoolVar(&t.tls, "tls", false, "encrypt the connection, and trust the CAs of the system")
	f.StringVar(&t.ca, "tls-ca", "", "encrypt the connection, and trust only the CA in `FILE`")
	f.StringVar(&t.cert, "tls-cert", "", "present the client certificate in `FILE`, with --tls-key")
	f.StringVar(&t.key, "tls-key", "", "use the key of the certificate in `FILE`")
	f.StringVar(&t.tokenFile, "token-file", "", "read the bearer token from `FILE` (instead of SCHEDULER_TOKEN, the token itself)")
	return t
}

// defaultAddress is where a scheduler answers unless it is set otherwise.
const defaultAddress = "127.0.0.1:50051"

// client is a connection to a scheduler.
type client struct {
	schedulerpb.SchedulerServiceClient

	conn      *grpc.ClientConn
	address   string
	from      string // the origin of the address
	encrypted bool
}

// connect returns a client, which connects when it is first used.
func (t *command) connect(ctx context.Context) (*client, error) {
	c := &client{encrypted: t.encrypted()}
	switch dev, running := cli.ReadDevState(t.sh); {
	case t.address != "":
		c.address, c.from = t.address, "flag --grpc"
	case t.sh.Env("SCHEDULER_ADDRESS") != "":
		c.address, c.from = t.sh.Env("SCHEDULER_ADDRESS"), "environment variable SCHEDULER_ADDRESS"
	case running && dev.Scheduler != "" && dev.Answers(ctx):
		c.address, c.from = dev.Scheduler, fmt.Sprintf("flunq dev (pid %d)", dev.PID)
	default:
		c.address = defaultAddress
	}
	if _, _, err := net.SplitHostPort(c.address); err != nil {
		return nil, cli.Misusef("%s %q: want host:port", c.from, c.address)
	}
	security, err := t.security()
	if err != nil {
		return nil, cli.Fail(cli.ExitMisuse, err)
	}
	token, err := t.token()
	if err != nil {
		return nil, err
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(security), grpc.WithUserAgent("flunq/" + cli.Version().Version)}
	if token != "" {
		options = append(options, grpc.WithPerRPCCredentials(bearer(token)))
	}
	if c.conn, err = grpc.NewClient("passthrough:///"+c.address, options...); err != nil {
		return nil, cli.Misusef("%s %q: %v", c.from, c.address, err)
	}
	c.SchedulerServiceClient = schedulerpb.NewSchedulerServiceClient(c.conn)
	return c, nil
}

// bearer is a token that each call carries, even over an unencrypted connection.
type bearer string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (bearer) RequireTransportSecurity() bool { return false }

// run returns the RunE of a command that needs a client.
func (t *command) run(do func(ctx context.Context, c *client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := t.connect(cmd.Context())
		if err != nil {
			return err
		}
		defer c.close()
		return do(cmd.Context(), c, args)
	}
}

// encrypted reports whether a flag asks for TLS.
func (t *command) encrypted() bool { return t.tls || t.ca != "" || t.cert != "" || t.key != "" }

// security returns how the connection is encrypted.
func (t *command) security() (credentials.TransportCredentials, error) {
	if !t.encrypted() {
		return insecure.NewCredentials(), nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	var errs []error
	if t.ca != "" {
		pool, err := server.CertPool(t.ca)
		config.RootCAs = pool
		if err != nil {
			errs = append(errs, fmt.Errorf("--tls-ca: %w", err))
		}
	}
	if (t.cert == "") != (t.key == "") {
		errs = append(errs, errors.New("--tls-cert and --tls-key must be given together"))
	} else if t.cert != "" {
		pair, err := tls.LoadX509KeyPair(t.cert, t.key)
		if err != nil {
			errs = append(errs, fmt.Errorf("--tls-cert %s with --tls-key %s: %w", t.cert, t.key, err))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(config), errors.Join(errs...)
}

// token returns the bearer token, "" without one.
func (t *command) token() (string, error) {
	if t.tokenFile == "" {
		return t.sh.Env("SCHEDULER_TOKEN"), nil
	}
	text, err := os.ReadFile(t.tokenFile)
	if err != nil {
		return "", cli.Fail(cli.ExitMisuse, fmt.Errorf("--token-file %w", cli.WithoutVerb(t.tokenFile, err)))
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, " \t\n") {
		return "", cli.Misusef("--token-file %s: want one token and nothing else", t.tokenFile)
	}
	return token, nil
}

// completeEvents completes the ids of events with a status (EVENT_STATUS_UNSPECIFIED: any).
func completeEvents(t *command, with schedulerpb.EventStatus) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, _ string) (ids []string, directive cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), cli.CompletionTimeout)
		defer cancel()
		directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		c, err := t.connect(ctx)
		if err != nil {
			return nil, directive
		}
		defer c.close()
		_ = c.each(ctx, &schedulerpb.ListRequest{Status: with, Limit: 50}, func(e *schedulerpb.Event) error {
			if row := rowOf(e); !slices.Contains(given, row.ID) {
				ids = append(ids, row.ID+"\t"+cli.OneLine(fmt.Sprintf("%s, %s at %s", row.Topic, strings.ToLower(string(row.Status)), clock(row.Due))))
			}
			return nil
		}) // what was read before an error is offered
		return ids, directive
	}
}

func (c *client) close() { _ = c.conn.Close() }

// unconnected returns why a request failed before it was sent; false if it may have been sent.
func unconnected(message string) (cause string, ok bool) {
	for _, before := range []string{"while dialing: ", "handshake failed: ", "reading server preface: "} {
		if _, cause, ok = strings.Cut(message, before); ok {
			return strings.TrimSuffix(cause, `"`), true
		}
	}
	return message, false
}

// unanswered reports whether a request failed after it may have reached the scheduler.
func unanswered(err error) bool {
	s, _ := status.FromError(err)
	_, unsent := unconnected(s.Message())
	return (s.Code() == codes.Unavailable || s.Code() == codes.DeadlineExceeded) && !unsent
}

// unreachable returns an error with advice for a scheduler that could not be reached.
func (c *client) unreachable(message string) error {
	cause, unsent := unconnected(message)
	advice := "its address is from: " + c.from
	switch has := func(part string) bool { return strings.Contains(cause, part) }; {
	case has("tls: first record does not look like a TLS handshake"):
		advice = "it does not encrypt connections: leave out --tls, --tls-ca and --tls-cert"
	case has("x509: certificate signed by unknown authority"):
		advice = "name the file of the CA that signed the certificate: --tls-ca FILE"
	case has("x509: certificate has expired or is not yet valid"):
		advice = "the scheduler needs another certificate (GRPC_TLS_CERT), or the clock of this machine is wrong"
	case has("x509: "):
		advice = "the address must be a name that the scheduler's certificate has (GRPC_TLS_CERT)"
	case has("tls: internal error"):
		advice = "the log of the scheduler may say why"
	case has("tls: certificate required"), c.encrypted && unsent && has("EOF"),
		c.encrypted && !unsent && (has("broken pipe") || has("connection reset by peer")):
		advice = "if it requires client certificates, give one that its GRPC_TLS_CLIENT_CA signed with --tls-cert and --tls-key"
	case has("remote error: tls: "):
		advice = "it rejects the certificate of --tls-cert: its GRPC_TLS_CLIENT_CA must have signed it, and it must be valid now"
	case strings.Contains(message, "server preface"):
		advice = "if it encrypts connections, give --tls or --tls-ca FILE"
	case c.from == "":
		advice = "start one with 'flunq dev --scheduler' or 'flunq serve --scheduler', or name its address with --grpc or SCHEDULER_ADDRESS"
	}
	if strings.Contains(cause, "tls: ") {
		return cli.Fail(cli.ExitUnreachable, fmt.Errorf("no TLS connection to the scheduler at %s: %s\n%s", c.address, cause, advice))
	}
	return cli.Fail(cli.ExitUnreachable, fmt.Errorf("the scheduler at %s does not respond: %s\n%s", c.address, cause, advice))
}

// failed adds advice and the exit code to the error of a call.
func (c *client) failed(err error) error {
	s, _ := status.FromError(err)
	switch s.Code() {
	case codes.OK:
		return nil
	case codes.Canceled:
		return context.Canceled
	case codes.Unavailable, codes.DeadlineExceeded:
		if s.Message() == schedule.StoreUnavailable {
			return cli.Fail(cli.ExitUnreachable, fmt.Errorf("the scheduler at %s answers, but its store does not: try again", c.address))
		}
		return c.unreachable(s.Message())
	case codes.Unauthenticated:
		return cli.Misusef("the scheduler at %s requires a valid token: give one with --token-file or SCHEDULER_TOKEN", c.address)
	case codes.InvalidArgument:
		return cli.Misusef("%s", s.Message())
	case codes.Internal:
		if strings.Contains(s.Message(), "error while marshaling") { // it was not sent
			return cli.Misusef("a flag or an argument is not valid UTF-8")
		}
		return c.unexpected(s)
	case codes.ResourceExhausted:
		return cli.Fail(cli.ExitLimit, fmt.Errorf("the scheduler at %s refuses: %s", c.address, s.Message()))
	case codes.Unimplemented:
		return fmt.Errorf("the server at %s does not offer this: %s", c.address, s.Message())
	default:
		return c.unexpected(s)
	}
}

func (c *client) unexpected(s *status.Status) error {
	return fmt.Errorf("the scheduler at %s: %s (%s)", c.address, s.Message(), s.Code())
}

// refused returns an error that says why a request was not carried out; nil if it was.
func refused(s *schedulerpb.Status) error {
	switch message := cmp.Or(s.GetMessage(), s.GetCode().String()); s.GetCode() {
	case schedulerpb.StatusCode_SUCCESS, schedulerpb.StatusCode_RECORD_FOUND, schedulerpb.StatusCode_NO_CONTENT:
		return nil
	case schedulerpb.StatusCode_BAD_REQUEST:
		return cli.Misusef("%s", message)
	default:
		return cli.Fail(cli.ExitFailed, errors.New(message))
	}
}
