package lua_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim/lua"
	"flunq.io/flunq/sim/resp"
)

// scripts can all be compiled.
const scripts = `
return 1 + 2 * 3 - 4 / 8 % 3 ^ 2
return {1 < 2, 2 <= 2, 'a' < 'b', 'b' >= 'c', 1 == 1, 1 ~= 1, 'x' == 'x', 'x' ~= 'y', not nil, not 0}
return (nil or 'or') .. (1 and 'and') .. (false == nil and 'no' or 'yes')
local a, b, c = 1, 2 return {tostring(a), tostring(b), tostring(c)}
local t = {1, 2, x = 'y', ['z'] = 3, nil} return {#t, t.x, t['z'], t[1], t[3] == nil}
local t = {} for i = 1, 5 do t[i] = i * i end t[6] = nil return {#t, t[5], t[6] == nil}
local t = {} t[3] = 'c' t[2] = 'b' t[1] = 'a' return {#t, t[1] .. t[2] .. t[3]}
local t = {} for i = 10, 1, -3 do t[#t + 1] = i end return t
local s, n = 'text', 5 return {s['err'] == nil, s[1] == nil, s.x == nil, n}
return {string.byte('abc', 2), string.byte('abc', -1), string.byte('abc', 0) == nil, string.byte('abc', 4) == nil}
local a, b, c = string.byte('xyz', 1, 3) return {a, b, c}
local n = 0 while true do n = n + 1 if n > 5 then break end end return n
local n = 0 for i = 1, 3 do for j = 1, 3 do if j == 2 then break end n = n + 1 end end return n
local out = {} for i, v in ipairs({'a', 'b', nil, 'd'}) do out[#out + 1] = i .. v end return out
local function f(n) if n == 0 then return 1 end return n * f(n - 1) end return f(10)
local function two() return 1, 2 end local a, b = two() return {a, b, two(), (two())}
local function two() return 1, 2 end return {two(), two()}
local function none() end local a = none() return {a == nil, tostring(a)}
local function outer(x) local function inner(y) x = x + y return x end inner(1) inner(2) return x end return outer(10)
local x = 1 local function set(v) x = v end set(5) return x
local x = 1 do local x = 2 end return x
local t = {} t[1], t[2] = 'a', 'b' local i = 1 i, t[i] = 2, 'z' return {i, t[1], t[2]}
return {unpack({1, 2, 3}, 2)}
local a, b = unpack({'x', 'y'}) return a .. b
return {string.sub('hello', 2, 3), string.sub('hello', -3), string.sub('hello', 3, 2), string.sub('hello', 0, 99), string.sub('hello', -99, -4)}
return {string.rep('ab', 3), string.rep('x', 0), string.rep('x', -1), string.rep('x', 2.7)}
return {string.len('abc'), string.upper('aB'), string.lower('aB'), #'four'}
return {string.format('%d-%s|%.0f%%', 3, 'x', 12345678901) }
return {string.find('a.b', '.', 1, true), tostring(string.find('ab', 'c', 1, true))}
return {string.match('gone:x', '^%a+:?'), string.match('12-34', '^(%d+)%-?(%d*)$')}
return {math.floor(2.7), math.ceil(2.1), math.abs(-3), math.min(3, 1, 2), math.max(3, 1, 2)}
return {table.concat({'a', 1, 'b'}), table.concat({1, 2}, ', '), table.concat({})}
local t = {} table.insert(t, 'a') table.insert(t, 'b') return t
return {tonumber('0x10'), tonumber(' 7 '), tonumber('1e2'), tostring(tonumber('x')), tostring(tonumber({}))}
return {type(nil), type(1), type('s'), type({}), type(true), type(redis.call('GET', 'a'))}
return {tostring(1e15), tostring(0.1), tostring(-0.0), tostring(2^53), 10 .. ''}
return redis.call('ECHO', 1.5, 2, 'three', unpack({'four', 5}))
return redis.call('ECHO', unpack(ARGV))
return {redis.call('LIST')[2], #redis.call('LIST'), redis.call('STATUS').ok, redis.call('STATUS')['ok']}
return redis.call('FAIL', 'x')
return redis.pcall('FAIL', 'x')
local e = redis.pcall('FAIL', 'x') return e.err
local e = redis.pcall('FAIL') if e['err'] then error(e['err'], 0) end
return redis.call('ECHO', {})
return redis.call('ECHO', nil)
return redis.call()
return redis.error_reply('BAD thing')
return redis.status_reply('GOOD')
error('boom')
error('boom', 0)
error({err = 'BOOM x'})
local t = nil return t.x
local t = {} t.x.y = 1
return 1 + {}
return 'a' .. {}
return #5
return 1 < 'x'
return {} < {}
for i = 'x', 2 do end
local function f() return f() + 1 end return f()
return {KEYS[1], KEYS[2], KEYS[3] == nil, #KEYS, #ARGV, ARGV[#ARGV]}
ARGV[1] = 'changed' return ARGV[1]
local t = {} for i = 1, 40 do t['k' .. i] = i end t.k3 = nil return {t.k1, t.k40, tostring(t.k3), #t}
local t = {a = 1, b = 2} t.a = nil return {tostring(t.a), t.b}
local s = 0 for i = 1, 3 do local x x = (x or 0) + i s = s + x end return s
return {true, false, nil, 'behind nil'}
local a = 1; if a == 2 then return 'two' elseif a == 1 then return 'one' else return 'other' end
return -(-3) - -2
`

