package wire

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Tracker reports when keys of a cluster are written. Without it, readers would have to poll, because
// a blocking read covers the keys of only one slot. It uses CLIENT TRACKING of Redis 6, over one
// connection to each master: a key that was read over the connection is reported once, at its next
// write. A busy key costs nothing, because it is not watched again until a reader finds it empty.
type Tracker struct {
	nodeOf func(ctx context.Context, key string) (node, error)

	mu      sync.Mutex
	watched map[string]watchedKey
	conns   map[string]*trackingConn // by the address of the node
	stamps  uint64
	changed chan struct{}        // closed when a key is written or a connection is lost
	failed  map[string]time.Time // when a connection to a node last failed, by its address
	closed  bool
	shared  map[string]any
}

// watchedKey is a key that will be reported when it is written.
type watchedKey struct {
	conn  *trackingConn
	stamp uint64
}

// trackingConn is a connection that reports what is written on one node.
type trackingConn struct {
	conn net.Conn
	in   *bufio.Reader

	write   sync.Mutex
	mu      sync.Mutex
	waiting []watching // for replies, in their order
	ended   bool
}

// watching is a key that is about to be watched.
type watching struct {
	key  string
	done chan error
}

const (
	connTimeout = 2 * time.Second // to connect, or to reply
	connRetry   = 5 * time.Second // before another attempt to connect to a node
)

func newTracker(nodeOf func(ctx context.Context, key string) (node, error)) *Tracker {
	return &Tracker{
		nodeOf: nodeOf, watched: map[string]watchedKey{}, conns: map[string]*trackingConn{}, changed: make(chan struct{}),
		failed: map[string]time.Time{}, shared: map[string]any{},
	}
}

// node says how to connect to a master.
type node struct {
	address, user, password string
	dial                    func(ctx context.Context, network, address string) (net.Conn, error)
}

// masterOf returns a function that returns the master of a key.
func masterOf(client *redis.ClusterClient) func(ctx context.Context, key string) (node, error) {
	return func(ctx context.Context, key string) (node, error) {
		master, err := client.MasterForKey(ctx, key)
		if err != nil {
			return node{}, err
		}
		return nodeOf(master), nil
	}
}

func nodeOf(client *redis.Client) node {
	opts := client.Options()
	return node{opts.Addr, opts.Username, opts.Password, opts.Dialer}
}

// TrackerOf returns the tracker of a client of a cluster; nil if rdb is a single Redis.
//
//go:noinline
func TrackerOf(rdb Redis) *Tracker {
	if c := asCluster(rdb); c != nil {
		return c.tracker
	}
	return nil
}

// Stamps returns a number for each key, 0 if the key is not watched. It stays the same while the key
// is watched and not written. A key whose slot moves to another node is deleted from its old node,
// which is reported like a write.
func (t *Tracker) Stamps(keys []string) []uint64 {
	out := make([]uint64, len(keys))
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, key := range keys {
		out[i] = t.watched[key].stamp
	}
	return out
}

// Wake closes the channel of Changed, as if a key had been written.
func (t *Tracker) Wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.changed)
	t.changed = make(chan struct{})
}

// Shared returns the value that all users of the tracker share under a name. The first call with that
// name creates it with first.
func (t *Tracker) Shared(name string, first func() any) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shared[name] == nil {
		t.shared[name] = first()
	}
	return t.shared[name]
}

// Changed returns a channel that is closed when a watched key is written, or can no longer be watched.
func (t *Tracker) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

// Watch watches keys. Anything written after it returns is reported. A key that cannot be watched
// keeps the stamp 0.
func (t *Tracker) Watch(ctx context.Context, keys []string) {
	nodes, keysOf := map[string]node{}, map[string][]string{}
	for _, key := range keys {
		if n, err := t.nodeOf(ctx, key); err == nil {
			nodes[n.address] = n
			keysOf[n.address] = append(keysOf[n.address], key)
		}
	}
	var all sync.WaitGroup
	for address, n := range nodes {
		all.Go(func() {
			if c := t.connection(ctx, n); c != nil {
				c.watch(keysOf[address])
			}
		})
	}
	all.Wait()
}

// connection returns the connection to a node, or nil if it cannot connect now.
func (t *Tracker) connection(ctx context.Context, n node) *trackingConn {
	t.mu.Lock()
	c, refused := t.conns[n.address], t.closed || time.Since(t.failed[n.address]) < connRetry
	t.mu.Unlock()
	if c != nil || refused {
		return c
	}
	c, err := connect(ctx, n, []string{"client", "tracking", "on"})
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil { // the node is down, its Redis is old, or a command is forbidden
		t.failed[n.address] = time.Now()
		return nil
	}
	if other := t.conns[n.address]; other != nil || t.closed {
		_ = c.conn.Close()
		return other
	}
	t.conns[n.address] = c
	go t.listen(n.address, c)
	return c
}

