package lua_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/sim/lua"
	"flunq.io/flunq/sim/resp"
)

// turning is a Redis that replies differently from time to time.
type turning struct {
	fake

	reply map[string]resp.Reply
}

func (r *turning) do(args []string) resp.Reply {
	usual := r.fake.do(args)
	if other, ok := r.reply[args[0]]; ok {
		return other
	}
	return usual
}

// A Runner with recorded courses sends the same commands as the script and replies the
// same, even if the answers to the commands are new.
func TestRecalls(t *testing.T) {
	t.Parallel()
	all := append(slices.Collect(strings.Lines(scripts)), branching)
	for _, text := range all {
		s, err := lua.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		known := lua.Runner{Recalls: true}
		for i, reply := range turns() {
			got, want := turning{reply: reply}, turning{reply: reply}
			known.Redis = got.do
			other := lua.Runner{Redis: want.do}
			keys, argv := []string{"k1", "k2"}, []string{"a1", "2", "a3"}
			one, two := known.Run(s, s.SHA, keys, argv), other.Run(s, s.SHA, keys, argv)
			if diff := cmp.Diff(fmt.Sprint(two, want.said), fmt.Sprint(one, got.said)); diff != "" {
				t.Fatalf("%s\nrun %d, as it goes (-), as it is known to go (+):\n%s", text, i, diff)
			}
		}
	}
}

// branching is a script that depends on the answers to its commands.
const branching = `
local t = redis.call('LIST')
if t[2] == 'two' then redis.call('ECHO', 'second', unpack(ARGV)) elseif #t == 0 then return redis.pcall('FAIL', 'x') end
local s = redis.pcall('STATUS')
if s['err'] then return {redis.call('ECHO', 'failed', s['err']), #t} end
for i = 1, 3 do redis.call('ECHO', i, KEYS[1]) end
return {redis.call('FAIL'), 1}
`

// turns returns the unusual replies of each run.
func turns() []map[string]resp.Reply {
	failing, empty := map[string]resp.Reply{"STATUS": resp.Fail("ERR not now")}, map[string]resp.Reply{"LIST": resp.List()}
	fine := map[string]resp.Reply{"FAIL": resp.Int(7), "ECHO": resp.Text("x")}
	return []map[string]resp.Reply{nil, nil, nil, failing, failing, nil, empty, empty, nil, fine, fine, failing, nil}
}

// Other arguments or another script do not use a recorded course.
func TestRecallsNoOther(t *testing.T) {
	t.Parallel()
	f := &fake{}
	r := lua.Runner{Redis: f.do, Recalls: true}
	for _, text := range []string{"return {KEYS[1], ARGV[1], #KEYS}", "return {ARGV[1], KEYS[1], #KEYS}"} {
		s, err := lua.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			for _, words := range [][]string{{"a", "b"}, {"b", "a"}, {"a", "b", "c"}} {
				for keys := 1; keys < len(words); keys++ {
					want := (&lua.Runner{Redis: f.do}).Run(s, s.SHA, words[:keys], words[keys:])
					if got := r.Run(s, s.SHA, words[:keys], words[keys:]); !cmp.Equal(got, want) {
						t.Errorf("%s of %v: %v, want %v", text, words, got, want)
					}
				}
			}
		}
	}
}