// fake replies to the commands of scripts and records them.
type fake struct{ said []string }

func (f *fake) do(args []string) resp.Reply {
	f.said = append(f.said, strings.Join(args, " "))
	switch args[0] {
	case "ECHO":
		return resp.Strings(slices.Clone(args[1:]))
	case "LIST":
		return resp.List(resp.Int(1), resp.Text("two"), resp.Reply{}, resp.Reply{Kind: resp.Entry, Text: "1-0", Texts: []string{"a", "b"}})
	case "STATUS":
		return resp.OK()
	case "FAIL":
		return resp.Fail("WRONGTYPE it is wrong")
	default:
		return resp.Reply{}
	}
}

// said returns the reply of a script and the commands it has sent.
func said(t *testing.T, s *lua.Script) (reply resp.Reply, commands []string) {
	t.Helper()
	f := &fake{}
	r := lua.Runner{Redis: f.do}
	defer r.Close()
	return r.Run(s, s.SHA, []string{"k1", "k2"}, []string{"a1", "2", "a3"}), f.said
}

// A compiled script behaves like an interpreted one. Only the texts of Lua errors differ,
// not their lines.
func TestLikeScripts(t *testing.T) {
	t.Parallel()
	for text := range strings.Lines(scripts) {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		s, err := lua.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if s.Wants != "" {
			t.Errorf("%s\nis left to gopher-lua: %s", text, s.Wants)
		}
		want, commands := said(t, s.Interpreted())
		got, sent := said(t, s)
		if strings.Contains(want.Text, "user_script:1: ") && got.Kind == resp.Error {
			_, want.Text, _ = strings.Cut(want.Text, " script: ")
			_, got.Text, _ = strings.Cut(got.Text, " script: ")
		}
		if diff := cmp.Diff(fmt.Sprint(want, commands), fmt.Sprint(got, sent)); diff != "" {
			t.Errorf("%s\nas a script (-), as functions (+):\n%s", text, diff)
		}
	}
}

// All scripts of the engine can be compiled: an interpreter is many times slower, and
// simulations run each of them.
func TestScriptsOfTheEngine(t *testing.T) {
	t.Parallel()
	for _, script := range store.Scripts() {
		text := source(t, script)
		s, err := lua.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if s.Wants != "" {
			t.Errorf("%s\nis left to gopher-lua: %s", text, s.Wants)
		}
	}
}

// source returns the text of a script, as it is sent to Redis.
func source(t *testing.T, script *redis.Script) (text string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{})
	defer func() { _ = client.Close() }()
	client.AddHook(listener(func(cmd redis.Cmder) { text, _ = cmd.Args()[2].(string) }))
	script.Load(t.Context(), client)
	return text
}

// listener receives commands instead of Redis.
type listener func(redis.Cmder)

func (l listener) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l listener) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l listener) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		l(cmd)
		return nil
	}
}

// gopher-lua gets this wrong.
func TestSwap(t *testing.T) {
	t.Parallel()
	s, err := lua.Compile("local a, b = 1, 2 a, b = b, a return {a, b}")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := said(t, s); got.List[0].Int != 2 || got.List[1].Int != 1 {
		t.Errorf("%v, want 2 and 1", got.List)
	}
}

// Patterns match as in gopher-lua.
func TestPatterns(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "b", ".", "%a", "%d", "%D", "%-", "[ab]", "[^a]", "[a-c1]", "(", ")", "()", "*", "+", "-", "?", "$", "^", "1", "%s", "[%d_]"}
	tried := 0
	for range 20_000 {
		var pattern strings.Builder
		for range 1 + random.IntN(6) {
			pattern.WriteString(parts[random.IntN(len(parts))])
		}
		subject := make([]byte, random.IntN(7))
		for i := range subject {
			subject[i] = "ab1- _"[random.IntN(6)]
		}
		s, err := lua.Compile(fmt.Sprintf("return {string.match('%s', '%s')}", subject, pattern.String()))
		if err != nil {
			t.Fatal(err)
		}
		want, _ := said(t, s.Interpreted())
		if s.Wants != "" || want.Kind == resp.Error {
			continue // it is left to gopher-lua, or not a pattern
		}
		tried++
		if got, _ := said(t, s); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", s.Source, got, want)
		}
	}
	if tried < 5000 {
		t.Errorf("%d patterns were tried", tried)
	}
}