// connect opens a connection with RESP 3, since Redis pushes reports only in that protocol. It sends
// the commands and checks their replies.
func connect(ctx context.Context, n node, commands ...[]string) (*trackingConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connTimeout)
	defer cancel()
	conn, err := n.dial(ctx, "tcp", n.address)
	if err != nil {
		return nil, err
	}
	c := &trackingConn{conn: conn, in: bufio.NewReader(conn)}
	hello := []string{"hello", "3"}
	if n.password != "" {
		hello = append(hello, "auth", cmp.Or(n.user, "default"), n.password)
	}
	_ = conn.SetDeadline(time.Now().Add(connTimeout))
	err = c.send(append([][]string{hello}, commands...)...)
	for range 1 + len(commands) {
		if err == nil {
			_, err = readValue(c.in)
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return c, nil
}

// listen reads replies and reports until the connection ends.
func (t *Tracker) listen(address string, c *trackingConn) {
	for {
		v, err := readValue(c.in)
		if _, said := errors.AsType[ErrorReply](err); err != nil && !said {
			break
		}
		if v.push {
			t.invalidate(c, v.texts)
			continue
		}
		c.mu.Lock()
		next := c.waiting[:min(1, len(c.waiting))]
		c.waiting = c.waiting[len(next):]
		c.mu.Unlock()
		for _, w := range next {
			if err == nil {
				t.watch(c, w.key)
			}
			w.done <- err
		}
	}
	_ = c.conn.Close()
	t.mu.Lock()
	if t.conns[address] == c {
		delete(t.conns, address)
	}
	t.mu.Unlock()
	t.invalidate(c, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waiting {
		w.done <- io.ErrUnexpectedEOF
	}
	c.waiting, c.ended = nil, true
}

// watch records that a key is now watched, unless it was already.
func (t *Tracker) watch(c *trackingConn, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watched[key].conn != c {
		t.stamps++
		t.watched[key] = watchedKey{c, t.stamps}
	}
}

// invalidate ends the watch of the keys that a report names, or of all keys of the connection if it names
// none, and wakes waiting readers.
func (t *Tracker) invalidate(c *trackingConn, report []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(report) > 1 {
		for _, key := range report[1:] { // after "invalidate"
			delete(t.watched, key)
		}
	} else {
		maps.DeleteFunc(t.watched, func(_ string, w watchedKey) bool { return w.conn == c })
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *Tracker) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, c := range t.conns {
		_ = c.conn.Close() // listen returns
	}
}

// watch reads the lengths of streams so that Redis reports when they change, and waits for the
// replies.
func (c *trackingConn) watch(keys []string) {
	cmds, all := make([][]string, len(keys)), make([]watching, len(keys))
	for i, key := range keys {
		cmds[i], all[i] = []string{"xlen", key}, watching{key, make(chan error, 1)}
	}
	c.write.Lock()
	c.mu.Lock()
	ended := c.ended
	if !ended {
		c.waiting = append(c.waiting, all...)
	}
	c.mu.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(connTimeout))
	err := c.send(cmds...)
	c.write.Unlock()
	if ended {
		return
	}
	if err != nil {
		_ = c.conn.Close()
	}
	limit := time.AfterFunc(connTimeout, func() { _ = c.conn.Close() })
	defer limit.Stop()
	for _, w := range all {
		<-w.done //nolint:errcheck // a key that failed is not watched
	}
}

// send writes commands.
func (c *trackingConn) send(cmds ...[]string) error {
	var out []byte
	for _, cmd := range cmds {
		out = append(strconv.AppendInt(append(out, '*'), int64(len(cmd)), 10), "\r\n"...)
		for _, arg := range cmd {
			out = append(strconv.AppendInt(append(out, '$'), int64(len(arg)), 10), "\r\n"...)
			out = append(append(out, arg...), "\r\n"...)
		}
	}
	_, err := c.conn.Write(out)
	return err
}

// value is a reply or a report.
type value struct {
	push  bool     // Redis pushed it
	texts []string // its strings, including nested ones
}

// readValue reads a value of RESP 3. It returns an error reply as an ErrorReply.
func readValue(in *bufio.Reader) (v value, err error) {
	head, err := in.ReadString('\n')
	if err != nil {
		return v, err
	}
	if head = strings.TrimRight(head, "\r\n"); head == "" {
		return v, ErrReply
	}
	n, _ := strconv.Atoi(head[1:]) // 0 where it is not a number
	switch head[0] {
	case '-':
		return v, ErrorReply(head[1:])
	case '$', '=', '!':
		if n < 0 {
			return v, nil
		}
		text := make([]byte, n+2)
		if _, err = io.ReadFull(in, text); err == nil {
			v.texts = []string{string(text[:n])}
		}
		return v, err
	case '%', '|':
		n *= 2
	case '*', '~', '>':
		v.push = head[0] == '>'
	default:
		return v, nil
	}
	for ; n > 0; n-- {
		part, err := readValue(in)
		if err != nil {
			return v, err
		}
		v.texts = append(v.texts, part.texts...)
	}
	return v, nil
}
