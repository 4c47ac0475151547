package history_test

import (
	"testing"

	"flunq.io/flunq/engine/history"
)

func TestTask(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"":                                    "",
		"/do/0/pay":                           "/do/0/pay",
		"/do/0/pay#0":                         "/do/0/pay[0]",
		"/do/0/pay@1":                         "/do/0/pay attempt 2",
		"/do/0/pay#2.0@0.1":                   "/do/0/pay[2.0] attempt 1.2",
		"/do/0/ask#r1":                        "/do/0/ask[1]",
		"/do/0/ask#3.r0.r2@12":                "/do/0/ask[3.0.2] attempt 13",
		"/do/0/pay@r1":                        "/do/0/pay retried 1",
		"/do/0/pay@1.r2":                      "/do/0/pay attempt 2 retried 2",
		"/do/0/pay@r1.1":                      "/do/0/pay retried 1 attempt 2",
		"/use/functions/f/do/0/a#2./do/1/x.y": "/use/functions/f/do/0/a[2]",
		"/use/functions/f#/do/1/x.y.4":        "/use/functions/f[4]",
		"/do/0/a~2b~3c#1":                     "/do/0/a#b@c[1]",
	} {
		if got := history.Task(id); got != want {
			t.Errorf("Task(%q) = %q, want %q", id, got, want)
		}
	}
	for ref, want := range map[string]string{"": "", "/do/0/pay": "pay", "/do/0/get~1order~01": "get/order~1"} {
		if got := history.TaskName(ref); got != want {
			t.Errorf("TaskName(%q) = %q, want %q", ref, got, want)
		}
	}
	if got := history.Run("pay", "2", "1"); got != "pay[2] attempt 2" {
		t.Error(got)
	}
}
