# Functions of expressions that are defined here: those of jq that gojq defines in terms of others that
# need a guard, with the same meaning. The resolver inserts the guards. A function that is not in jq
# works the same; if it is written in Go, it calls one of budget.Functions with $__meter, as match does.

def map(f): [.[] | f];
def any: any(.[]; .);
def any(f): any(.[]; f);
def all: all(.[]; .);
def all(f): all(.[]; f);
def recurse: def r: ., (if __parent($__meter) then .[] | r else empty end); r;
def from_entries: map({(.key // .Key // .name // .Name): if has("value") then .value else .Value end}) | add // {};
def add(f): [f] | add;
def map_values(f): .[] |= f;
def walk(f): def _walk: if type == "array" then map(_walk)
  elif type == "object" then map_values(_walk) else . end | f; _walk;
def combinations: if length == 0 then [] else .[0][] as $x | [$x] + (.[1:] | combinations) end;
def combinations(n): [limit(n; repeat(.))] | combinations;
def first: .[0];
def last: .[-1];
def nth($n): .[$n];
def with_entries(f): to_entries | map(f) | from_entries;
def IN(s): any(s == .; .);
def IN(src; s): any(src == s; .);
def del(f): delpaths([path(f)]);
def paths: path(..) | select(length > 0);
def paths(f): path(.. | select(f)) | select(length > 0);
def pick(f): . as $v | reduce path(f) as $p (null; setpath($p; $v | getpath($p)));
def tostream: path(def r: (if __parent($__meter) then .[] | r else empty end), .; r) as $p | getpath($p)
  | reduce path(if __parent($__meter) then .[] else empty end) as $q ([$p, .]; [$p + $q]);
def fromstream(f): foreach f as $pv (null; if .e then null end | $pv as [$p, $v]
  | if $pv | length == 2 then setpath(["v"] + $p; $v) | setpath(["e"]; $p | length == 0)
  else setpath(["e"]; $p | length == 1) end; if .e then .v else empty end);
def truncate_stream(f): . as $n | null | f
  | if .[0] | length > $n then .[0] |= .[$n:] else empty end;
def INDEX(stream; f): [stream as $row | {($row | f | tostring): $row}] | add // {};
def INDEX(f): INDEX(.[]; f);
def JOIN($idx; f): [.[] | [., $idx[f]]];
def JOIN($idx; stream; f): stream | [., $idx[f]];
def JOIN($idx; stream; f; g): stream | [., $idx[f]] | g;
def fromjson: __fromjson($__meter);
def match($re; $flags): __match($re; $flags; false; $__meter)[];
def match($re): if $re | type == "array" then match($re[0]; $re[1]) else match($re; null) end;
def test($re; $flags): __match($re; $flags; true; $__meter);
def test($re): if $re | type == "array" then test($re[0]; $re[1]) else test($re; null) end;
def capture($re; $flags): match($re; $flags) | .captures | _captures;
def capture($re): match($re) | .captures | _captures;
def scan($re; $flags): match($re; $flags + "g")
  | if .captures | length == 0 then .string else [.captures[].string] end;
def scan($re): scan($re; null);
def splits($re; $flags): [match($re; $flags + "g")] as $__ms | __between($__ms; $__meter)[];
def splits($re): splits($re; null);
def split($re; $flags): [splits($re; $flags)];
def sub($re; str; $flags): [match($re; $flags)] as $__ms | __between($__ms; $__meter) as $parts
  | [$__ms[] | [.captures | _captures | str]] as $new | __replace($parts; $new; $__meter)[];
def sub($re; str): sub($re; str; null);
def gsub($re; str): sub($re; str; "g");
def gsub($re; str; $flags): sub($re; str; $flags + "g");
