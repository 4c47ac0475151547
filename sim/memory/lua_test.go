package memory_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim/mini"
	"flunq.io/flunq/sim/resp"
)

// luaCases holds scripts, one per line, whose replies equal those of a real Redis, including
// error messages. It has no scripts that load code, which is not supported, and no errors whose
// messages come from gopher-lua.
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
return redis.error_reply('My thing')
return redis.error_reply('MY')
return redis.error_reply('-MYERR hello')
return redis.error_reply()
return redis.error_reply(1)
return {KEYS[1], KEYS[2], ARGV[1], ARGV[2], #KEYS, #ARGV}
return redis.sha1hex('')
return redis.sha1hex()
return redis.call('SET', KEYS[1], 'v')
return redis.call('SET', KEYS[1], 'v').ok
return redis.call('GET', KEYS[1])
return redis.call('GET', 'none')
return type(redis.call('GET', 'none'))
return redis.call('HINCRBY', 'n', 'f', 2) + 1
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
return {math.floor(2.7), math.max(1, 3), string.format('%d %s %5.2f %g %q', 3, 'x', 1.005, 1e20, 'a"b'), string.rep('ab', 3), ('a,b'):find(',', 1, true)}
local t = {3, 1, 2} table.sort(t) return {table.concat(t, ','), unpack(t)}
local out = {} for k in string.gmatch('a b c', '%a') do out[#out + 1] = k end return out
local v = cjson.decode('{"a":[1,2.5,"x\\u00e9",null,true,{}],"b":{"c":"d"}}') return {v.a[1], tostring(v.a[2]), v.a[3], v.a[4] == cjson.null, v.a[5], #v.a, v.b.c}
local ok = pcall(cjson.decode, '{bad') return tostring(ok)
local ok = pcall(cjson.decode, '1 2') return tostring(ok)
local ok = pcall(cjson.decode, '') return tostring(ok)
return 2^40
return #redis.call('TIME')
return select('#', redis.call('DEL', 'none'))
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
return {0.1 + 0.2 .. '', 1e15 .. '', 2 ^ 53 .. 'x', 'a' .. 1732100000123456 .. ':' .. 3, 1 / 3 .. '', 1 / 0 .. '', 12 .. '', #(1e15 .. '')}
local function two() return 'a', 'b' end return two() .. 'c'
ARGV[1] = 'changed' return ARGV[1]
local t = {} for i = 1, 40 do t['k' .. i] = i end t.k3 = nil return {t.k1, t.k40, tostring(t.k3), #t}
local t = {a = 1, b = 2} t.a = nil return {tostring(t.a), t.b}
local s = 0 for i = 1, 3 do local x x = (x or 0) + i s = s + x end return s
return {true, false, nil, 'behind nil'}
local a = 1; if a == 2 then return 'two' elseif a == 1 then return 'one' else return 'other' end
return -(-3) - -2
`

// Scripts see and return the same as in a real Redis.
func TestLuaLikeRedis(t *testing.T) {
	t.Parallel()
	options := redistest.Options(t)
	options.Protocol = 2
	server := redis.NewClient(options)
	defer server.Close()
	_, client := openMemory(t)
	m, err := mini.New()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	onMini := wire.Passive(func() net.Conn { return resp.NewConn(m.Execute) })
	defer onMini.Close()
	for script := range strings.Lines(luaCases) {
		script = strings.TrimSpace(script)
		if script == "" {
			continue
		}
		want := luaAnswer(t, server, script)
		for _, client := range []wire.Redis{client, onMini} {
			got := luaAnswer(t, client, script)
			if strings.Contains(want, "compiling script") {
				want, got = want[:50], got[:50]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\nredis-server (-), in memory (+):\n%s", script, diff)
			}
		}
	}
}

// luaAnswer returns the reply of a script as text.
func luaAnswer(t *testing.T, client wire.Redis, script string) string {
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

// A script that fails midway leaves a clean state for the next one.
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
