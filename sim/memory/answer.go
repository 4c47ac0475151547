package memory

import (
	"encoding"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/sim/resp"
)

// Answer executes a command of go-redis and sets its result, as a connection would. It returns
// false, without executing anything, if it does not support the command, which then must go
// through a connection.
func (s *Server) Answer(cmd redis.Cmder) (answered bool) {
	buffer, direct := cmd.(interface{ Buffer() *[]byte }) // the command wants the raw reply
	if !direct && !answerable(cmd) {
		return false
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.closed {
		return false
	}
	if clock, ok := cmd.(*redis.TimeCmd); ok {
		clock.SetVal(s.now.Truncate(time.Microsecond).Local())
		return true
	}
	if !s.encodeArgs(cmd.Args()) {
		return false
	}
	reply := &s.reply
	*reply = s.execute(s.args)
	raw, ok := cmd.(*redis.RawCmd)
	switch {
	case direct:
		into := buffer.Buffer()
		*into = reply.Append((*into)[:0])
	case ok:
		raw.SetVal(reply.Append(nil))
	case reply.Kind == resp.Error:
		cmd.SetErr(redisError(reply.Text))
	case !setResult(cmd, reply):
		cmd.SetErr(errors.New("in-memory redis: " + cmd.Name() + " has a reply of an unexpected type"))
	}
	return true
}

// redisError converts an error message of Redis to the type that go-redis uses.
func redisError(message string) error { return like(redis.ErrNoScript, message) }

// like converts text to the type of its first argument, which is unexported.
func like[T ~string](_ T, text string) T { return T(text) }

// answerable reports whether Answer supports a command.
func answerable(cmd redis.Cmder) bool {
	switch cmd.(type) {
	case *redis.Cmd, *redis.RawCmd, *redis.IntCmd, *redis.StatusCmd, *redis.StringCmd, *redis.BoolCmd, *redis.FloatCmd,
		*redis.SliceCmd, *redis.StringSliceCmd, *redis.MapStringStringCmd, *redis.ZSliceCmd, *redis.TimeCmd,
		*redis.XMessageSliceCmd, *redis.XPendingExtCmd:
	default:
		return false
	}
	return strings.ToLower(cmd.Name()) != "hello" // which depends on the connection
}

// encodeArgs sets s.args to the arguments as go-redis sends them. It returns false if the type
// of one is unknown.
func (s *Server) encodeArgs(args []any) bool {
	s.args = s.args[:0]
	for _, arg := range args {
		var word string
		switch arg := arg.(type) {
		case string:
			word = arg
		case []byte:
			word = string(arg)
		case int:
			word = strconv.Itoa(arg)
		case int64:
			word = strconv.FormatInt(arg, 10)
		case uint64:
			word = strconv.FormatUint(arg, 10)
		case float64:
			word = strconv.FormatFloat(arg, 'f', -1, 64)
		case bool:
			word = "0"
			if arg {
				word = "1"
			}
		case time.Time:
			word = arg.Format(time.RFC3339Nano)
		case time.Duration:
			word = strconv.FormatInt(int64(arg), 10)
		case nil:
		case encoding.BinaryMarshaler:
			text, err := arg.MarshalBinary()
			if err != nil {
				return false
			}
			word = string(text)
		default:
			return false
		}
		s.args = append(s.args, word)
	}
	return len(s.args) > 0
}

// setResult sets the result of a command. It returns false if the reply does not fit the
// command.
func setResult(cmd redis.Cmder, r *resp.Reply) (ok bool) {
	if isOK, is := cmd.(*redis.BoolCmd); is { // SET NX replies nil if it has set nothing
		isOK.SetVal(r.Kind == resp.Integer && r.Int == 1 || r.Kind == resp.Status && r.Text == "OK")
		return true
	}
	if r.Kind == resp.Nil || r.Kind == resp.NilArray {
		cmd.SetErr(redis.Nil)
		return true
	}
	switch cmd := cmd.(type) {
	case *redis.Cmd:
		value, _ := r.Value()
		cmd.SetVal(value)
		return true
	case *redis.SliceCmd:
		value, _ := r.Value()
		var elements []any
		elements, ok = value.([]any)
		cmd.SetVal(elements)
	case *redis.IntCmd:
		if r.Kind == resp.Integer {
			cmd.SetVal(r.Int)
			return true
		}
		n, err := strconv.ParseInt(r.Scalar(), 10, 64)
		cmd.SetVal(n)
		return err == nil
	case *redis.FloatCmd:
		n, err := strconv.ParseFloat(r.Scalar(), 64)
		cmd.SetVal(n)
		return err == nil
	case *redis.StringCmd:
		cmd.SetVal(r.Scalar())
		return r.Kind == resp.Bulk || r.Kind == resp.Status || r.Kind == resp.Integer
	case *redis.StatusCmd:
		cmd.SetVal(r.Scalar())
		return r.Kind == resp.Bulk || r.Kind == resp.Status || r.Kind == resp.Integer
	case *redis.StringSliceCmd:
		var texts []string
		texts, ok = r.Elements()
		cmd.SetVal(texts)
	case *redis.MapStringStringCmd:
		texts, fits := r.Elements()
		out := make(map[string]string, len(texts)/2)
		for i := 0; i+1 < len(texts); i += 2 {
			out[texts[i]] = texts[i+1]
		}
		cmd.SetVal(out)
		return fits
	case *redis.ZSliceCmd:
		return setMembers(cmd, r)
	case *redis.XMessageSliceCmd:
		return setMessages(cmd, r)
	case *redis.XPendingExtCmd:
		out := make([]redis.XPendingExt, len(r.List))
		for i := range r.List {
			parts := r.List[i].List
			out[i] = redis.XPendingExt{
				ID: parts[0].Text, Consumer: parts[1].Text, Idle: time.Duration(parts[2].Int) * time.Millisecond, RetryCount: parts[3].Int,
			}
		}
		cmd.SetVal(out)
		return r.Kind == resp.Array
	}
	return ok
}

// setMembers sets the members of a sorted set with their scores.
func setMembers(cmd *redis.ZSliceCmd, r *resp.Reply) bool {
	texts, ok := r.Elements()
	out := make([]redis.Z, len(texts)/2)
	for i := range out {
		score, err := strconv.ParseFloat(texts[2*i+1], 64)
		ok = ok && err == nil
		out[i] = redis.Z{Member: texts[2*i], Score: score}
	}
	cmd.SetVal(out)
	return ok
}

// setMessages sets the entries of a stream.
func setMessages(cmd *redis.XMessageSliceCmd, r *resp.Reply) bool {
	out := make([]redis.XMessage, len(r.List))
	for i := range r.List {
		e := &r.List[i]
		if e.Kind != resp.Entry {
			return false
		}
		out[i].ID = e.Text
		if e.Texts != nil {
			out[i].Values = make(map[string]any, len(e.Texts)/2)
		}
		for k := 0; k+1 < len(e.Texts); k += 2 {
			out[i].Values[e.Texts[k]] = e.Texts[k+1]
		}
	}
	cmd.SetVal(out)
	return r.Kind == resp.Array
}
