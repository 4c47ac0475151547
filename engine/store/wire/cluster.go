package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// cluster is a client of a Redis Cluster. It sends each command to the master of its key, and a second
// time only if the first node has rejected it with MOVED or ASK: go-redis alone would repeat a write
// whose reply was lost.
//
// A command without a key in a pipeline goes to the node of the command before it: TIME is then the
// time of that node, and WAIT waits for the writes before it.
type cluster struct {
	*redis.ClusterClient

	tracker *Tracker
	router  *router
}

// NewCluster returns a client of a Redis Cluster.
func NewCluster(opts *redis.ClusterOptions) Redis {
	own := *opts
	own.DisableRoutingPolicies = true
	client := redis.NewClusterClient(&own)
	hook := &router{client: client}
	client.AddHook(hook)
	client.OnNewNode(addBreaker)
	return &cluster{ClusterClient: client, tracker: newTracker(masterOf(client)), router: hook}
}

// Close closes all connections.
func (c *cluster) Close() error {
	c.tracker.close()
	return c.ClusterClient.Close()
}

// asCluster returns the cluster that rdb is a client of, or nil if it is a single Redis.
func asCluster(rdb Redis) *cluster {
	if client, ok := rdb.(*Client); ok {
		rdb = client.Redis
	}
	c, _ := rdb.(*cluster)
	return c
}

// Clustered reports whether rdb is a client of a Redis Cluster.
//
//go:noinline
func Clustered(rdb Redis) bool { return asCluster(rdb) != nil }

// EachMaster calls do with each master of a cluster, in the order of their addresses, or with rdb
// itself if that is a single Redis. It stops at the first error.
func EachMaster(ctx context.Context, rdb Redis, do func(ctx context.Context, master Redis, address string) error) error {
	c := asCluster(rdb)
	if c == nil {
		return do(ctx, rdb, "")
	}
	var mu sync.Mutex
	masters := map[string]*redis.Client{}
	err := c.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters[master.Options().Addr] = master
		return nil
	})
	if err != nil {
		return err
	}
	for _, address := range slices.Sorted(maps.Keys(masters)) {
		if err := do(ctx, masters[address], address); err != nil {
			return err
		}
	}
	return nil
}

// AnyMaster calls do with one master after the other until a call succeeds so that a master that is
// down does not matter. If none succeeds, it returns the last error.
func AnyMaster(ctx context.Context, rdb Redis, do func(ctx context.Context, master Redis) error) error {
	last := errors.New("no masters")
	err := EachMaster(ctx, rdb, func(ctx context.Context, master Redis, _ string) error {
		if last != nil {
			last = do(ctx, master)
		}
		return nil
	})
	return cmp.Or(err, last)
}

// MasterOf returns a client of the node that has a key, and the address of that node, for commands
// without a key, such as SCAN. For a single Redis it returns rdb and no address.
func MasterOf(ctx context.Context, rdb Redis, key string) (master Redis, address string, err error) {
	c := asCluster(rdb)
	if c == nil {
		return rdb, "", nil
	}
	client, err := c.MasterForKey(ctx, key)
	if err != nil {
		return nil, "", err
	}
	return client, client.Options().Addr, nil
}

// router is the hook that decides where the commands of a cluster's client go.
type router struct {
	client  *redis.ClusterClient
	confirm *confirmation // nil: writes need not reach replicas
}

// DialHook implements redis.Hook.
func (*router) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (r *router) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if r.confirm != nil && r.confirm.confirms(cmd) {
			pipe := r.client.Pipeline() // which confirms it
			_ = pipe.Process(ctx, cmd)
			_, _ = pipe.Exec(ctx)
			return cmd.Err()
		}
		// go-redis sends SCRIPT and DBSIZE to all nodes itself.
		if _, ok := keyOf(cmd); ok || cmd.Name() == "script" || cmd.Name() == "dbsize" {
			cmd.SetErr(next(ctx, once{cmd}))
		} else if node, err := r.client.MasterForKey(ctx, ""); err != nil { // not any of the configured addresses, which may be gone
			cmd.SetErr(err)
		} else {
			cmd.SetErr(node.Process(ctx, cmd))
		}
		markRefused(cmd)
		r.follow(ctx, []redis.Cmder{cmd})
		return settled(cmd)
	}
}

// once is a command that go-redis must not repeat.
type once struct{ redis.Cmder }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// ProcessPipelineHook implements redis.Hook.
func (r *router) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 0 && cmds[0].Name() == "multi" {
			return next(ctx, cmds)
		}
		parts, err := r.split(ctx, cmds)
		if err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		var others sync.WaitGroup
		for i := 1; i < len(parts); i++ {
			others.Go(func() { parts[i].send(ctx, r.confirm) })
		}
		if len(parts) > 0 {
			parts[0].send(ctx, r.confirm)
		}
		others.Wait()
		r.follow(ctx, cmds)
		for _, cmd := range cmds {
			if otherErr := settled(cmd); err == nil {
				err = otherErr
			}
		}
		return err
	}
}

// part is the part of a pipeline that one node gets.
type part struct {
	address string // named by another node; "" if the commands were not redirected
	node    *redis.Client
	cmds    []redis.Cmder
}

