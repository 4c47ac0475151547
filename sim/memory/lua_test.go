package memory_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/redistest"
)

// luaCases are scripts, one per line, whose whole reply is that of a real Redis,
// including the texts of errors. Missing are scripts that load code, which is not
// supported, and errors whose texts come from gopher-lua.
const luaCases = `
return 1
return 'text'
return nil
return true
return false
return {1, 2, nil, 4}
return {1.9, -1.9, 'a', true, false}
return {1, {2, {3, 'x'}}, {}}
return {ok='FINE'}
return {err='MYERR x'}
return redis.status_reply('FINE')
return redis.error_reply('My thing')
return redis.error_reply('MY')
return redis.error_reply('-MYERR hello')
return redis.error_reply()
return redis.error_reply(1)
return {KEYS[1], KEYS[2], ARGV[1], ARGV[2], #KEYS, #ARGV}
return redis.sha1hex('')
return redis.sha1hex()
return redis.log(redis.LOG_NOTICE, 'x')
return redis.log()
redis.breakpoint() return 1
return redis.call('SET', KEYS[1], 'v')
return redis.call('SET', KEYS[1], 'v').ok
return redis.call('GET', KEYS[1])
return redis.call('GET', 'none')
return type(redis.call('GET', 'none'))
return redis.call('INCR', 'n') + 1
return redis.call('hget', KEYS[1], 'f')
local e = redis.pcall('hget', KEYS[1], 'f') return e
local e = redis.pcall('hget', KEYS[1], 'f') return e.err
local ok, e = pcall(redis.call, 'hget', KEYS[1], 'f') return {tostring(ok), type(e), e}
return redis.call('nosuch', 'a')
return redis.pcall('nosuch', 'a')
return redis.call('get')
return redis.call()
return redis.call({})
return redis.call('echo', nil)
return redis.call('echo', true)
return redis.call('subscribe', 'a')
return redis.call('multi')
return redis.call('eval', 'return 1', 0)
return redis.call('echo', 1732100000.5)
return redis.call('echo', 1732100000123456)
return redis.call('echo', 0.1)
return redis.call('echo', 1e20)
return redis.call('echo', -3)
return redis.call('echo', 3.0)
return {redis.call('echo', 1/0), redis.call('echo', -1/0)}
x = 1
KEYS = {}
return y
string.foo = 1
redis.call = nil
local s = 'abc' return s:upper() .. #s
return rawset(_G, 'x', 1)
return print('x')
return os.time()
return require('x')
error('boom')
error({err='BOOM x'})
syntax error here
return {type(pairs), type(ipairs), type(next), type(unpack), type(select), type(tonumber), type(rawget), type(xpcall)}
return tostring(1732100000123456)
return {tostring(nil), tostring(true), tostring(1e100), tostring(0.1), tostring(-0.0), tostring(1e15), tostring(123456789012345)}
return {tonumber('010'), tonumber('0x10'), tonumber(' 12 '), tonumber('1e3'), tonumber('ff', 16), tonumber('7', 8), tonumber('x') == nil, tonumber('1_0') == nil, tonumber('') == nil, tonumber(nil) == nil}
return tostring(math.random()) .. ',' .. math.random(100) .. ',' .. math.random(5, 1000)
math.randomseed(7) return math.random(1000000)
return {math.floor(2.7), math.max(1, 3), string.format('%d %s %5.2f %g %q', 3, 'x', 1.005, 1e20, 'a"b'), string.rep('ab', 3), ('a,b'):find(',', 1, true)}
local t = {3, 1, 2} table.sort(t) return {table.concat(t, ','), unpack(t)}
local out = {} for k in string.gmatch('a b c', '%a') do out[#out + 1] = k end return out
return cjson.encode({1, 2, 3})
return cjson.encode({1, 2, nil, 4})
return cjson.encode({a = 'x/y"\n\t\127\1'})
return cjson.encode({})
return cjson.encode({a = {}})
return cjson.encode({1.5, 1732100000123456, 1e100, true, cjson.null})
return cjson.encode('é')
local v = cjson.decode('{"a":[1,2.5,"x\\u00e9",null,true,{}],"b":{"c":"d"}}') return {v.a[1], tostring(v.a[2]), v.a[3], v.a[4] == cjson.null, v.a[5], #v.a, v.b.c}
local ok = pcall(cjson.decode, '{bad') return tostring(ok)
local ok = pcall(cjson.decode, '1 2') return tostring(ok)
local ok = pcall(cjson.decode, '') return tostring(ok)
return 2^40
return #redis.call('TIME')
return select('#', redis.call('DEL', 'none'))
`

// Scripts see and return the same as in a real Redis.
func TestLuaLikeRedis(t *testing.T) {
	t.Parallel()
	options := redistest.Options(t)
	options.Protocol = 2
	server := redis.NewClient(options)
	defer server.Close()
	_, client := openMemory(t)
	for script := range strings.Lines(luaCases) {
		script = strings.TrimSpace(script)
		if script == "" {
			continue
		}
		want := luaAnswer(t, server, script)
		got := luaAnswer(t, client, script)
		if strings.Contains(want, "compiling script") {
			want, got = want[:50], got[:50]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\nredis-server (-), in memory (+):\n%s", script, diff)
		}
	}
}

// luaAnswer returns the reply of a script as text.
func luaAnswer(t *testing.T, client *redis.Client, script string) string {
	t.Helper()
	reply, err := client.Eval(t.Context(), script, []string{"k1", "k2"}, "a1", 2).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%#v", reply)
}

// SCRIPT and EVALSHA agree on which scripts there are.
func TestLuaScriptCommands(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, client := openMemory(t)
	sha := client.ScriptLoad(ctx, "return ARGV[1]").Val()
	if got := client.ScriptExists(ctx, sha, "none").Val(); !cmp.Equal(got, []bool{true, false}) {
		t.Errorf("SCRIPT EXISTS = %v, want [true false]", got)
	}
	if got := client.EvalSha(ctx, strings.ToUpper(sha), nil, "x").Val(); got != "x" {
		t.Errorf("EVALSHA = %v, want x", got)
	}
	if err := client.ScriptLoad(ctx, "syntax error").Err(); err == nil {
		t.Error("SCRIPT LOAD took a syntax error")
	}
	client.ScriptFlush(ctx)
	if err := client.EvalSha(ctx, sha, nil, "x").Err(); !redis.HasErrorPrefix(err, "NOSCRIPT") {
		t.Errorf("EVALSHA after SCRIPT FLUSH = %v, want NOSCRIPT", err)
	}
}

// An error in the middle of a script leaves the next one a clean state.
func TestLuaForgetsFailures(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, client := openMemory(t)
	for range 1000 {
		client.Eval(ctx, "local function f(n) if n == 0 then error('x') end f(n - 1) return 1 end f(50)", nil)
		client.Eval(ctx, "KEYS[1] = 'z' table.insert(ARGV, 'left') return redis.call('nosuch')", []string{"k"}, "a")
	}
	got := client.Eval(ctx, "return {#KEYS, #ARGV, KEYS[1]}", []string{"k"}, "a").Val()
	if want := []any{int64(1), int64(1), "k"}; !cmp.Equal(got, want) {
		t.Errorf("KEYS and ARGV = %v, want %v", got, want)
	}
	many := make([]any, 7000)
	for i := range many {
		many[i] = "m"
	}
	if n := client.Eval(ctx, "return redis.call('SADD', 's', unpack(ARGV))", nil, many...).Val(); n != int64(1) {
		t.Errorf("SADD of 7000 = %v, want 1", n)
	}
}
