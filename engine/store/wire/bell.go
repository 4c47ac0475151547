package wire

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Bell reports when keys of a cluster are written, so that readers need not poll them: a blocking read
// covers the keys of only one slot. It uses the tracking of Redis 6 (CLIENT TRACKING), over one
// connection to each master: a key that was read over it is reported once, when it is next written.
// A busy key costs nothing, because it is not watched again until a reader has found it empty.
type Bell struct {
	nodeOf func(ctx context.Context, key string) (node, error)

	mu      sync.Mutex
	watched map[string]watchedKey
	lines   map[string]*line // by the address of the node
	stamps  uint64
	rung    chan struct{} // closed when a key is written or a connection is lost
	failed  time.Time     // when a connection last failed
	closed  bool
	shared  map[string]any
}

// watchedKey is a key that will be reported when it is written.
type watchedKey struct {
	line  *line
	stamp uint64
}

// line is a connection that reports what is written on one node.
type line struct {
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
	lineTime  = 2 * time.Second // to connect, or to answer
	lineRetry = 5 * time.Second // before a node that refused a connection is tried again
)

func newBell(client *redis.ClusterClient) *Bell {
	nodeOf := func(ctx context.Context, key string) (node, error) {
		master, err := client.MasterForKey(ctx, key)
		if err != nil {
			return node{}, err //nolint:wrapcheck // the caller goes without
		}
		opts := master.Options()
		return node{opts.Addr, opts.Username, opts.Password, opts.Dialer}, nil
	}
	return &Bell{nodeOf: nodeOf, watched: map[string]watchedKey{}, lines: map[string]*line{}, rung: make(chan struct{})}
}

// node says how to connect to a master.
type node struct {
	address, user, password string
	dial                    func(ctx context.Context, network, address string) (net.Conn, error)
}

// BellOf returns the bell of a client of a cluster; nil if rdb is a single Redis.
//
//go:noinline
func BellOf(rdb Redis) *Bell {
	if c := asCluster(rdb); c != nil {
		return c.bell
	}
	return nil
}

// Stamps returns a number for each key that stays the same while the key is watched and not written;
// 0 if the key is not watched. A key whose slot moves to another node is deleted from its old node,
// which is reported like a write.
func (b *Bell) Stamps(keys []string) []uint64 {
	out := make([]uint64, len(keys))
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, key := range keys {
		out[i] = b.watched[key].stamp
	}
	return out
}

// Wake closes the channel of Rung, as if a key had been written.
func (b *Bell) Wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.rung)
	b.rung = make(chan struct{})
}

// Shared returns a value that all users of the bell share under a name: the result of first in the
// first call with that name.
func (b *Bell) Shared(name string, first func() any) any {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shared == nil {
		b.shared = map[string]any{}
	}
	if b.shared[name] == nil {
		b.shared[name] = first()
	}
	return b.shared[name]
}

// Rung returns a channel that is closed when a watched key is written, or can no longer be watched.
func (b *Bell) Rung() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rung
}

// Watch watches keys. Anything written after it returns is reported. A key that cannot be watched
// keeps the stamp 0.
func (b *Bell) Watch(ctx context.Context, keys []string) {
	nodes, keysOf := map[string]node{}, map[string][]string{}
	for _, key := range keys {
		if n, err := b.nodeOf(ctx, key); err == nil {
			nodes[n.address] = n
			keysOf[n.address] = append(keysOf[n.address], key)
		}
	}
	var all sync.WaitGroup
	for address, n := range nodes {
		all.Go(func() {
			if l := b.line(ctx, n); l != nil {
				l.watch(keysOf[address])
			}
		})
	}
	all.Wait()
}

// line returns the connection to a node, or nil if there is none at the moment.
func (b *Bell) line(ctx context.Context, n node) *line {
	b.mu.Lock()
	l, refused := b.lines[n.address], b.closed || time.Since(b.failed) < lineRetry
	b.mu.Unlock()
	if l != nil || refused {
		return l
	}
	l, err := connectLine(ctx, n)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		if _, said := errors.AsType[refusal](err); said { // an old Redis, or a forbidden command
			b.failed = time.Now()
		}
		return nil
	}
	if other := b.lines[n.address]; other != nil || b.closed {
		_ = l.conn.Close()
		return other
	}
	b.lines[n.address] = l
	go b.listen(n.address, l)
	return l
}