// send sends the commands over one connection and sets their errors.
func (p *part) send(ctx context.Context, confirm *confirmation) {
	_ = confirm.send(ctx, p.node, p.cmds, func(cmds []redis.Cmder) error {
		pipe := p.node.Pipeline()
		_ = pipe.BatchProcess(ctx, cmds...)
		_, err := pipe.Exec(ctx)
		return err
	})
	for _, cmd := range p.cmds {
		markRefused(cmd)
	}
}

// split divides commands among the nodes of their keys. A command without a key goes to the node of
// the command before it, the first ones to that of the first command with a key.
func (r *router) split(ctx context.Context, cmds []redis.Cmder) ([]part, error) {
	var parts []part
	at, waiting := -1, 0 // commands before the first one with a key
	for i, cmd := range cmds {
		key, ok := keyOf(cmd)
		if !ok && at < 0 && i+1 < len(cmds) {
			waiting++
			continue
		}
		if ok || at < 0 {
			node, err := r.client.MasterForKey(ctx, key)
			if err != nil {
				return nil, err
			}
			if at < 0 || parts[at].node != node {
				at = slices.IndexFunc(parts, func(p part) bool { return p.node == node })
			}
			if at < 0 {
				at, parts = len(parts), append(parts, part{node: node})
			}
		}
		parts[at].cmds = append(parts[at].cmds, cmds[i-waiting:i+1]...)
		waiting = 0
	}
	return parts, nil
}

// redirection returns the address of the node to which a command must be sent because another node has
// rejected it; "" if none has.
func redirection(cmd redis.Cmder) (address string, asking bool) {
	err := cmd.Err()
	if err == nil {
		return "", false
	}
	if address, moved := redis.IsMovedError(err); moved {
		return address, false
	}
	address, asking = redis.IsAskError(err)
	return address, asking
}

// rawReply is a command whose reply go-redis hands over unchanged, even if it is an error.
type rawReply interface {
	redis.Cmder

	reply() Reply
	reset() // makes room for another reply
}

// markRefused makes a redirection in a raw reply the error of its command.
func markRefused(cmd redis.Cmder) {
	raw, ok := cmd.(rawReply)
	if !ok || cmd.Err() != nil {
		return
	}
	reply := raw.reply()
	if err := reply.Err(); redis.HasErrorPrefix(err, "MOVED ") || redis.HasErrorPrefix(err, "ASK ") {
		cmd.SetErr(err)
	}
}

// settled returns the error of a command. A redirection that led nowhere, because a slot is being
// moved, becomes a temporary error.
func settled(cmd redis.Cmder) error {
	if address, _ := redirection(cmd); address != "" {
		cmd.SetErr(fmt.Errorf("the cluster is being rearranged: %w", cmd.Err()))
	}
	return cmd.Err()
}

// maxRedirects is the number of times that one command is redirected.
const maxRedirects = 3

// follow sends commands that a node has rejected to the node that has their key.
func (r *router) follow(ctx context.Context, cmds []redis.Cmder) {
	for range maxRedirects {
		var parts []part
		for _, cmd := range cmds {
			address, asking := redirection(cmd)
			if address == "" {
				continue
			}
			at := slices.IndexFunc(parts, func(p part) bool { return p.address == address })
			if at < 0 {
				at, parts = len(parts), append(parts, part{address: address, node: r.nodeAt(ctx, address)})
			}
			if parts[at].node == nil {
				continue
			}
			if raw, ok := cmd.(rawReply); ok {
				raw.reset()
			}
			cmd.SetErr(nil)
			if asking {
				parts[at].cmds = append(parts[at].cmds, redis.NewStatusCmd(ctx, "asking"))
			}
			parts[at].cmds = append(parts[at].cmds, cmd)
		}
		if len(parts) == 0 {
			return
		}
		for _, p := range parts {
			if p.node != nil { // a node that the client does not know yet may be known at the next attempt
				p.send(ctx, r.confirm)
			}
		}
	}
}

// nodeAt returns the client of the master at an address, or nil. It makes the client reload which node
// has which slots.
func (r *router) nodeAt(ctx context.Context, address string) (found *redis.Client) {
	if address == "" {
		return nil
	}
	var mu sync.Mutex
	_ = r.client.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		if master.Options().Addr == address {
			found = master
		}
		return nil
	})
	return found
}

// keyOf returns the first key of a command; false if it has none.
func keyOf(cmd redis.Cmder) (string, bool) {
	if k, ok := cmd.(keyedTime); ok {
		return k.key, true
	}
	args, at := cmd.Args(), 1
	switch cmd.Name() {
	case "time", "ping", "wait", "info", "config", "script", "client", "cluster", "command", "role", "dbsize", "scan", "echo", "publish", "asking":
		return "", false
	case "eval", "evalsha", "eval_ro", "evalsha_ro":
		at = 3 // after the script and the number of keys
		if len(args) <= at || fmt.Sprint(args[2]) == "0" {
			return "", false
		}
	case "xgroup", "xinfo", "memory", "object":
		at = 2
	case "xread", "xreadgroup":
		at = 1 + slices.IndexFunc(args, func(arg any) bool { text, _ := arg.(string); return strings.EqualFold(text, "streams") })
	}
	if at >= len(args) {
		return "", false
	}
	return fmt.Sprint(args[at]), true
}
