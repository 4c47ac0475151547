package expr

import (
	"fmt"

	"github.com/itchyny/gojq"
)

// prelude redefines jq functions that gojq defines in terms of others that need a guard. They have
// the same meaning; the resolver inserts the guards.
func prelude(signature string) string {
	switch signature {
	case "map/1":
		return `def map(f): [.[] | f];`
	case "any/0":
		return `def any: any(.[]; .);`
	case "any/1":
		return `def any(f): any(.[]; f);`
	case "all/0":
		return `def all: all(.[]; .);`
	case "all/1":
		return `def all(f): all(.[]; f);`
	case "recurse/0":
		return `def recurse: def r: ., (if __parent($__meter) then .[] | r else empty end); r;`
	case "from_entries/0":
		return `def from_entries: map({(.key // .Key // .name // .Name): if has("value") then .value else .Value end}) | add // {};`
	case "add/1":
		return `def add(f): [f] | add;`
	case "map_values/1":
		return `def map_values(f): .[] |= f;`
	case "walk/1":
		return `def walk(f): def _walk: if type == "array" then map(_walk)
			elif type == "object" then map_values(_walk) else . end | f; _walk;`
	case "combinations/0":
		return `def combinations: if length == 0 then [] else .[0][] as $x | [$x] + (.[1:] | combinations) end;`
	case "combinations/1":
		return `def combinations(n): [limit(n; repeat(.))] | combinations;`
	case "first/0":
		return `def first: .[0];`
	case "last/0":
		return `def last: .[-1];`
	case "nth/1":
		return `def nth($n): .[$n];`
	case "with_entries/1":
		return `def with_entries(f): to_entries | map(f) | from_entries;`
	case "IN/1":
		return `def IN(s): any(s == .; .);`
	case "IN/2":
		return `def IN(src; s): any(src == s; .);`
	default:
		return paths(signature)
	}
}

func paths(signature string) string {
	switch signature {
	case "del/1":
		return `def del(f): delpaths([path(f)]);`
	case "paths/0":
		return `def paths: path(..) | select(length > 0);`
	case "paths/1":
		return `def paths(f): path(.. | select(f)) | select(length > 0);`
	case "pick/1":
		return `def pick(f): . as $v | reduce path(f) as $p (null; setpath($p; $v | getpath($p)));`
	case "tostream/0":
		return `def tostream: path(def r: (if __parent($__meter) then .[] | r else empty end), .; r) as $p | getpath($p)
			| reduce path(if __parent($__meter) then .[] else empty end) as $q ([$p, .]; [$p + $q]);`
	case "fromstream/1":
		return `def fromstream(f): foreach f as $pv (null; if .e then null end | $pv as [$p, $v]
			| if $pv | length == 2 then setpath(["v"] + $p; $v) | setpath(["e"]; $p | length == 0)
			else setpath(["e"]; $p | length == 1) end; if .e then .v else empty end);`
	case "truncate_stream/1":
		return `def truncate_stream(f): . as $n | null | f
			| if .[0] | length > $n then .[0] |= .[$n:] else empty end;`
	default:
		return joins(signature)
	}
}

func joins(signature string) string {
	switch signature {
	case "INDEX/2":
		return `def INDEX(stream; f): [stream as $row | {($row | f | tostring): $row}] | add // {};`
	case "INDEX/1":
		return `def INDEX(f): INDEX(.[]; f);`
	case "JOIN/2":
		return `def JOIN($idx; f): [.[] | [., $idx[f]]];`
	case "JOIN/3":
		return `def JOIN($idx; stream; f): stream | [., $idx[f]];`
	case "JOIN/4":
		return `def JOIN($idx; stream; f; g): stream | [., $idx[f]] | g;`
	default:
		return patterns(signature)
	}
}

func patterns(signature string) string {
	switch signature {
	case "match/2":
		return `def match($re; $flags): __match($re; $flags; false; $__meter)[];`
	case "match/1":
		return `def match($re): if $re | type == "array" then match($re[0]; $re[1]) else match($re; null) end;`
	case "test/2":
		return `def test($re; $flags): __match($re; $flags; true; $__meter);`
	case "test/1":
		return `def test($re): if $re | type == "array" then test($re[0]; $re[1]) else test($re; null) end;`
	case "capture/2":
		return `def capture($re; $flags): match($re; $flags) | .captures | _captures;`
	case "capture/1":
		return `def capture($re): match($re) | .captures | _captures;`
	case "scan/2":
		return `def scan($re; $flags): match($re; $flags + "g")
			| if .captures | length == 0 then .string else [.captures[].string] end;`
	case "scan/1":
		return `def scan($re): scan($re; null);`
	case "splits/2":
		return `def splits($re; $flags): [match($re; $flags + "g")] as $__ms | __between($__ms; $__meter)[];`
	case "splits/1":
		return `def splits($re): splits($re; null);`
	case "split/2":
		return `def split($re; $flags): [splits($re; $flags)];`
	case "sub/3":
		return `def sub($re; str; $flags): [match($re; $flags)] as $__ms | __between($__ms; $__meter) as $parts
			| [$__ms[] | [.captures | _captures | str]] as $new | __replace($parts; $new; $__meter)[];`
	case "sub/2":
		return `def sub($re; str): sub($re; str; null);`
	case "gsub/2":
		return `def gsub($re; str): sub($re; str; "g");`
	case "gsub/3":
		return `def gsub($re; str; $flags): sub($re; str; $flags + "g");`
	default:
		return ""
	}
}

// parsed parses a definition of the prelude.
func parsed(source string) *gojq.FuncDef {
	query, err := gojq.Parse(source + " .")
	if err != nil {
		panic(fmt.Errorf("expr: prelude %q: %w", source, err))
	}
	return query.FuncDefs[0]
}
