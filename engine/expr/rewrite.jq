# What replaces a call of a function or an operator, so that it pays for all of its work: gojq pays one
# step, however large the operands are. The functions with __ are those of budget.Functions, which get
# the meter as an argument. Inside a rule, its own name is jq's function.

def now: $__now;

# The work depends on the size of the input,
def length: __shallow($__meter) | length;
def keys: __shallow($__meter) | keys;
def reverse: __shallow($__meter) | reverse;
def ascii_downcase: __shallow($__meter) | ascii_downcase;
def ascii_upcase: __shallow($__meter) | ascii_upcase;
def ltrimstr(x): __shallow($__meter) | ltrimstr(x);
def rtrimstr(x): __shallow($__meter) | rtrimstr(x);
def trimstr(x): __shallow($__meter) | trimstr(x);
def ltrim: __shallow($__meter) | ltrim;
def rtrim: __shallow($__meter) | rtrim;
def trim: __shallow($__meter) | trim;
def startswith(x): __shallow($__meter) | startswith(x);
def endswith(x): __shallow($__meter) | endswith(x);
def to_entries: __entries($__meter) | to_entries;
def transpose: __cells($__meter) | transpose;
def tonumber: __numeral($__meter) | tonumber;

# or of all of its parts, once or several times: each character becomes a value of 16 bytes twice.
def tojson: __deep(1; $__meter) | tojson;
def tostring: __deep(1; $__meter) | tostring;
def flatten: __deep(1; $__meter) | flatten;
def flatten(x): __deep(1; $__meter) | flatten(x);
def implode: __deep(1; $__meter) | implode;
def error: __deep(1; $__meter) | error;
def add: __deep(1; $__meter) | add;
def format(x): __deep(1; $__meter) | format(x);
def min: __deep(2; $__meter) | min;
def max: __deep(2; $__meter) | max;
def explode: __deep(32; $__meter) | explode;
def split(x): __deep(32; $__meter) | split(x);
def sort: __sort($__meter) | sort;
def unique: __sort($__meter) | unique;

# The work depends on an argument or a result.
def path(f): path(f) | __shallow($__meter);
def getpath(p): getpath(p | __shallow($__meter));
def setpath(p; x): setpath(__setpath(p; $__meter); x);
def delpaths(p): __delpaths(p; $__meter);
def error(x): error(x | __deep(1; $__meter));
def contains(x): x as $__value | __pair($__value; $__meter) | contains($__value);
def inside(x): x as $__value | __pair($__value; $__meter) | inside($__value);
def index(x): x as $__value | __pair($__value; $__meter) | index($__value);
def rindex(x): x as $__value | __pair($__value; $__meter) | rindex($__value);
def indices(x): x as $__value | __pair($__value; $__meter) | indices($__value);
def join(x): x as $__value | __pair($__value; $__meter) | join($__value);
def bsearch(x): __deep(1; $__meter) | bsearch(x | __deep(2; $__meter));
def sort_by(f): __each($__meter) | sort_by(f | __sort($__meter));
def group_by(f): __each($__meter) | group_by(f | __sort($__meter));
def unique_by(f): __each($__meter) | unique_by(f | __sort($__meter));
def min_by(f): __each($__meter) | min_by(f | __sort($__meter));
def max_by(f): __each($__meter) | max_by(f | __sort($__meter));
def jn(n; x): jn(__order(n; $__meter); x);
def yn(n; x): yn(__order(n; $__meter); x);

# Dates are short.
def fromdate: __date($__meter) | fromdate;
def fromdateiso8601: __date($__meter) | fromdateiso8601;
def mktime: __date($__meter) | mktime;
def gmtime: __date($__meter) | gmtime;
def todate: __date($__meter) | todate;
def todateiso8601: __date($__meter) | todateiso8601;
def strptime(f): __date($__meter) | strptime(f | __date($__meter));
def strftime(f): __date($__meter) | strftime(f | __date($__meter));

# Updates pay for each path: left = right, left //= right, left += right and the like, with + as change,
# and left |= right. If right has no result there, the value is marked and deleted at the end, or left
# unset if there was none.
def __assign(left; right): right as $__value | __update($__meter) as $__update
  | _assign(getpath(__path(path(left); $__update)); $__value);
def __default(left; right): right as $__value | __update($__meter) as $__update
  | _modify(getpath(__path(path(left); $__update)); _alternative(.; $__value));
def __change(left; right; change): right as $__value | __update($__meter) as $__update
  | _modify(getpath(__path(path(left); $__update)); change);
def __modify(left; right): def __left: left; def __right: right; __update($__meter) as $__update
  | _modify(
      getpath(__path(path(__left); $__update) | if __found($__update) or
        (label $__out | ((null | __right | true), false) | ., break $__out) then . else empty end);
      (__sweep($__meter) | __right), __deleted($__update))
  | __sweep($__meter);
