package spec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/sim/spec"
)

// updated runs all cases of a test file, and returns the result of Update.
func updated(t *testing.T, w files) map[string]string {
	t.Helper()
	s := suite(t, w)
	var verdicts []*spec.Verdict
	for _, c := range s.Cases {
		v := run(t, c, nil)
		if len(v.Differences) > 0 || c.Expect.IsEmpty() {
			verdicts = append(verdicts, v)
		}
	}
	texts, err := s.Update(verdicts, w.read, rerun(t))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for file, text := range texts {
		out[file] = string(text)
	}
	return out
}

func rerun(t *testing.T) func(*spec.Case) (*spec.Verdict, error) {
	return func(c *spec.Case) (*spec.Verdict, error) { return run(t, c, nil), nil }
}

// Update changes what differs and leaves everything else unchanged.
func TestUpdate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after string }{
		"scalars keep their comments": {
			`  - name: ünïcode 漢字   # here
    expect:   # and
      status: faulted  # there

      elapsed: "<= PT1H"   # everywhere
`,
			`  - name: ünïcode 漢字   # here
    expect:   # and
      status: completed  # there

      elapsed: P1D   # everywhere
`,
		},
		"a part stays a part": {
			`  - name: a
    expect:
      output:
        amount: 6 # six
        paid: true
        tags:
          - a
          # between
          - c
`,
			`  - name: a
    expect:
      output:
        amount: 5 # six
        paid: true
        tags:
          - a
          # between
          - b
`,
		},
		"a list of another length": {
			"  - {name: a, expect: {output: {tags: [a], 'paid': true}}} # end\n",
			"  - {name: a, expect: {output: {tags: [a, b], 'paid': true}}} # end\n",
		},
		"a block list": {
			"  - name: a\n    expect:\n      tasks:\n      - pay\n      - done\n      elapsed: P1D\n",
			"  - name: a\n    expect:\n      tasks:\n      - pay\n      - decide\n      - review\n      - done\n      elapsed: P1D\n",
		},
		"a missing member": {
			"  - name: a\n    expect:\n      output:\n        sum: 6\n        amount: 7\n",
			"  - name: a\n    expect:\n      output:\n        amount: 5\n",
		},
		"an expression that is not true": {
			"  - name: a\n    expect:\n      output: \"${ .amount > 5 }\"\n",
			"  - name: a\n    expect:\n      output: {amount: 5, paid: true, tags: [a, b]}\n",
		},
		"an output instead of an error": {
			"  - name: a\n    expect: {error: timeout, elapsed: P1D}\n",
			"  - name: a\n    expect: {output: {amount: 5, paid: true, tags: [a, b]}, elapsed: P1D}\n",
		},
		"an error instead of an output": {
			"  - name: a\n    mocks: {http: [{respond: {status: 418}}]}\n    expect:\n      output:\n        paid: true\n",
			"  - name: a\n    mocks: {http: [{respond: {status: 418}}]}\n    expect:\n      error: {status: 418, type: communication}\n",
		},
		"a status that was not written": {
			"  - name: a\n    until: PT1H\n    expect:\n      elapsed: PT2H\n",
			"  - name: a\n    until: PT1H\n    expect:\n      status: waiting\n      elapsed: PT1H\n",
		},
		"an output that does not come": {
			"  - name: a\n    until: PT1H\n    expect:\n      status: completed\n      output: {}\n      elapsed: PT1H\n",
			"  - name: a\n    until: PT1H\n    expect:\n      status: waiting\n      elapsed: PT1H\n",
		},
		"times of requests": {
			"  - name: a\n    expect:\n      requests:\n        - {method: POST, times: 3}\n        - url: \"*/refund\"\n",
			"  - name: a\n    expect:\n      requests:\n        - {method: POST, times: 1}\n        - times: 0\n          url: \"*/refund\"\n",
		},
		"requests that were not expected": {
			"  - name: a\n    expect: {requests: []}\n",
			"  - name: a\n    expect: {requests: [{method: POST, times: 1, url: 'https://pay.example/charge'}]}\n",
		},
		"a case without expectations": {
			"  - name: a   # why\n  # about b\n  - {name: b}\n",
			"  - name: a   # why\n    expect:\n      status: completed\n      output:\n        amount: 5\n        paid: true\n        tags:\n          - a\n          - b\n" +
				"  # about b\n  - {name: b, expect: {status: completed, output: {amount: 5, paid: true, tags: [a, b]}}}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := mocks + "tests:\n" + c.before
			got := updated(t, files{"order.test.yaml": before})["order.test.yaml"]
			if diff := cmp.Diff(mocks+"tests:\n"+c.after, got); diff != "" {
				t.Errorf("the file differs (-want +got):\n%s", diff)
			}
		})
	}
}

// An output in a separate file is changed there.
func TestUpdateOfNamedFile(t *testing.T) {
	t.Parallel()
	got := updated(t, files{
		"order.test.yaml": mocks + "tests: [{name: a, expect: {output: '@out.json'}}]\n",
		"out.json":        "{\n  \"paid\": \"yes\",\n  \"tags\": [\"a\"]\n}\n",
	})
	want := map[string]string{"out.json": "{\n  \"paid\": true,\n  \"tags\": [\"a\",\"b\"]\n}\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files differ (-want +got):\n%s", diff)
	}
}

// A change that would affect the rest of a file is rejected, with its line.
func TestUpdateRefuses(t *testing.T) {
	t.Parallel()
	s := suite(t, files{"order.test.yaml": mocks + "tests:\n  - {name: a, expect: &all {elapsed: P2D}}\n  - {name: b, expect: {elapsed: &long P2D}}\n"})
	_, err := s.Update([]*spec.Verdict{run(t, s.Cases[0], nil), run(t, s.Cases[1], nil)}, files{}.read, rerun(t))
	if err == nil || !strings.HasPrefix(err.Error(), "order.test.yaml:4: the result cannot be written here") {
		t.Errorf("Update = %v, want the line with the anchor", err)
	}
}

// A file that a case also reads as its input is left unchanged.
func TestUpdateKeepsInput(t *testing.T) {
	t.Parallel()
	w := files{
		"order.test.yaml": mocks + "input: '@in.json'\ntests: [{name: a, expect: {output: '@in.json'}}]\n",
		"in.json":         "{\"amount\": 5, \"rest\": 1}\n",
	}
	s := suite(t, w)
	_, err := s.Update([]*spec.Verdict{run(t, s.Cases[0], nil)}, w.read, rerun(t))
	if err == nil || !strings.HasSuffix(err.Error(), "its file is also the input of the case") {
		t.Errorf("Update = %v, want an error", err)
	}
}
