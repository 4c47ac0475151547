package mini

import (
	"bufio"
	"io"
	"math"
	"reflect"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"flunq.io/flunq/sim/resp"
)

// before is called by miniredis before each command. It returns true if it has executed the
// command.
func (s *Server) before(p *server.Peer, name string, args ...string) bool {
	if p == s.nested.Peer {
		return false
	}
	least := math.MaxInt // how many arguments the command needs, if it is about scripts
	switch name {
	case "EVAL", "EVALSHA":
		least = 2
	case "SCRIPT":
		least = 1
	default:
		if s.Before == nil {
			return false
		}
	}
	c := connectionOf(p)
	if c.nested {
		return false
	}
	if s.Before != nil {
		s.Before(name, args)
	}
	switch {
	case len(args) < least:
		return false
	case c.queues || c.database != 0 && name != "SCRIPT":
		return s.leave(p, name, args)
	}
	s.Lock()
	defer s.Unlock()
	reply := s.scripts.Execute(&s.runner, name, args)
	p.Block(func(w *server.Writer) { write(w, &reply) })
	return true
}

// leave lets miniredis run a script in a transaction, which only miniredis can queue, or in a
// database other than 0. It returns true if nothing is left to do.
func (s *Server) leave(p *server.Peer, name string, args []string) bool {
	s.Lock()
	script := s.scripts.Find(args[0])
	if name == "SCRIPT" && len(args) == 2 {
		s.scripts.Load(args[1])
	}
	s.Unlock()
	if name != "EVALSHA" || script == nil {
		return false
	}
	s.srv.Dispatch(p, append([]string{"EVAL", script.Source}, args[1:]...))
	return true
}

// nestedCommand executes a command of a script. Miniredis is locked.
func (s *Server) nestedCommand(args []string) resp.Reply {
	text := s.nested.send(s.srv, args)
	s.note(args, text)
	r := resp.Reader{Text: string(text)}
	reply, err := r.Reply()
	if err != nil {
		return resp.Fail("ERR the reply of miniredis: " + err.Error())
	}
	return reply
}

// write writes the reply to a script in the protocol of the client.
func write(w *server.Writer, r *resp.Reply) {
	switch r.Kind {
	case resp.Nil, resp.NilArray:
		w.WriteNull()
	case resp.Status:
		w.WriteInline(r.Text)
	case resp.Error:
		w.WriteError(r.Text)
	case resp.Integer:
		w.WriteInt(int(r.Int))
	case resp.Bulk:
		w.WriteBulk(r.Text)
	case resp.Array:
		w.WriteLen(len(r.List))
		for i := range r.List {
			write(w, &r.List[i])
		}
	case resp.Bulks, resp.Entry: // no script returns them
	}
}

// Nested reports whether a command that a peer sends is part of a script. Miniredis is locked then.
func Nested(p *server.Peer) bool { return connectionOf(p).nested }

// connection mirrors the state that miniredis keeps for a connection.
type connection struct {
	nested   bool // it belongs to a script that miniredis itself runs
	queues   bool // it is in a transaction
	database int64
}

// connectionOf reads what miniredis knows about a connection. Miniredis does not export it, so
// this takes reflection.
func connectionOf(p *server.Peer) (c connection) {
	v := reflect.ValueOf(p.Ctx)
	if !v.IsValid() { // it has not executed a command yet
		return c
	}
	v = v.Elem()
	return connection{v.FieldByName("nested").Bool(), !v.FieldByName("transaction").IsNil(), v.FieldByName("selectedDB").Int()}
}

// scriptContext returns the context that makes miniredis treat a peer's commands as those of a
// script, for which it does not lock itself. Only miniredis can create one, so this copies the
// context of a script that has run.
func scriptContext() any {
	from := reflect.ValueOf(ranScript()).Elem()
	to := reflect.New(from.Type())
	to.Elem().Set(from)
	return to.Interface()
}

// ranScript returns the context in which miniredis runs scripts on database 0.
//
//nolint:gochecknoglobals // made once for all servers, and never changed
var ranScript = sync.OnceValue(func() (context any) {
	m := miniredis.NewMiniRedis()
	if err := start(m); err != nil {
		panic(err) // it uses no port and no file
	}
	defer m.Close()
	m.Server().SetPreHook(func(p *server.Peer, name string, _ ...string) bool {
		if name == "PING" {
			context = p.Ctx
		}
		return false
	})
	m.Server().Dispatch(server.NewPeer(bufio.NewWriter(io.Discard)), []string{"EVAL", "redis.call('PING')", "0"})
	return context
})