// connectLine makes a connection that uses RESP 3, with which Redis pushes reports.
func connectLine(ctx context.Context, n node) (*line, error) {
	ctx, cancel := context.WithTimeout(ctx, lineTime)
	defer cancel()
	conn, err := n.dial(ctx, "tcp", n.address)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller goes without
	}
	l := &line{conn: conn, in: bufio.NewReader(conn)}
	hello := []string{"hello", "3"}
	if n.password != "" {
		hello = append(hello, "auth", cmp.Or(n.user, "default"), n.password)
	}
	_ = conn.SetDeadline(time.Now().Add(lineTime))
	err = l.send(hello, []string{"client", "tracking", "on"})
	for range 2 {
		if err == nil {
			_, err = readValue(l.in)
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return l, nil
}

// listen reads replies and reports until the connection ends.
func (b *Bell) listen(address string, l *line) {
	for {
		v, err := readValue(l.in)
		if _, said := errors.AsType[refusal](err); err != nil && !said {
			break
		}
		if v.push {
			b.ring(l, v.texts)
			continue
		}
		l.mu.Lock()
		next := l.waiting[:min(1, len(l.waiting))]
		l.waiting = l.waiting[len(next):]
		l.mu.Unlock()
		for _, w := range next {
			if err == nil {
				b.watch(l, w.key)
			}
			w.done <- err
		}
	}
	_ = l.conn.Close()
	b.mu.Lock()
	if b.lines[address] == l {
		delete(b.lines, address)
	}
	b.mu.Unlock()
	b.ring(l, nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.waiting {
		w.done <- io.ErrUnexpectedEOF
	}
	l.waiting, l.ended = nil, true
}

// watch records that a key is now watched, unless it already was.
func (b *Bell) watch(l *line, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watched[key].line != l {
		b.stamps++
		b.watched[key] = watchedKey{l, b.stamps}
	}
}

// ring ends the watch of the keys that a report names, or of all keys of the connection if it names
// none, and wakes waiting readers.
func (b *Bell) ring(l *line, report []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(report) > 1 {
		for _, key := range report[1:] { // after "invalidate"
			delete(b.watched, key)
		}
	} else {
		for key, w := range b.watched {
			if w.line == l {
				delete(b.watched, key)
			}
		}
	}
	close(b.rung)
	b.rung = make(chan struct{})
}

func (b *Bell) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, l := range b.lines {
		_ = l.conn.Close() // listen returns
	}
}

// watch reads the lengths of streams, so that Redis reports when they change, and waits for the
// replies.
func (l *line) watch(keys []string) {
	cmds, all := make([][]string, len(keys)), make([]watching, len(keys))
	for i, key := range keys {
		cmds[i], all[i] = []string{"xlen", key}, watching{key, make(chan error, 1)}
	}
	l.write.Lock()
	l.mu.Lock()
	ended := l.ended
	if !ended {
		l.waiting = append(l.waiting, all...)
	}
	l.mu.Unlock()
	_ = l.conn.SetWriteDeadline(time.Now().Add(lineTime))
	err := l.send(cmds...)
	l.write.Unlock()
	if ended {
		return
	}
	if err != nil {
		_ = l.conn.Close()
	}
	limit := time.AfterFunc(lineTime, func() { _ = l.conn.Close() })
	defer limit.Stop()
	for _, w := range all {
		<-w.done //nolint:errcheck // a key that failed is not watched
	}
}

// send writes commands.
func (l *line) send(cmds ...[]string) error {
	var out []byte
	for _, cmd := range cmds {
		out = append(strconv.AppendInt(append(out, '*'), int64(len(cmd)), 10), "\r\n"...)
		for _, arg := range cmd {
			out = append(strconv.AppendInt(append(out, '$'), int64(len(arg)), 10), "\r\n"...)
			out = append(append(out, arg...), "\r\n"...)
		}
	}
	_, err := l.conn.Write(out)
	return err //nolint:wrapcheck // the caller closes the connection
}

// refusal is an error that Redis has replied.
type refusal string

func (r refusal) Error() string { return string(r) }

// value is a reply or a report.
type value struct {
	push  bool     // Redis pushed it
	texts []string // of it and of what it holds
}

// readValue reads a value of RESP 3. If it is an error, readValue returns it as a refusal.
func readValue(in *bufio.Reader) (v value, err error) {
	head, err := in.ReadString('\n')
	if err != nil {
		return v, err //nolint:wrapcheck // the caller closes the connection
	}
	if head = strings.TrimRight(head, "\r\n"); head == "" {
		return v, ErrReply
	}
	n, _ := strconv.Atoi(head[1:]) // 0 where it is not a number
	switch head[0] {
	case '-':
		return v, refusal(head[1:])
	case '$', '=', '!':
		if n < 0 {
			return v, nil
		}
		text := make([]byte, n+2)
		if _, err = io.ReadFull(in, text); err == nil {
			v.texts = []string{string(text[:n])}
		}
		return v, err //nolint:wrapcheck // the caller closes the connection
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
