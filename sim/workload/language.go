package workload

import (
	"time"

	"flunq.io/flunq/engine/event"
)

// languageWorkloads cover the workflow language, one part each. Their results were
// computed by hand or by jq.
func languageWorkloads() []workload {
	return []workload{
		{
			name:  "expressions evaluate as in jq",
			input: `{"one":1,"half":0.5,"big":12345678901234567890,"text":"hello","list":[1,2,3,4,5],"deep":{"a":{"b":[{"x":7},{"c":8}],"d":"e"}},"pets":[{"name":"Milou","age":4,"tags":["white","old"]},{"name":"Rex","age":2,"tags":[]},{"name":"Fifi","age":9,"tags":["old"]}]}`,
			document: `
do:
  - all:
      set: |-
        ${ [
          ([.one == 1.0, .one == "1", .half * 2 == 1, {a: 1.0} == {a: 1}, [1, 2] == [1, 2.0], null == false, .big == .big + 1]),
          ([1 < 2, 2 <= 2, 3 > 3, 3 >= 3, "a" < "b", [1] < [1, 0], null < false, false < 0, {} > []]),
          ([1 != 2, "a" != "a", [1, [2]] != [1, [2.0]]]),
          ([.one + 2, .half + 0.25, "a" + "b", [1] + [2, 3], {a: 1, b: {c: 1}} + {b: 2}, null + 5, .missing + "x"]),
          ([.one - 3, 0.75 - .half, [1, 2, 3, 2] - [2], ([1, 1.0, "1"] - [1])]),
          ([7 * 6, 0.1 * 3, "ab" * 3, {a: {b: 1, c: 2}} * {a: {b: 3}, d: 4}]),
          ([6 / 2, 7 / 2, 1 / 4, -9 / 2, "a,b,c" / ","]),
          ([7 % 3, -7 % 3, 7 % -3, 5.9 % 3]),
          ([9007199254740993 > 9007199254740992, (.big | tostring)]),
          ([.list[0], .list[-1], .list[2:], .list[:-3], .list[1:3], .list[9], .text[1:3]]),
          ([.deep.a.b[1].c, .deep["a"]["b"][0], .deep.x?.y, (.list | .[1]), .["text"]]),
          ([.missing // 5, (false // "no"), (.one // 7), [.list[] | select(. > 2)], (empty // 3)]),
          ([(true and false), (true or error("never")), (null | not), (0 | not), (false and error("never"))]),
          ([if .one == 1 then "one" elif .one == 2 then "two" else "many" end]),
          ([reduce .list[] as $x (0; . + $x), [foreach .list[] as $x (0; . + $x; [$x, .])]]),
          ([(try error("oops") catch .), (try error({code: 4}) catch .code), [.list[] | try (if . == 3 then error("x") else . end) catch "three"], [.[]? | numbers]]),
          ([label $out | .list[] | if . > 2 then break $out else . end]),
          ([first(.list[]), last(.list[]), nth(2; .list[]), [limit(2; .list[])], [range(2; 10; 3)], [range(0)], ([5, 6] | first, last)]),
          ([(1 | until(. > 50; . * 2)), [1 | while(. < 50; . * 3)], [limit(4; 1 | repeat(. * 2))]]),
          ([(.list | map(. + 1)), (.pets | map(.name)), ({a: 1, b: 2} | map_values(. * 10)), ([1, null, 2] | map_values(. // empty))]),
          ([.deep | .. | numbers]),
          ([[.deep | paths], ([.deep | paths(type == "number")])]),
          ([(.deep | getpath(["a", "b", 1, "c"])), ({} | setpath(["x", 1]; 5)), (.list | del(.[0, 2])), (.deep | del(.a.b[0], .a.d)), (.list | delpaths([[0], [1]])), ({a: 1, b: 2, c: 3} | del(.a, .c))]),
          ([(.list | del(.[1:3])), (.list | to_entries | map(select(.key > 1)) | map(.value)), ({b: 1, a: 2} | to_entries), ([{name: "x", value: 1}] | from_entries), ({a: 1} | with_entries(.value += 1))]),
          ([(.list | add), ([] | add), (["a", "b"] | add), ([[1], [2]] | add)]),
          ([(.list | any(. > 4)), (.list | all(. > 0)), ([true, false] | any), ([true, false] | all), ([] | any), ([] | all)]),
          ([([1, [2, [3, [4]]]] | flatten), ([1, [2, [3]]] | flatten(1))]),
          ([(3.7 | floor), (3.2 | ceil), (3.5 | round), (-3.5 | round), (16 | sqrt), pow(2; 10), (100 | log10)]),
          ([(.one | tostring), ("42" | tonumber), ("1.50" | tonumber), ([1, {a: null}] | tostring), ([null, true, 1, "a", [], {}] | map(type))]),
          ([([3, 1, 2] | sort), ([{n: 2}, {n: 1}] | sort_by(.n)), ([{k: "b", n: 1}, {k: "a", n: 2}, {k: "b", n: 3}] | group_by(.k) | map(map(.n))), ([{a: 2, b: 1}, {a: 1, b: 2}] | sort_by(.b, .a) | map(.a)), ([null, true, false, 0, "a", [], {}, -1] | sort)]),
          ([([3, 1, 2] | min, max), (.pets | min_by(.age).name, max_by(.age).name), ([1, 2, 1, 3] | unique), ([{n: 1, x: 1}, {n: 1, x: 2}] | unique_by(.n) | length), ([1, 2, 3] | reverse), ("abc" | explode | reverse | implode)]),
          ([("foobar" | contains("bar")), ([1, [2, 3]] | contains([[2]])), ({a: {b: 1, c: 2}} | contains({a: {b: 1}})), ("bar" | inside("foobar")), (["a", "b"] | inside(["b", "a", "c"]))]),
          ([([1, 2, 1, 2] | indices(1)), ("a,b, cd, efg" | indices(", ")), ("abcb" | index("b")), ("abcb" | rindex("b")), ([0, 1, 2, 1] | index(1)), ([1, 2, 3, 1, 2] | indices([1, 2]))]),
          ([("foobar" | startswith("foo")), ("foobar" | endswith("foo")), ("foobar" | ltrimstr("foo")), ("foobar" | rtrimstr("bar"))]),
          ([("a, b,c" | split(", ")), ("a1b22c" | split("[0-9]+"; null)), ([1, null, "a", true] | join("-")), ([] | join(",")), ("aB" | ascii_downcase, ascii_upcase), ([65, 66] | implode), ("é" | explode, length, utf8bytelength)]),
          ([("abc-123" | test("[a-z]+-\\d+")), ("ABC" | test("b"; "i")), ("xay-xby" | [match("x(?<l>.)y"; "g").captures[0].string]), ("2026-01-31" | capture("(?<y>\\d+)-(?<m>\\d+)")), ("a1b2" | [scan("[a-z]\\d")]), ("a1b2" | [scan("([a-z])(\\d)")]), ("abc" | sub("b"; "[\(.)]")), ("aXbX" | gsub("X"; "-")), ("ab" | gsub("(?<c>.)"; "\(.c)\(.c)")), ("a1b" | [splits("\\d")])]),
          (["\(.one + 1) of \(.list | length)", ("a b&ü" | @uri), ("<a href='x'>" | @html), ([1, "a\"b", null] | @csv), ([1, "a\tb"] | @tsv), ("hello" | @base64), ("aGVsbG8=" | @base64d), ([1, {a: 2}] | @json), ("it's" | @sh), @text "n is \(.one)", @json "v: \(.list[:2])", @uri "q=\("a b")"]),
          ([(0 | todate), ("2026-01-31T12:30:00Z" | fromdate), (1767225600 | strftime("%Y-%m-%d %H:%M:%S %j %a")), ("2026-03-01" | strptime("%Y-%m-%d") | mktime), (1767225600 | gmtime | .[:3]), ("2015-03-05T23:51:47Z" | strptime("%Y-%m-%dT%H:%M:%SZ") | mktime)]),
          ([(.list | tojson), ("{\"a\":[1,2.5,null]}" | fromjson), ([nan] | .[0] | isnan), (infinite > 1e300), ([1, 1.5, 100000000000, 1e-5] | tojson)]),
          ([(.pets | INDEX(.name) | map_values(.age)), (.one | IN(1, 2)), (.list | any(IN(9, 3))), ([[1, 2], [3]] | transpose), ([[1, 2], [3, 4]] | [combinations]), ([0, 1] | [combinations(2)] | length)]),
          ([(.list | walk(if type == "number" then . * 2 else . end)), ([1, [2]] | getpath([1, 0])), (.deep | [recurse | numbers]), ([2 | recurse(if . < 20 then . * . else empty end)]), ("abc" | ascii_downcase | length), ({a: null} | has("a"), has("b")), ([1, 2] | has(1), has(2)), ({b: 1, a: 2} | keys, (to_entries | map(.key)))]),
          ([(.list | .[0] |= . + 10), (.list | .[-1] = 0), (.deep | .a.b[1].c += 1 | .a.b[1].c), ({a: 1} | .b.c = 2), ({a: 5} | .a -= 2 | .a *= 4 | .a /= 3 | .a %= 3), ({a: null, b: 1} | .a //= 7 | .b //= 8), ([1, 2, 3, 4] | (.[] | select(. > 2)) |= . * 10), ([1, 2, 3] | map(select(. != 2)))]),
          ([([1, 2, 3, 4] | (.[] | select(. % 2 == 0)) |= empty), ({a: [1, 2]} | .a |= map(. + 1)), ([[1, 2], [3]] | .[] |= length), (.list | .[1:3] = ["x"]), (.list | .[1:3] |= map(. * 2)), ({a: 1, b: 2} | to_entries | map("\(.key)=\(.value)") | join("&"))]),
          ([. as {one: $o, list: [$a, $b]} | $o + $a + $b, ([[1, 2], [3, 4]] | .[] as [$x, $y] | $x * $y), (.list as [$h] | $h), ([{a: 1}, [2]] | .[] as {a: $x} ?// [$x] | $x)]),
          ([def f(x): x * 2; def g($n): if $n <= 1 then 1 else $n * g($n - 1) end; f(.one), g(5), ([1, 2] | map(f(.)))]),
          ([(.list | length), (.text | length), ({} | length), (null | length), (-3 | length), (.pets | map(has("age")) | all), ([.pets[] | {name, old: (.age > 3)}]), {"a b": 1}."a b", {(.text): 1}]),
          ([.list[] as $x | .list[] as $y | select($x < $y and $x + $y == 6) | [$x, $y]]),
          ([(.pets | map({(.name): .age}) | add), (.pets | sort_by(-.age) | map(.name)), ([.pets[].tags[]] | unique | join(",")), (.pets | map(select(.tags | index("old"))) | length), (.pets | group_by(.age > 3) | map(length))]),
          ([("10" | tonumber + 1), ("x" | try tonumber catch "no number"), ([1, 2] | try .a catch "no object"), (try ({} - 1) catch "no"), ([.list[] | tostring] | join("")), (now | type), ([1, 2, 3] | IN(.[]; 2, 3)), ([3, 4] | tojson | fromjson | add), (["a", 1, null] | map(tostring)), ([1, 2] | @text), ("\u00e9\ud83d\ude00" | length, @base64, @uri)]),
          ([null, ({} | .a.b.c), ([] | .[3]), ({a: 3} | .a as $v | .b = $v), ([1, [2, 3]] | .[1][0]), ([{a: 1}, {a: 2}] | map(.a) | add / length), (5 | [range(.)] | map(. * .)), ([4, 5] | to_entries | map([.key, .value]))] | .[1:]),
          ([getpath(["deep", "a", "d"]), ([1, 2, 3] | .[1:] | first), ("a-b_c" | gsub("[-_](?<c>[a-z])"; .c | ascii_upcase)), ("Hello" | test("^h"; "i"), test("^h")), ("aaa" | [match("a"; "g").offset]), ("foo bar foo" | [match("foo"; "g").offset]), ("" | test("^$"))]),
          ([(.list | .[1:][0]), ([range(5)] | .[2:4] = []), ([1, 2, 3] | first |= 9), ({} | .["a", "b"] = 1), ([[0, 1], [1, 0]] | map(. == [1, 0])), ([{a: {b: 1}}, {a: {b: 2}}] | map(.a.b) | max), ({a: {x: 1}, b: 2} * {a: {y: 3}, b: {z: 4}}), ([3, [1]] | flatten | sort)])
        ] }
`,
			seeds: 4,
			want: map[string]string{
				"x": `completed [[true,false,true,true,true,false,false],[true,true,false,true,true,true,true,true,true],[true,false,false],[3,0.75,"ab",[1,2,3],{"a":1,"b":2},5,"x"],[-2,0.25,[1,3],["1"]],[42,0.30000000000000004,"ababab",{"a":{"b":3,"c":2},"d":4}],[3,3.5,0.25,-4.5,["a","b","c"]],[1,-1,1,2],[true,"12345678901234567890"],[1,5,[3,4,5],[1,2],[2,3],null,"el"],[8,{"x":7},null,2,"hello"],[5,"no",1,[3,4,5],3],[false,true,true,false,false],["one"],[15,[[1,1],[2,3],[3,6],[4,10],[5,15]]],["oops",4,[1,2,"three",4,5],[12345678901234567890,0.5,1]],[1,2],[1,5,3,[1,2],[2,5,8],[],5,6],[64,[1,3,9,27],[2,2,2,2]],[[2,3,4,5,6],["Milou","Rex","Fifi"],{"a":10,"b":20},[1,2]],[7,8],[[["a"],["a","b"],["a","b",0],["a","b",0,"x"],["a","b",1],["a","b",1,"c"],["a","d"]],[["a","b",0,"x"],["a","b",1,"c"]]],[8,{"x":[null,5]},[2,4,5],{"a":{"b":[{"c":8}]}},[3,4,5],{"b":2}],[[1,4,5],[3,4,5],[{"key":"a","value":2},{"key":"b","value":1}],{"x":1},{"a":2}],[15,null,"ab",[1,2]],[true,true,true,false,false,true],[[1,2,3,4],[1,2,[3]]],[3,4,4,-4,4,1024,2],["1",42,1.5,"[1,{\"a\":null}]",["null","boolean","number","string","array","object"]],[[1,2,3],[{"n":1},{"n":2}],[[2],[1,3]],[2,1],[null,false,true,-1,0,"a",[],{}]],[1,3,"Rex","Fifi",[1,2,3],1,[3,2,1],"cba"],[true,true,true,true,true],[[0,2],[3,7],1,3,1,[0,3]],[true,false,"bar","foo"],[["a","b,c"],["a","b","c"],"1--a-true","","ab","AB","AB",[233],1,2],[true,true,["a","b"],{"m":"01","y":"2026"},["a1","b2"],[["a","1"],["b","2"]],"a[{}]c","a-b-","aabb",["a","b"]],["2 of 5","a%20b%26%C3%BC","&lt;a href=&apos;x&apos;&gt;","1,\"a\"\"b\",","1\ta\\tb","aGVsbG8=","hello","[1,{\"a\":2}]","'it'\\''s'","n is 1","v: [1,2]","q=a%20b"],["1970-01-01T00:00:00Z",1769862600,"2026-01-01 00:00:00 001 Thu",1772323200,[2026,0,1],1425599507],["[1,2,3,4,5]",{"a":[1,2.5,null]},true,true,"[1,1.5,100000000000,0.00001]"],[{"Fifi":9,"Milou":4,"Rex":2},true,true,[[1,3],[2,null]],[[1,3],[1,4],[2,3],[2,4]],4],[[2,4,6,8,10],2,[7,8],[2,4,16,256],3,true,false,true,false,["a","b"],["a","b"]],[[11,2,3,4,5],[1,2,3,4,0],9,{"a":1,"b":{"c":2}},{"a":1},{"a":7,"b":1},[1,2,30,40],[1,3]],[[1,3],{"a":[2,3]},[2,1],[1,"x",4,5],[1,4,6,4,5],"a=1&b=2"],[4,2,12,1,1,2],[2,120,[2,4]],[5,5,0,0,3,true,[{"name":"Milou","old":true},{"name":"Rex","old":false},{"name":"Fifi","old":true}],1,{"hello":1}],[[1,5],[2,4]],[{"Fifi":9,"Milou":4,"Rex":2},["Fifi","Milou","Rex"],"old,white",2,[1,2]],[11,"no number","no object","no","12345","number",true,7,["a","1","null"],"[1,2]",2,"w6nwn5iA","%C3%A9%F0%9F%98%80"],[null,null,{"a":3,"b":3},2,1.5,[0,1,4,9,16],[[0,4],[1,5]]],["e",2,"aBC",true,false,[0,1,2],[0,8],true],[2,[0,1,4],[9,2,3],{"a":1,"b":1},[false,true],2,{"a":{"x":1,"y":3},"b":{"z":4}},[1,3]]]`,
			},
		},
		{
			name:  "each task gets its input, context and variables",
			input: `{"x":1,"y":2,"z":3}`,
			with: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do: [{one: {set: {n: '${ .n + 1 }', given: '${ $workflow.input.n }', id: '${ $workflow.id }'}}}]
`, `
document: {dsl: '1.0.3', namespace: test, name: child, version: '2.0.0'}
do: [{one: {set: {n: '${ .n + 100 }', given: '${ $workflow.input.n }', id: '${ $workflow.id }'}}}]
`},
			document: `
input: {from: '${ {n: 1, given: 4} }'}
output: {as: '${ {out: $context} }'}
do:
  - first: {set: {n: 2, list: [5, 6]}, export: {as: '${ {first: .n} }'}}
  - second:
      if: '.n == 2'
      input: {from: '${ {n: (.n + 1)} }'}
      set: {raw: '${ $task.input.n }', own: '${ $input.n }', dot: '${ .n }', name: '${ $task.name }', ref: '${ $task.reference }', context: '${ $context.first }', id: '${ $workflow.id }', given: '${ $workflow.input | length }', members: '${ $task.definition.set | length }', runtime: '${ $runtime.name }', version: '${ $workflow.definition.document.version }'}
      output: {as: '${ . + {before: $task.output.dot, input: $input.n} }'}
      export: {as: '${ $context + {second: $output, whole: (. == $output)} }'}
  - skipped: {if: '.dot == 2', set: {n: 0}, export: {as: '${ {} }'}}
  - caught:
      input: {from: '${ {n: (.dot * 10)} }'}
      try:
        - change: {set: {n: 99}}
        - no: {raise: {error: {type: https://a.example/no, status: 409, title: No, detail: '${ "n is \(.n)" }'}}}
      catch:
        as: why
        do:
          - say: {set: {n: '${ .n }', status: '${ $why.status }', title: '${ $why.title }', detail: '${ $why.detail }', at: '${ $why.instance }', type: '${ $why.type }'}}
      output: {as: '${ . + {own: $input.n, raw: $task.input.dot} }'}
      export: {as: '${ $context + {caught: .} }'}
  - silent:
      input: {from: '${ {n: 7} }'}
      try: [{change: {set: {n: 8}}}, {no: {raise: {error: {type: https://a.example/no, status: 500}}}}]
      catch: {errors: {with: {status: 500}}}
      export: {as: '${ $context + {silent: .} }'}
  - well:
      try: [{change: {set: {n: 8}}}]
      catch: {do: [{never: {set: {n: 9}}}]}
      export: {as: '${ $context + {well: .} }'}
  - while:
      for: {each: x, in: '${ [1, 2, 3, 4] }', at: i}
      while: '$x + .n < 13'
      do: [{add: {set: {n: '${ .n + $x }', i: '${ $i }'}}}]
      export: {as: '${ $context + {while: .} }'}
  - never:
      for: {in: '${ [1, 2] }'}
      while: 'false'
      do: [{add: {set: {n: 0}}}]
      export: {as: '${ $context + {never: .} }'}
  - nothing:
      for: {in: '${ null }'}
      do: [{add: {set: {n: 0}}}]
  - nested:
      for: {each: a, in: '${ [1, 2] }'}
      do:
        - inner:
            for: {each: b, in: '${ [$a, 10] }', at: j}
            do: [{add: {set: {sum: '${ (.sum // 0) + $a * $b + $j }'}}}]
      export: {as: '${ $context + {nested: .sum} }'}
  - default:
      switch:
        - other: {then: wrong}
        - this: {when: '.sum == 37', then: right}
        - that: {when: 'true', then: wrong}
  - wrong: {set: {wrong: true}, then: end}
  - right: {set: {n: 1}, then: branches}
  - jumped: {set: {wrong: true}, then: end}
  - branches:
      input: {from: '${ {n: 5, m: 6} }'}
      fork:
        branches:
          - a: {set: {n: '${ .n }', c: '${ $context.first }'}, export: {as: '${ $context + {a: 1, both: "a"} }'}}
          - b: {do: [{one: {set: {n: '${ .m }'}}}, {two: {set: {n: '${ .n * 2 }'}, export: {as: '${ $context + {b: 2, both: "b"} }'}}}]}
          - c: {if: 'false', set: {n: 0}}
          - d: {for: {in: '${ [1, 2] }'}, do: [{t: {set: {n: '${ (.n // 0) + $item }'}}}]}
      output: {as: '${ map(.n) }'}
      export: {as: '${ $context + {branches: .} }'}
  - one:
      fork: {compete: true, branches: [{slow: {do: [{r: {wait: PT5S}}, {s: {set: {who: slow}, export: {as: '${ $context + {who: "slow"} }'}}}]}}, {fast: {do: [{r: {wait: PT1S}}, {s: {set: {who: fast}, export: {as: '${ $context + {who: "fast"} }'}}}]}}]}
      export: {as: '${ $context + {one: .who} }'}
  - child: {input: {from: '${ {n: 41} }'}, run: {workflow: {namespace: test, name: child, version: '1.0.0'}}, export: {as: '${ $context + {child: .} }'}}
  - told: {run: {workflow: {namespace: test, name: '${ "child" }', version: '2.0.0', input: {n: '${ .n + 1 }'}}}, output: {as: '${ .n }'}, export: {as: '${ $context + {told: .} }'}}
  - latest: {run: {workflow: {namespace: test, name: child, version: latest, input: {n: 1}}}, export: {as: '${ $context + {latest: .n} }'}}
  - block: {do: [{a: {set: {n: 3}}}, {b: {set: {n: '${ .n + 1 }'}, then: exit}}, {c: {set: {n: 100}}}], output: {as: '${ {n: (.n + 0.5)} }'}, export: {as: '${ $context + {block: .n} }'}}
  - removes: {fork: {branches: [{x: {set: {n: 1}, export: {as: '${ $context | del(.whole) }'}}}, {y: {set: {n: 2}, export: {as: '${ $context + {y: 1} }'}}}]}}
  - merge: {set: {deep: '${ {a: {b: 1}, c: [1]} * {a: {d: 2}, c: [2]} }'}, export: {as: '${ $context + {merge: .deep} }'}}
`,
			seeds: 4,
			want: map[string]string{
				"x":   `completed {"out":{"a":1,"b":2,"block":4.5,"both":"b","branches":[5,12,5,8],"caught":{"at":"/do/3/caught/try/1/no","detail":"n is 99","n":30,"own":30,"raw":3,"status":409,"title":"No","type":"https://a.example/no"},"child":{"given":41,"id":"x.1","n":42},"first":2,"latest":101,"merge":{"a":{"b":1,"d":2},"c":[2]},"nested":37,"never":{"i":1,"n":11},"one":"fast","second":{"before":3,"context":2,"dot":3,"given":3,"id":"x","input":3,"members":11,"name":"second","own":3,"raw":2,"ref":"/do/1/second","runtime":"flunq","version":"1.0.0"},"silent":{"n":7},"told":143,"well":{"n":8},"while":{"i":1,"n":11},"who":"fast","y":1}}`,
				"x.1": `completed {"given":41,"id":"x.1","n":42}`,
				"x.2": `completed {"given":43,"id":"x.2","n":143}`,
				"x.3": `completed`,
			},
		},
		{
			name: "filters accept the events that they describe",
			document: `
output: {as: '${ $context }'}
do:
  - same:
      fork:
        branches:
          - a: {listen: {to: {one: {with: {type: com.example.a}}}}}
          - b: {listen: {to: {any: [{with: {type: com.example.never}}, {with: {type: com.example.a, source: /x}}]}}}
          - c: {listen: {to: {one: {with: {type: com.example.a, data: {who: {id: 2}}}}}}}
          - d: {listen: {to: {one: {with: {type: com.example.a, data: '${ .n > 2 }'}}}}}
          - e: {listen: {to: {one: {with: {source: '/[yz]', type: 'com\.example\..'}}}}}
          - f: {listen: {to: {one: {with: {type: com.example.a, subject: one}}}, read: envelope}}
          - g: {listen: {to: {one: {with: {type: 'com.example.(a|b)x?', kind: special}}}}}
          - h: {listen: {to: {all: [{with: {type: com.example.a}}, {with: {type: com.example.a}}]}}}
      output: {as: '${ [.[0, 1, 2, 3, 4][0].n, (.[5][0] | [.type, .source, .subject, .data.n, .id]), .[6][0].n, (.[7] | map(.n))] }'}
      export: {as: '${ {same: .} }'}
  - order:
      listen: {to: {one: {with: {type: com.example.order}, correlate: {id: {from: .data.id}}}}}
      export: {as: '${ $context + {order: .[0].id} }'}
  - paid:
      listen: {to: {any: [{with: {type: com.example.paid}, correlate: {id: {from: .data.id}}}, {with: {type: com.example.failed}, correlate: {id: {from: .data.id}, n: {from: .data.n, expect: '${ $context.order - 2 }'}}}]}}
      export: {as: '${ $context + {paid: .[0].n} }'}
  - other:
      listen: {to: {one: {with: {type: com.example.other}, correlate: {id: {from: .data.id, expect: '${ 9 }'}}}}}
      export: {as: '${ $context + {other: .[0].n} }'}
  - several:
      listen: {to: {any: [{with: {type: com.example.i}}], until: '(map(.n) | add) > 5'}}
      export: {as: '${ $context + {several: map(.n)} }'}
  - each:
      listen: {to: {any: [{with: {type: com.example.j}}], until: {one: {with: {type: com.example.stop, data: {n: 2}}}}}}
      foreach:
        item: e
        at: i
        do: [{sum: {set: {n: '${ ($context.sum // 0) + $e.n + $i }'}}}]
        output: {as: '${ .n * 2 }'}
        export: {as: '${ $context + {sum: (. / 2)} }'}
      export: {as: '${ $context + {each: .} }'}
  - said:
      fork:
        branches:
          - hears: {listen: {to: {one: {with: {type: com.example.said}}}, read: envelope}}
          - says: {do: [{rest: {wait: PT1S}}, {say: {emit: {event: {with: {type: com.example.said, source: /me, subject: s, time: '2026-01-01T00:00:00Z', mood: good, data: {n: '${ $context.sum }', l: [1, {a: null}]}}}}, output: {as: '${ [.type, .id] }'}}}]}
      output: {as: '${ [(.[0][0] | [.source, .subject, .mood, .data, .specversion, .datacontenttype, .time, .id]), .[1]] }'}
      export: {as: '${ $context + {said: .} }'}
`,
			mocks: `
events:
  - {after: PT1S, type: com.example.xa, source: /x, data: {n: 1}}
  - {after: PT2S, type: com.example.a, source: /x, data: {n: 2, who: {id: 1}}}
  - {after: PT3S, type: com.example.b, source: a/y, data: {n: 3}}
  - {after: PT3.5S, type: com.example.b, source: /ya, data: {n: 3}}
  - {after: PT4S, type: com.example.a, source: /y, subject: one, data: {n: 4, who: {id: 2, of: x}}}
  - {after: PT5S, type: com.example.b, source: /x, kind: special, data: {n: 5, who: {id: 2}}}
  - {after: PT10S, type: com.example.order, source: /x, data: {n: 0}}
  - {after: PT11S, type: com.example.order, source: /x, data: {id: 7}}
  - {after: PT12S, type: com.example.paid, source: /x, data: {id: 8, n: 1}}
  - {after: PT13S, type: com.example.failed, source: /x, data: {id: 7, n: 4}}
  - {after: PT14S, type: com.example.failed, source: /x, data: {id: 7, n: 5}}
  - {after: PT15S, type: com.example.paid, source: /x, data: {id: 7, n: 6}}
  - {after: PT16S, type: com.example.other, source: /x, data: {id: 7, n: 1}}
  - {after: PT17S, type: com.example.other, source: /x, data: {id: 9, n: 2}}
  - {after: PT20S, type: com.example.i, source: /x, data: {n: 2}}
  - {after: PT21S, type: com.example.i, source: /x, data: {n: 3}}
  - {after: PT22S, type: com.example.i, source: /x, data: {n: 1}}
  - {after: PT23S, type: com.example.i, source: /x, data: {n: 9}}
  - {after: PT30S, type: com.example.j, source: /x, data: {n: 1}}
  - {after: PT31S, type: com.example.stop, source: /x, data: {n: 1}}
  - {after: PT32S, type: com.example.j, source: /x, data: {n: 10}}
  - {after: PT33S, type: com.example.stop, source: /x, data: {n: 2}}
  - {after: PT34S, type: com.example.j, source: /x, data: {n: 100}}
`,
			seeds: plainSeeds,
			want: map[string]string{
				"x": `completed {"each":[2,24],"order":7,"other":2,"paid":5,"said":[["/me","s","good",{"l":[1,{"a":null}],"n":12},"1.0","application/json","2026-01-01T00:00:00Z","x/do/6/said/fork/branches/1/says/do/1/say"],["com.example.said","x/do/6/said/fork/branches/1/says/do/1/say"]],"same":[2,2,4,4,4,["com.example.a","/y","one",4,"mock-5"],5,[2,4]],"several":[2,3,1],"sum":12}`,
			},
		},
		{
			name: "requests are sent as the document says",
			document: `
use:
  authentications:
    known: {basic: {username: me, password: 'a:b'}}
  functions:
    greet: {call: http, with: {method: get, endpoint: 'https://a.example/greet/{who}'}}
output: {as: '${ $context }'}
do:
  - begin: {set: {name: 'a/b c?ü', id: 7, flag: true, list: [1, 'x y', null, 2], form: {a: 1, b: 'x&y'}}}
  - template: {call: http, with: {method: get, endpoint: 'https://a.example/items/{name}/{id}/{flag}?q={name}'}, output: {as: '${ .n }'}, export: {as: '${ {template: .} }'}}
  - again: &begin {set: {name: 'a/b c?ü', id: 7, flag: true, list: [1, 'x y', null, 2], form: {a: 1, b: 'x&y'}}}
  - query: {call: http, with: {method: GET, endpoint: 'https://a.example/search?a=0', query: {many: '${ .list }', none: '${ null }', one: '${ .flag }', text: '${ .form.b }'}}, output: {as: '${ .n }'}, export: {as: '${ $context + {query: .} }'}}
  - third: *begin
  - post:
      call: http
      with: {method: post, endpoint: '${ "https://a.example/" + (.id | tostring) }', headers: {X-Count: '${ .id }', X-Text: 'a, b', Accept: text/plain}, body: {id: '${ .id }', list: '${ .list }', of: {me: '${ .name }'}}, output: response}
      output: {as: '${ [.statusCode, .content, .headers.etag // .headers.Etag, .request.method, .request.uri] }'}
      export: {as: '${ $context + {post: .} }'}
  - fourth: *begin
  - basic: {call: http, with: {method: put, endpoint: {uri: 'https://a.example/basic', authentication: {use: known}}, body: plain}, output: {as: '${ .n }'}, export: {as: '${ $context + {basic: .} }'}}
  - bearer: {call: http, with: {method: patch, endpoint: {uri: 'https://a.example/bearer', authentication: {bearer: {token: '${ "t" + "1" }'}}}, body: [1]}, output: {as: '${ .n }'}, export: {as: '${ $context + {bearer: .} }'}}
  - raw: {call: http, with: {method: get, endpoint: 'https://a.example/raw', output: raw}, export: {as: '${ $context + {raw: .} }'}}
  - text: {call: http, with: {method: get, endpoint: 'https://a.example/text'}, export: {as: '${ $context + {text: .} }'}}
  - empty: {call: http, with: {method: delete, endpoint: 'https://a.example/empty'}, export: {as: '${ $context + {empty: .} }'}}
  - accepted: {call: http, with: {method: post, endpoint: 'https://a.example/accepted', body: {n: 1}}, output: {as: '${ .n }'}, export: {as: '${ $context + {accepted: .} }'}}
  - created: {call: http, with: {method: post, endpoint: 'https://a.example/created'}, output: {as: '${ .n }'}, export: {as: '${ $context + {created: .} }'}}
  - moved: {call: http, with: {method: post, redirect: true, endpoint: 'https://a.example/old/moved', body: {n: 1}, headers: {X-Kept: '1'}}, output: {as: '${ .n }'}, export: {as: '${ $context + {moved: .} }'}}
  - kept: {call: http, with: {method: post, redirect: true, endpoint: 'https://a.example/old/kept', body: {n: 2}}, output: {as: '${ .n }'}, export: {as: '${ $context + {kept: .} }'}}
  - away: {call: http, with: {method: get, redirect: true, endpoint: {uri: 'https://a.example/old/away', authentication: {use: known}}}, output: {as: '${ .n }'}, export: {as: '${ $context + {away: .} }'}}
  - refusals:
      for: {each: path, in: '${ ["missing", "conflict", "late", "broken", "elsewhere"] }'}
      do:
        - ask:
            try: [{ask: {call: http, with: {method: get, endpoint: '${ "https://a.example/no/" + $path }'}}}]
            catch: {errors: {with: {type: https://serverlessworkflow.io/spec/1.0.0/errors/communication}}, as: e, do: [{say: {set: '${ [$e.status, $e.title, $e.instance] }'}}]}
            export: {as: '${ $context + {($path): .} }'}
  - none:
      try: [{ask: {call: http, with: {method: get, endpoint: 'https://a.example/items/{missing}'}}}]
      catch: {as: e, do: [{say: {set: '${ [$e.status, $e.type] }'}}]}
      export: {as: '${ $context + {none: .} }'}
  - called: {call: greet, with: {who: 'x y'}, output: {as: '${ .n }'}, export: {as: '${ $context + {called: .} }'}}
`,
			mocks: `
http:
  - {match: {method: GET, url: 'https://a.example/items/a%2Fb%20c%3F%C3%BC/7/true?q=a%2Fb%20c%3F%C3%BC'}, respond: {body: {n: 1}}}
  - {match: {method: GET, url: 'https://a.example/search?a=0&many=1&many=x%20y&many=2&one=true&text=x%26y'}, respond: {body: {n: 2}}}
  - {match: {method: POST, url: 'https://a.example/7', headers: {x-count: '7', x-text: 'a, b', accept: text/plain, content-type: application/json, idempotency-key: '*/do/5/post/0'}, body: {id: 7, list: [1, x y, null, 2], of: {me: 'a/b c?ü'}}}, respond: {status: 203, headers: {ETag: e1}, body: {n: 3}}}
  - {match: {method: PUT, url: 'https://a.example/basic', headers: {authorization: 'Basic bWU6YTpi'}, body: plain}, respond: {body: {n: 4}}}
  - {match: {method: PATCH, url: 'https://a.example/bearer', headers: {authorization: 'Bearer t1'}, body: [1]}, respond: {body: {n: 5}}}
  - {match: {url: 'https://a.example/raw'}, respond: {body: {n: 6}}}
  - {match: {url: 'https://a.example/text'}, respond: {headers: {Content-Type: text/plain}, body: 'as it is'}}
  - {match: {method: DELETE, url: 'https://a.example/empty'}, respond: {status: 204}}
  - {match: {method: POST, url: 'https://a.example/accepted', body: {n: 1}}, respond: {status: 202, body: {n: 7}}}
  - {match: {method: POST, url: 'https://a.example/created'}, respond: {status: 201, body: {n: 8}}}
  - {match: {method: POST, url: 'https://a.example/old/moved', body: {n: 1}}, respond: {status: 302, headers: {Location: /new/moved}}}
  - {match: {method: GET, url: 'https://a.example/new/moved', headers: {x-kept: '1'}}, respond: {body: {n: 9}}}
  - {match: {method: POST, url: 'https://a.example/old/kept', body: {n: 2}}, respond: {status: 307, headers: {Location: 'https://a.example/new/kept'}}}
  - {match: {method: POST, url: 'https://a.example/new/kept', body: {n: 2}}, respond: {body: {n: 10}}}
  - {match: {method: GET, url: 'https://a.example/old/away', headers: {authorization: 'Basic bWU6YTpi'}}, respond: {status: 301, headers: {Location: 'https://b.example/new'}}}
  - {match: {method: GET, url: 'https://b.example/new', headers: {authorization: '*'}}, respond: {status: 418}}
  - {match: {method: GET, url: 'https://b.example/new'}, respond: {body: {n: 11}}}
  - {match: {url: 'https://a.example/no/missing'}, respond: {status: 404}}
  - {match: {url: 'https://a.example/no/conflict'}, respond: {status: 409, body: {why: taken}}}
  - {match: {url: 'https://a.example/no/late'}, respond: {status: 504}}
  - {match: {url: 'https://a.example/no/broken'}, respond: {error: connection refused}}
  - {match: {url: 'https://a.example/no/elsewhere'}, respond: {status: 302, headers: {Location: /other}}}
  - {match: {url: 'https://a.example/greet/x%20y'}, respond: {body: {n: 12}}}
`,
			seeds: 4,
			want: map[string]string{
				"x": `completed {"accepted":7,"away":11,"basic":4,"bearer":5,"broken":[500,"Communication Error","/do/17/refusals/do/0/ask/try/0/ask"],"called":12,"conflict":[409,"Conflict","/do/17/refusals/do/0/ask/try/0/ask"],"created":8,"elsewhere":[302,"Found","/do/17/refusals/do/0/ask/try/0/ask"],"empty":null,"kept":10,"late":[504,"Gateway Timeout","/do/17/refusals/do/0/ask/try/0/ask"],"missing":[404,"Not Found","/do/17/refusals/do/0/ask/try/0/ask"],"moved":9,"none":[400,"https://serverlessworkflow.io/spec/1.0.0/errors/expression"],"post":[203,{"n":3},"e1","post","https://a.example/7"],"query":2,"raw":"eyJuIjo2fQ==","template":1,"text":"as it is"}`,
			},
		},
		{
			name: "errors are raised, caught and retried as the document says",
			document: `
use:
  errors:
    broken: {type: https://a.example/broken, status: 503, title: Broken, detail: of use, instance: /there}
  retries:
    twice: {delay: PT1S, backoff: {exponential: {}}, limit: {attempt: {count: 2}}}
output: {as: '${ $context }'}
do:
  - begin: {set: {n: 1}, export: {as: '${ {tries: 0} }'}}
  - filters:
      for:
        each: f
        in: '${ [["x", "T", "d"], ["y", "T", "d"], ["x", "U", "d"], ["x", "T", "e"], ["other", "T", "d"]] }'
      do:
        - outer:
            try:
              - inner:
                  try:
                    - other: {if: '$f[0] == "other"', raise: {error: {type: https://a.example/x, status: 410, title: T, detail: d}}}
                    - no: {raise: {error: {type: '${ "https://a.example/" + $f[0] }', status: 409, title: '${ $f[1] }', detail: '${ $f[2] }'}}}
                  catch: {errors: {with: {type: https://a.example/x, status: 409, title: T, detail: d}}, do: [{in: {set: {who: inner}}}]}
            catch: {as: e, do: [{out: {set: {who: '${ "outer " + $e.type[18:] + " " + ($e.status | tostring) + " " + $e.title + $e.detail }'}}}]}
            export: {as: '${ $context + {filters: (($context.filters // []) + [.who])} }'}
  - conditions:
      for: {each: n, in: '${ [1, 2, 3, 4] }'}
      do:
        - outer:
            try:
              - inner:
                  try: [{no: {raise: {error: {type: https://a.example/x, status: 400, title: '${ $n | tostring }'}}}}]
                  catch: {as: e, when: '($e.title | tonumber) > 1', exceptWhen: '$e.title == "3"', do: [{in: {set: {who: inner}}}]}
            catch: {do: [{out: {set: {who: outer}}}]}
            export: {as: '${ $context + {conditions: (($context.conditions // []) + [.who])} }'}
  - kinds:
      for: {each: k, in: '${ [0, 1, 2, 3] }'}
      do:
        - one:
            try:
              - which: {switch: [{a: {when: '$k == 0', then: expression}}, {b: {when: '$k == 1', then: validation}}, {c: {when: '$k == 2', then: timeout}}, {d: {then: used}}]}
              - expression: {set: {n: '${ {} + 1 }'}, then: exit}
              - validation: {input: {schema: {format: json, document: {type: string}}}, set: {n: 1}, then: exit}
              - timeout: {wait: P1D, timeout: {after: PT2S}, then: exit}
              - used: {raise: {error: broken}}
            catch: {as: e, do: [{say: {set: '${ [($e.type | split("/") | last), $e.status, $e.title, $e.instance] }'}}]}
            export: {as: '${ $context + {kinds: (($context.kinds // []) + [.])} }'}
  - again:
      input: {from: '${ {n: 5} }'}
      try:
        - count: {set: {n: '${ .n + $context.tries }'}, export: {as: '${ $context + {tries: ($context.tries + 1)} }'}}
        - maybe: {switch: [{enough: {when: '$context.tries > 2', then: exit}}]}
        - no: {raise: {error: broken}}
      catch: {errors: {with: {status: 503}}, retry: twice, do: [{never: {set: {n: 0}}}]}
      export: {as: '${ $context + {again: .n} }'}
  - exhausted:
      try: [{no: {raise: {error: broken}}}]
      catch: {as: e, retry: {delay: {seconds: 3}, backoff: {linear: {}}, limit: {attempt: {count: 2}}}, do: [{say: {set: {s: '${ $e.detail }'}}}]}
      export: {as: '${ $context + {exhausted: .s} }'}
  - picky:
      try: [{no: {raise: {error: broken}}}]
      catch: {retry: {delay: P1D, when: '${ $error.status == 500 }', limit: {attempt: {count: 2}}}, do: [{say: {set: {s: picky}}}]}
      export: {as: '${ $context + {picky: .s} }'}
  - bounded:
      try: [{slow: {wait: PT7S}}, {no: {raise: {error: broken}}}]
      catch: {as: e, retry: {delay: PT1S, limit: {attempt: {count: 9, duration: PT3S}}}, do: [{say: {set: {s: '${ $e.status }'}}}]}
      timeout: {after: P9D}
      export: {as: '${ $context + {bounded: .s} }'}
  - overall:
      try: [{slow: {wait: PT5S}}, {no: {raise: {error: broken}}}]
      catch: {as: e, retry: {delay: PT1S, limit: {attempt: {count: 9}, duration: PT15S}}, do: [{say: {set: {s: '${ $e.status }'}}}, {rest: {wait: PT20S}}, {last: {set: {s: '${ $e.status + 1 }'}}}]}
      export: {as: '${ $context + {overall: .s} }'}
  - exits:
      try: [{no: {raise: {error: broken}}}]
      catch: {then: last}
      export: {as: '${ $context + {exits: .s} }'}
  - jumped: {set: {n: 0}, export: {as: '${ {} }'}}
  - last:
      try: [{late: {do: [{a: {wait: PT3S}}, {b: {wait: PT3S}}], timeout: {after: PT5S}}}]
      catch: {errors: {with: {type: timeout}}, as: e, do: [{say: {set: '${ [$e.status, $e.instance] }'}}]}
      export: {as: '${ $context + {last: .} }'}
  - fails:
      try: [{outer: {try: [{no: {raise: {error: broken}}}], catch: {as: e, do: [{also: {raise: {error: {type: https://a.example/also, status: 500, title: '${ $e.title + " too" }'}}}}]}}}]
      catch: {as: e, do: [{say: {set: '${ $e.title }'}}]}
      export: {as: '${ $context + {fails: .} }'}
  - returns:
      try: [{a: {set: {n: 1}, output: {schema: {format: json, document: {type: object, required: [m]}}}}}]
      catch: {as: e, do: [{say: {set: '${ [$e.status, $e.instance] }'}}]}
      export: {as: '${ $context + {returns: .} }'}
  - exports:
      try: [{a: {set: {n: 1}, export: {as: '${ $context }', schema: {format: json, document: {type: object, required: [m]}}}}}]
      catch: {as: e, do: [{say: {set: '${ $e.status }'}}]}
      export: {as: '${ $context + {exports: .} }'}
  - fits:
      input: {schema: {format: json, document: {type: number}}, from: '${ {n: .} }'}
      set: {n: '${ .n + 1 }'}
      output: {as: '${ .n }', schema: {format: json, document: {type: number, minimum: 400}}}
      export: {as: '${ $context + {fits: .} }'}
`,
			seeds: 4, lasts: 93 * time.Second,
			want: map[string]string{
				"x": `completed {"again":7,"bounded":408,"conditions":["outer","inner","outer","inner"],"exhausted":"of use","exits":409,"exports":400,"fails":"Broken too","filters":["inner","outer y 409 Td","outer x 409 Ud","outer x 409 Te","outer x 410 Td"],"fits":401,"kinds":[["expression",400,"Expression Error","/do/3/kinds/do/0/one/try/1/expression"],["validation",400,"Validation Error","/do/3/kinds/do/0/one/try/2/validation"],["timeout",408,"Timeout","/do/3/kinds/do/0/one/try/3/timeout"],["broken",503,"Broken","/there"]],"last":[408,"/do/11/last/try/0/late"],"overall":409,"picky":"picky","returns":[400,"/do/13/returns/try/0/a"],"tries":3}`,
			},
		},
		{
			name: "durations have the stated length",
			with: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do: [{rest: {wait: P1D}}]
`},
			document: `
timeout: {after: {days: 150}}
output: {as: '${ $context }'}
do:
  - month: {wait: P1M}
  - text: {wait: PT1H2M3.5S}
  - object: {wait: {days: 1, hours: 2, minutes: 3, seconds: 4, milliseconds: 500}}
  - given: {set: {d: PT90S}}
  - computed: {wait: '${ .d }'}
  - week: {wait: P1W}
  - year: {wait: P1M2W}
  - nothing: {wait: PT0S}
  - at: {set: {s: '${ $task.startedAt.epoch.seconds - $workflow.startedAt.epoch.seconds }', at: '${ $task.startedAt.iso8601 }'}, export: {as: '${ {at: [.s, .at]} }'}}
  - hears:
      try: [{hear: {listen: {to: {one: {with: {type: com.example.never}}}}, timeout: {after: {minutes: 5}}}}]
      catch: {errors: {with: {status: 408}}, do: [{say: {set: {n: 1}}}]}
  - asks:
      try: [{ask: {call: http, with: {method: get, endpoint: 'https://a.example/'}, timeout: {after: PT2S}}}]
      catch: {as: e, do: [{say: {set: {n: '${ $e.status }'}}}]}
      export: {as: '${ $context + {asks: .n} }'}
  - runs:
      try: [{child: {run: {workflow: {namespace: test, name: child, version: '1.0.0'}}, timeout: {after: PT10S}}}]
      catch: {as: e, do: [{say: {set: {n: '${ $e.status }'}}}]}
      export: {as: '${ $context + {runs: .n} }'}
  - loops:
      try: [{loop: {for: {in: '${ [range(9)] }'}, do: [{r: {wait: PT1S}}], timeout: {after: PT4.5S}}}]
      catch: {as: e, do: [{say: {set: {n: '${ $e.status }'}}}]}
  - forks:
      try: [{all: {fork: {branches: [{a: {wait: PT1S}}, {b: {wait: PT3S}}]}, timeout: {after: PT2S}}}]
      catch: {do: [{again: {fork: {branches: [{a: {wait: PT1S}}, {b: {wait: PT3S}}]}, timeout: {after: PT4S}}}]}
  - emits: {emit: {event: {with: {type: com.example.tick, source: /x}}}, timeout: {after: PT1S}}
  - end: {set: {n: 1}, export: {as: '${ $context + {took: (now - $workflow.startedAt.epoch.seconds)} }'}}
`,
			mocks: `
http: [{respond: {latency: PT3S, body: {n: 3}}}]
`,
			seeds: 4, lasts: 7_009_919_500 * time.Millisecond,
			want: map[string]string{
				"x":   `completed {"asks":408,"at":[7009598,"2026-03-23T03:06:38Z"],"runs":408,"took":7009919.5}`,
				"x.1": `cancelled`,
			},
		},
		{
			name: "parents receive the results of their children",
			with: []string{`
document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
timeout: {after: P2D}
output: {as: '${ . + {made: true} }'}
do:
  - which: {switch: [{badly: {when: '.how == "badly"', then: badly}}, {late: {when: '.how == "late"', then: late}}, {long: {when: '.how == "long"', then: long}}, {short: {when: '.how == "short"', then: short}}, {count: {when: '.how == "count"', then: count}}]}
  - well: {set: {n: 1}, then: end}
  - badly: {raise: {error: {type: https://a.example/no, status: 409, title: No, detail: really}}}
  - late: {wait: P9D, then: end}
  - long: {wait: PT10H, then: end}
  - short: {wait: PT1H, then: end}
  - count: {set: {n: '${ .n + 1 }', id: '${ $workflow.id }'}, then: end}
`},
			document: `
output: {as: '${ $context }'}
do:
  - well: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {how: well}}}, export: {as: '${ {well: .} }'}}
  - badly:
      for: {each: how, in: '${ ["badly", "late", "none"] }'}
      do:
        - one:
            try: [{run: {run: {workflow: {namespace: test, name: '${ if $how == "none" then "no" else "child" end }', version: '1.0.0', input: {how: '${ $how }'}}}}}]
            catch: {as: e, do: [{say: {set: '${ [$e.status, $e.title, $e.detail, $e.instance] }'}}]}
            export: {as: '${ $context + {($how): .} }'}
  - race:
      fork:
        compete: true
        branches:
          - a: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {how: long}}}}
          - b: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {how: short}}}}
      export: {as: '${ $context + {race: .} }'}
  - each:
      for: {each: n, in: '${ [1, 2] }'}
      do: [{run: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {how: count, n: '${ $n }'}}}, export: {as: '${ $context + {each: (($context.each // []) + [.n])} }'}}}]
  - alone: {input: {from: '${ {n: 1} }'}, run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {how: short}}, await: false}, export: {as: '${ $context + {alone: .} }'}}
  - cancelled:
      try: [{run: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {how: long}}}}}]
      catch: {as: e, do: [{say: {set: '${ [$e.status, $e.detail] }'}}]}
      export: {as: '${ $context + {cancelled: .} }'}
`,
			seeds: 4, acts: []act{{execution: "x.10", after: 2*day + 3*time.Hour, typ: event.ExecutionCancelled}},
			lasts: 51 * time.Hour,
			want: map[string]string{
				"x":    `completed {"alone":{"n":1},"badly":[409,"No","really","/do/1/badly/do/0/one/try/0/run"],"cancelled":[500,"execution x.10 was cancelled"],"each":[2,3],"late":[408,"Timeout","the workflow did not end in time","/do/1/badly/do/0/one/try/0/run"],"none":[400,"Configuration Error","workflow test.no:1.0.0 is not registered","/do/1/badly/do/0/one/try/0/run"],"race":{"how":"short","made":true},"well":{"made":true,"n":1}}`,
				"x.1":  `completed`,
				"x.2":  `faulted`,
				"x.3":  `faulted`,
				"x.4":  `faulted`,
				"x.5":  `cancelled`,
				"x.6":  `completed`,
				"x.7":  `completed {"id":"x.7","made":true,"n":2}`,
				"x.8":  `completed {"id":"x.8","made":true,"n":3}`,
				"x.9":  `completed`,
				"x.10": `cancelled`,
			},
		},
	}
}
